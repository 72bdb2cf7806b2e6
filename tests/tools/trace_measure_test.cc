// dsckpt trace without --quick: its numbers against wide references, and that they are the same
// however the work is divided.

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/analysis/samples.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<int64_t> kSteps = {0, 10, 20, 50};

using Floats = std::vector<float>;
/// Values by checkpoint.
using History = std::vector<Floats>;
using Wide = long double;
using MaybeWide = std::optional<Wide>;

void SaveStep(const std::string& run, int64_t step, SampleTensors tensors, bool plain = false) {
  std::filesystem::create_directories(run);
  const std::string path = run + "/step" + std::to_string(step);
  plain ? SavePlainSample(path + ".safetensors", tensors) : SaveSample(path + ".dsckpt", tensors);
}

History Walk(size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> weight(0.3f, 1), update(0, 0.01f);
  History history(kSteps.size(), Floats(elements));
  for (float& value : history[0]) value = weight(random);
  for (size_t t = 1; t < history.size(); ++t) {
    for (size_t i = 0; i < elements; ++i) history[t][i] = history[t - 1][i] + update(random);
  }
  return history;
}

/// Two layers and a tensor without; some elements are no numbers, and one tensor rests for a step.
std::map<std::string, History> Model() {
  std::map<std::string, History> model = {{"layers.0.up", Walk(5000, 1)},
                                          {"layers.0.down", Walk(300, 2)},
                                          {"layers.1.up", Walk(5000, 3)},
                                          {"norm", Walk(7, 4)}};
  for (size_t t = 1; t < kSteps.size(); ++t) model["layers.0.up"][t][4321] = kNaN;
  model["layers.0.up"][2][17] = kInf;
  model["layers.0.up"][3][17] = -kInf;
  model["norm"][2] = model["norm"][1];
  model["norm"][0][3] = -0.0f;
  return model;
}

void SaveModel(const std::string& run, bool plain = false) {
  for (size_t t = 0; t < kSteps.size(); ++t) {
    SampleTensors tensors;
    for (const auto& [name, history] : Model()) tensors[name] = Sample(history[t]);
    SaveStep(run, kSteps[t], tensors, plain);
  }
}

/// The tensors whose names begin in this way, as one.
History Joined(const std::string& prefix) {
  History joined(kSteps.size());
  for (const auto& [name, history] : Model()) {
    if (!name.starts_with(prefix)) continue;
    for (size_t t = 0; t < joined.size(); ++t) {
      joined[t].insert(joined[t].end(), history[t].begin(), history[t].end());
    }
  }
  return joined;
}

MaybeWide Over(Wide above, Wide below) {
  return below == 0 ? std::nullopt : MaybeWide(above / below);
}

/// Sums over elements that are finite in all of the values.
template <typename Term>
Wide SumOver(const std::vector<const Floats*>& values, const Term& term) {
  Wide sum = 0;
  for (size_t i = 0; i < values[0]->size(); ++i) {
    bool finite = true;
    for (const Floats* const each : values) finite = finite && std::isfinite((*each)[i]);
    if (finite) sum += term(i);
  }
  return sum;
}

using Columns = std::map<std::string, MaybeWide>;

Columns MomentColumns(const Floats& now) {
  Columns c;
  const auto count = [&](auto is) { return std::count_if(now.begin(), now.end(), is); };
  c["nan"] = count([](float x) { return std::isnan(x); });
  c["inf"] = count([](float x) { return std::isinf(x); });
  c["zero"] = count([](float x) { return x == 0; });
  const Wide n = SumOver({&now}, [](size_t) { return 1; });
  c["n"] = now.size();
  c["n_finite"] = n;
  const Wide mean = SumOver({&now}, [&](size_t i) { return Wide{now[i]}; }) / n;
  const Wide squares = SumOver({&now}, [&](size_t i) { return Wide{now[i]} * now[i]; });
  c["mean"] = mean;
  c["std"] =
      std::sqrt(SumOver({&now}, [&](size_t i) { return (now[i] - mean) * (now[i] - mean); }) / n);
  c["norm"] = std::sqrt(squares);
  c["rms"] = std::sqrt(squares / n);
  Wide min = kInf, max = -kInf;
  for (const float x : now) {
    if (!std::isfinite(x)) continue;
    min = std::min<Wide>(min, x), max = std::max<Wide>(max, x);
  }
  c["min"] = min, c["max"] = max, c["absmax"] = std::max(-min, max);
  return c;
}

void AddUpdateColumns(Columns& c, const Floats& before, const Floats& now, int64_t gap) {
  const auto u = [&](size_t i) { return Wide{now[i]} - before[i]; };
  const auto sum = [&](auto term) { return SumOver({&before, &now}, term); };
  const Wide norm = std::sqrt(sum([&](size_t i) { return u(i) * u(i); }));
  const Wide a = std::sqrt(sum([&](size_t i) { return Wide{before[i]} * before[i]; }));
  const Wide b = std::sqrt(sum([&](size_t i) { return Wide{now[i]} * now[i]; }));
  const Wide ab = sum([&](size_t i) { return Wide{before[i]} * now[i]; });
  size_t changed = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    changed += std::bit_cast<uint32_t>(now[i]) != std::bit_cast<uint32_t>(before[i]) ? 1 : 0;
  }
  c["upd_norm"] = norm;
  c["upd_rms"] = norm / std::sqrt(sum([](size_t) { return 1; }));
  c["upd_ratio"] = Over(norm, a);
  c["upd_per_step"] = norm / gap;
  c["angle_prev"] = 1 - ab / (a * b);
  c["changed"] = Wide(changed) / now.size();
}

MaybeWide Cosine(const Floats& first, const Floats& second, const Floats& third) {
  const auto sum = [&](auto term) { return SumOver({&first, &second, &third}, term); };
  const auto u = [&](size_t i) { return Wide{second[i]} - first[i]; };
  const auto v = [&](size_t i) { return Wide{third[i]} - second[i]; };
  return Over(sum([&](size_t i) { return u(i) * v(i); }),
              std::sqrt(sum([&](size_t i) { return u(i) * u(i); })) *
                  std::sqrt(sum([&](size_t i) { return v(i) * v(i); })));
}

Columns Expected(const History& history, size_t t) {
  Columns c = MomentColumns(history[t]);
  c["step"] = kSteps[t];
  c["dist_init"] = std::sqrt(SumOver({&history[0], &history[t]}, [&](size_t i) {
    return (Wide{history[t][i]} - history[0][i]) * (Wide{history[t][i]} - history[0][i]);
  }));
  for (const char* const name : {"prev_step", "upd_norm", "upd_rms", "upd_ratio", "upd_per_step",
                                 "cos_prev", "angle_prev", "changed"}) {
    c[name] = std::nullopt;
  }
  if (t == 0) return c;
  c["prev_step"] = kSteps[t - 1];
  AddUpdateColumns(c, history[t - 1], history[t], kSteps[t] - kSteps[t - 1]);
  if (t > 1) c["cos_prev"] = Cosine(history[t - 2], history[t - 1], history[t]);
  return c;
}

void CheckColumns(const Json& row, const Columns& expected) {
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    REQUIRE(row[name].is_null() == !value.has_value());
    if (!value) continue;
    const double scale = name == "angle_prev" ? 1e-5 : 1e-12;
    CHECK(row[name].get<double>() ==
          Approx(static_cast<double>(*value)).epsilon(scale).margin(1e-15));
  }
}

Json TraceJsonOf(Strings args) {
  args.insert(args.begin(), "trace");
  args.push_back("--json");
  return Json::parse(RunOk(args).out);
}

Strings Kinds(const Json& document) {
  Strings kinds;
  for (const Json& event : document["events"]) kinds.push_back(event["kind"]);
  return kinds;
}

/// The step of the first jump and so on are in the names of tests/support/planted_run.h.
Strings Events(const Json& document) {
  Strings events;
  for (const Json& event : document["events"]) {
    const Json& name = event["name"];
    events.push_back(event["kind"].get<std::string>() + " " + event["step"].dump() + " " +
                     (name.is_null() ? "" : name.get<std::string>()));
  }
  return events;
}

}  // namespace

TEST_CASE("trace: every number of the long table, against wide sums") {
  TempDir dir;
  const std::string run = dir / "run";
  SaveModel(run);
  for (const Strings& more : {Strings{}, {"-j", "1"}, {"--memory", "1MiB", "-j", "7"}}) {
    Strings args = {run};
    args.insert(args.end(), more.begin(), more.end());
    const Json document = TraceJsonOf(args);
    REQUIRE(document["rows"].size() == 4 * kSteps.size());
    size_t at = 0;
    for (const auto& [name, history] : Model()) {
      for (size_t t = 0; t < kSteps.size(); ++t) {
        CAPTURE(name, kSteps[t]);
        const Json& row = document["rows"][at++];
        CHECK(row["name"] == name);
        CheckColumns(row, Expected(history, t));
      }
    }
  }
}

TEST_CASE("trace: groups are as if their tensors were one") {
  TempDir dir;
  const std::string run = dir / "run";
  SaveModel(run);
  struct Case {
    const char* by;
    Strings groups, prefixes;
  };
  const std::vector<Case> cases = {
      {"all", {"all"}, {""}},
      {"dtype", {"F32"}, {""}},
      {"layer", {"layers.0", "layers.1", "norm"}, {"layers.0", "layers.1", "norm"}},
      {"module", {"layers.#", "norm"}, {"layers", "norm"}}};
  for (const Case& each : cases) {
    CAPTURE(each.by);
    const Json document = TraceJsonOf({run, "--by", each.by});
    CHECK(document["by"] == each.by);
    REQUIRE(document["rows"].size() == each.groups.size() * kSteps.size());
    for (size_t g = 0; g < each.groups.size(); ++g) {
      for (size_t t = 0; t < kSteps.size(); ++t) {
        const Json& row = document["rows"][g * kSteps.size() + t];
        CAPTURE(row.dump());
        CHECK(row["name"] == each.groups[g]);
        CHECK(row["group"] == each.groups[g]);
        CheckColumns(row, Expected(Joined(each.prefixes[g]), t));
      }
    }
  }
}

TEST_CASE("trace: flags, and the step that has the same content") {
  TempDir dir;
  const std::string run = dir / "run";
  const bool plain = GENERATE(false, true);
  CAPTURE(plain);
  SaveModel(run, plain);
  const Json rows = TraceJsonOf({run, "-f", "norm"})["rows"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["digest"].is_null() == plain);
  CHECK(rows[1]["flags"] == 0);
  CHECK(rows[1]["same_as_step"].is_null());
  CHECK(rows[2]["flags"] == 4);
  CHECK(rows[2]["same_as_step"] == 10);
  CHECK(rows[2]["changed"] == 0.0);
  CHECK(rows[2]["upd_norm"] == 0.0);
  CHECK(rows[3]["same_as_step"].is_null());
  const Json steps = TraceJsonOf({run})["steps"];
  CHECK(steps[0]["changed"].is_null());
  CHECK(steps[1]["changed"] == 4);
  CHECK(steps[2]["changed"] == 3);
}

TEST_CASE("trace: what was planted is found from elements, and nothing else is") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  const Json document = TraceJsonOf({run});
  CHECK(Events(document) == Strings{"jump 9000 " + planted::kSpiking, "missing_step 11000 ",
                                    "duplicate 14000 ", "nan 16000 " + planted::kWithNan,
                                    "frozen 18000 " + planted::kFrozen});
  const Json& nan = document["events"][3];
  CHECK(nan["element"] == 5);
  CHECK(nan["last_clean_step"] == 15000);
  CHECK(nan["command"] == "dsckpt stats " + run + "@16000 --filter " + planted::kWithNan);
  for (const Json& row : document["rows"]) {
    const bool jump = row["name"] == planted::kSpiking && row["step"] == planted::kSpikeStep;
    CHECK((row["flags"].get<int>() & 2) == (jump ? 2 : 0));
  }
  const std::string text = RunOk({"trace", run}).out;
  CHECK(Contains(text, "The first NaN is in " + planted::kWithNan +
                           ", element 5, at step 16000; the last one without is step 15000."));
  CHECK(RunTool({"trace", run, "-q", "--fail-on", "coarse,dead"}).code == 0);
  CHECK(RunTool({"trace", run, "-q", "--fail-on", "jump"}).code == 1);
}

TEST_CASE("trace: parts come together as if one process had measured all") {
  TempDir dir;
  const std::string run = dir / "run";
  const bool plain = GENERATE(false, true);
  CAPTURE(plain);
  SaveModel(run, plain);
  RunOk({"trace", run, "-o", dir / "whole.csv"});
  const uint64_t whole = TraceJsonOf({run})["read_bytes"];
  uint64_t read = 0;
  std::set<std::string> names;
  Strings combine = {"trace", run, "-o", dir / "combined.csv", "--combine"};
  for (const std::string part : {"1", "2", "3"}) {
    const Json document =
        TraceJsonOf({run, "--part", part + "/3", "--cache", dir / ("part" + part)});
    read += document["read_bytes"].get<uint64_t>();
    for (const Json& row : document["rows"]) names.insert(part + row["name"].get<std::string>());
    combine.push_back(dir / ("part" + part));
  }
  CHECK(read == whole);
  CHECK(names.size() == 4);
  CHECK(RunOk(combine).err.empty());
  CHECK(ReadWholeFile(dir / "combined.csv") == ReadWholeFile(dir / "whole.csv"));
  combine.pop_back();
  CHECK(Contains(RunOk(combine).err, "the files of --combine do not know them"));
  CHECK(ReadWholeFile(dir / "combined.csv") == ReadWholeFile(dir / "whole.csv"));
  combine.push_back(dir / "part4");
  const Outcome missing = RunTool(combine);
  CHECK(missing.code == 2);
  CHECK(Contains(missing.err, "there is no file '" + (dir / "part4")));
  // Put together by any tool.
  std::string all;
  for (const std::string part : {"3", "1", "2"}) all += ReadWholeFile(dir / ("part" + part));
  WriteWholeFile(dir / "all", all);
  const Json cached = TraceJsonOf({run, "--cache", dir / "all"});
  CHECK(cached["read_bytes"] == 0);
  CHECK(ReadWholeFile(dir / "all") == all);
  // More parts than tensors.
  CHECK(TraceJsonOf({run, "--part", "6/6"})["rows"].empty());
}

TEST_CASE("trace: a cache leaves what is new to be read") {
  TempDir dir;
  const std::string run = dir / "run", cache = dir / "cache";
  SampleTensors tensors = {{"a", Sample<float>({1, 2, 3})}, {"rest", Sample<float>({4, 5})}};
  for (const int64_t step : {1, 2, 3}) {
    tensors["a"] = Sample<float>({1, 2, static_cast<float>(step)});
    SaveStep(run, step, tensors);
  }
  // The tensor that rests is read once.
  CHECK(TraceJsonOf({run, "--cache", cache})["read_bytes"] == 3 * 12 + 8);
  CHECK(TraceJsonOf({run, "--cache", cache})["read_bytes"] == 0);
  tensors["a"] = Sample<float>({1, 2, 4});
  SaveStep(run, 4, tensors);
  TraceJsonOf({run, "--cache", cache});
  tensors["a"] = Sample<float>({1, 2, 9});
  SaveStep(run, 5, tensors);
  const Json with = TraceJsonOf({run, "--cache", cache});
  const Json without = TraceJsonOf({run});
  CHECK(with["rows"] == without["rows"]);
  // The tensor itself, two checkpoints before it, and the first one.
  CHECK(with["read_bytes"] == 4 * 12);
  CHECK(with["rows"][4]["upd_norm"] == 5.0);
  CHECK(with["rows"][4]["dist_init"] == 8.0);
  // A copy of a run is known by its content.
  std::filesystem::copy(run, dir / "copy", std::filesystem::copy_options::recursive);
  CHECK(TraceJsonOf({dir / "copy", "--cache", cache})["read_bytes"] == 0);
  WriteWholeFile(cache, "no cache\n");
  const Outcome bad = RunTool({"trace", run, "--cache", cache});
  CHECK(bad.code == 1);
  CHECK(Contains(bad.err, "line 1: expected a line of measures"));
  CHECK(ReadWholeFile(cache) == "no cache\n");
}

TEST_CASE("trace: --against compares with one checkpoint") {
  TempDir dir;
  const std::string run = dir / "run";
  SampleTensors tensors;
  for (const int64_t step : {1, 2, 4}) {
    tensors["a"] = Sample<float>({0, static_cast<float>(step)});
    SaveStep(run, step, tensors);
  }
  struct Case {
    Strings against;
    int64_t step;
    std::vector<double> norm;
  };
  const std::vector<Case> cases = {{{"init"}, 1, {0, 1, 3}},
                                   {{"final"}, 4, {3, 2, 0}},
                                   {{"2"}, 2, {1, 0, 2}},
                                   {{"2", "--last", "1"}, 2, {2}},
                                   {{"2", "--quick"}, 2, {1, 0, 2}}};
  for (const Case& each : cases) {
    Strings args = {run, "--against"};
    args.insert(args.end(), each.against.begin(), each.against.end());
    const Json document = TraceJsonOf(args);
    const Json& rows = document["rows"];
    REQUIRE(rows.size() == each.norm.size());
    for (size_t t = 0; t < rows.size(); ++t) {
      CAPTURE(each.against, rows[t].dump());
      // It is not compared with itself.
      const bool itself = rows[t]["step"] == each.step;
      CHECK(rows[t]["prev_step"] == (itself ? Json() : Json(each.step)));
      const bool norm = !itself && document["quick"] == false;
      CHECK(rows[t]["upd_norm"] == (norm ? Json(each.norm[t]) : Json()));
      CHECK(rows[t]["cos_prev"].is_null());
      CHECK(rows[t]["flags"] == 0);
    }
  }
  CHECK(TraceJsonOf({run})["rows"][2]["prev_step"] == 2);
  CHECK(RunTool({"trace", run, "--against", "3"}).code == 2);
  CHECK(RunTool({"trace", run, "--against", "before"}).code == 2);
}

TEST_CASE("trace: tensors that change their form, come, go, or cannot be measured") {
  TempDir dir;
  const std::string run = dir / "run";
  const SampleTensor packed = {dsckpt::DType::kF4, {4}, std::vector<std::byte>(2)};
  SampleTensors first = {{"gone", Sample<float>({1})},
                         {"packed", packed},
                         {"shape", Sample<float>({1, 2, 3, 4}, {4})},
                         {"type", Sample<float>({1, 2})}};
  SampleTensors second = {{"came", Sample<float>({1})},
                          {"packed", {dsckpt::DType::kF4, {4}, {std::byte{1}, std::byte{0}}}},
                          {"shape", Sample<float>({1, 2, 3, 4}, {2, 2})},
                          {"type", Sample<double>({1, 2})}};
  SaveStep(run, 1, first);
  SaveStep(run, 2, second);
  const Json document = TraceJsonOf({run});
  CHECK(Kinds(document) == Strings{"reshaped", "retyped", "added", "removed"});
  CHECK(document["skipped"]["tensors"] == 1);
  CHECK(document["skipped"]["bytes"] == 4);
  CHECK(document["steps"][1]["changed"] == 5);
  const Json& rows = document["rows"];
  REQUIRE(rows.size() == 8);
  CHECK(rows[3]["name"] == "packed");
  CHECK(rows[3]["flags"] == 0);
  CHECK(rows[3]["n"] == 4);
  CHECK(rows[3]["nan"].is_null());
  for (const size_t at : {5, 7}) {
    CAPTURE(rows[at].dump());
    CHECK(rows[at]["flags"] == 8);
    CHECK(rows[at]["upd_norm"].is_null());
    CHECK(rows[at]["changed"].is_null());
    CHECK(rows[at]["norm"].is_number());
  }
  CHECK(Contains(RunOk({"trace", run}).out, "1 tensor, 4 B, not looked into"));
  CHECK(TraceJsonOf({run, "--by", "all"})["rows"][0]["n"] == 7);
}

TEST_CASE("trace: updates below what a dtype can tell apart are coarse") {
  TempDir dir;
  const std::string run = dir / "run";
  std::vector<uint16_t> values(1000, 0x3F80);
  for (size_t t = 0; t < 3; ++t) {
    values[t] = 0x3F81;
    SampleTensor tensor = Sample(values);
    tensor.dtype = dsckpt::DType::kBF16;
    SaveStep(run, static_cast<int64_t>(t), {{"w", tensor}});
  }
  const Json document = TraceJsonOf({run});
  CHECK(Kinds(document) == Strings{"coarse"});
  CHECK(document["rows"][1]["flags"] == 1);
  CHECK(document["rows"][1]["changed"] == 0.001);
  CHECK(RunTool({"trace", run, "-q", "--fail-on", "coarse"}).code == 1);
  const Strings command = {"diff", run + "@0", run + "@1", "--filter", "w"};
  std::string words = "dsckpt";
  for (const std::string& word : command) words += " " + word;
  CHECK(document["events"][0]["command"] == words);
}

TEST_CASE("trace: a file of results is whole, or what it was") {
  TempDir dir;
  const std::string run = dir / "run", out = dir / "out.csv", cache = dir / "cache";
  SampleTensors tensors = {{"a", Sample<float>({1, 2})}, {"b", Sample<float>({3, 4})}};
  SaveStep(run, 1, tensors);
  WriteWholeFile(out, "before");
  const std::string path = run + "/step1.dsckpt";
  std::string bytes = ReadWholeFile(path);
  const float four = 4;
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&four), 4));
  REQUIRE(at != std::string::npos);
  bytes[at] ^= 1;
  WriteWholeFile(path, bytes);
  const Outcome corrupt = RunTool({"trace", run, "-o", out, "--cache", cache});
  CHECK(corrupt.code == 1);
  CHECK(Contains(corrupt.err, "step1.dsckpt"));
  CHECK(ReadWholeFile(out) == "before");
  RunOk({"trace", run, "-o", out, "--no-verify", "-q"});
  CHECK(ReadWholeFile(out).starts_with("step,prev_step,"));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 3);
  CHECK(RunTool({"trace", run, "--no-verify", "-o", dir / "no/out.csv"}).code == 2);
}

TEST_CASE("trace: rows are chosen, sorted and limited") {
  TempDir dir;
  const std::string run = dir / "run";
  SaveModel(run);
  CHECK(RunOk({"trace", run, "--format", "csv", "--columns", "name,step,nan", "--sort", "nan:desc",
               "--limit", "2"})
            .out == "name,step,nan\nlayers.0.up,10,1\nlayers.0.up,20,1\n");
  const std::string all =
      RunOk({"trace", run, "--format", "csv", "--columns", "step", "--limit", "0"}).out;
  CHECK(std::count(all.begin(), all.end(), '\n') == 17);
  const std::string text = RunOk({"trace", run, "--by", "layer", "--columns", "name,changed"}).out;
  planted::WriteRun(dir / "planted");
  const std::string shown = RunOnTerminal({"trace", dir / "planted", "--by", "tensor"}, 120).out;
  CHECK(Contains(shown, "... 296 more (--limit 0 lists all)"));
  CHECK(Contains(shown, "UPD_RATIO"));
  CHECK(Contains(text, "NAME      CHANGED\n"));
  CHECK(Contains(text, "norm            0\n"));
}
