// dsckpt stats and dsckpt diff: what they print, and their exit codes.

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/analysis/samples.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

namespace {

SampleTensors Model() {
  return {{"layers.0.attn.weight", Sample<float>({3, 4})},
          {"layers.0.mlp.weight", Sample<float>({0, std::nanf(""), -1})},
          {"layers.1.attn.weight", Sample<float>({5, 12})},
          {"step", Sample<int64_t>({7})}};
}

Strings Column(const Json& json, const std::string& name) {
  Strings values;
  for (const Json& row : json["rows"]) {
    values.push_back(row[name].is_string() ? row[name].get<std::string>() : row[name].dump());
  }
  return values;
}

}  // namespace

TEST_CASE("stats: rows, groups, order, columns and formats") {
  TempDir dir;
  SampleTensors model = Model();
  SaveSample(dir / "a", model);
  SavePlainSample(dir / "a.safetensors", model);
  const auto json = [&](Strings args) {
    args.insert(args.begin(), {"stats", "--json", dir / "a"});
    return Json::parse(RunOk(args).out);
  };
  const Json all = json({});
  CHECK(all["schema"] == "dsckpt.stats/1");
  CHECK(all["read_bytes"] == 36);
  CHECK(Column(all, "norm") == Strings{"5.0", "1.0", "13.0", "7.0"});
  CHECK(Column(all, "nan") == Strings{"0", "1", "0", "0"});
  CHECK(all["rows"][0]["shape"] == Json::array({2}));
  CHECK(Json::parse(RunOk({"stats", "--json", dir / "a.safetensors"}).out)["rows"] == all["rows"]);

  const Json pattern = json({"--by", "pattern"});
  CHECK(Column(pattern, "name") == Strings{"layers.#.attn.weight", "layers.#.mlp.weight", "step"});
  CHECK(pattern["rows"][0]["norm"] == std::sqrt(25.0 + 169.0));
  CHECK(pattern["rows"][0]["tensors"] == 2);
  CHECK(Column(json({"--by", "layer"}), "name") == Strings{"layers.0", "layers.1", "step"});
  CHECK(Column(json({"--by", "module"}), "name") ==
        Strings{"layers.#.attn", "layers.#.mlp", "step"});
  CHECK(Column(json({"--by", "dtype"}), "name") == Strings{"F32", "I64"});
  CHECK(json({"--by", "all"})["rows"][0]["dtype"] == "mixed");

  CHECK(Column(json({"--sort", "norm:desc", "--limit", "2"}), "norm") == Strings{"13.0", "7.0"});
  CHECK(RunOk({"stats", dir / "a", "--format", "csv", "--columns", "name,max", "--filter", "*.0.*"})
            .out == "name,max\nlayers.0.attn.weight,4.0\nlayers.0.mlp.weight,0.0\n");
  RunOk({"stats", dir / "a", "-o", dir / "out.jsonl", "--columns", "nan", "--filter", "step"});
  CHECK(ReadWholeFile(dir / "out.jsonl") == "{\"nan\": 0}\n");
  CHECK(Contains(RunOk({"stats", dir / "a"}).out, "layers.1.attn.weight  F32"));
}

TEST_CASE("stats: without an element that is finite there is no number") {
  TempDir dir;
  SampleTensors tensors = {{"t", Sample<float>({std::nanf("")})}};
  SaveSample(dir / "a", tensors);
  const Json row = Json::parse(RunOk({"stats", "--json", dir / "a"}).out)["rows"][0];
  CHECK(row["mean"].is_null());
  CHECK(row["max"].is_null());
  CHECK(row["nan"] == 1);
}

TEST_CASE("stats: --quick reads indexes only and says what they lack") {
  TempDir dir;
  SampleTensors model = Model();
  SaveSample(dir / "a", model);
  const Outcome none = RunTool({"stats", "--quick", "--json", dir / "a"});
  CHECK(none.code == 0);
  CHECK(Json::parse(none.out)["skipped"].size() == 4);
  CHECK(Contains(none.err, "4 tensors left out"));
  dsckpt::State state;
  for (auto& [name, tensor] : model) {
    state.AddTensor(name, tensor.bytes.data(), tensor.dtype, tensor.shape);
  }
  REQUIRE(
      dsckpt::SaveFile(dir / "b", state, {.statistics = true}, {.pool_bytes = dsckpt::kMiB}).ok());
  const Json quick = Json::parse(RunOk({"stats", "--quick", "--json", dir / "b"}).out);
  CHECK(quick["read_bytes"] == 0);
  CHECK(quick["rows"] == Json::parse(RunOk({"stats", "--json", dir / "b"}).out)["rows"]);
}

TEST_CASE("stats: mistakes are named") {
  TempDir dir;
  SampleTensors model = Model();
  SaveSample(dir / "a", model);
  const auto fails = [&](Strings args, int code, const std::string& words) {
    args.insert(args.begin(), {"stats", dir / "a"});
    const Outcome outcome = RunTool(args);
    CAPTURE(outcome.err);
    CHECK(outcome.code == code);
    CHECK(Contains(outcome.err, words));
  };
  fails({"--sort", "size"}, 2, "there is no column 'size': there are name, tensors,");
  fails({"--sort", "norm:up"}, 2, "asc or desc, not 'up'");
  fails({"--columns", "name,size"}, 2, "there is no column 'size'");
  fails({"-o", dir / "x"}, 2, "give --format");
  fails({"--filter", "nothing"}, 1, "no name is taken");
}

TEST_CASE("diff: lines, counts, criterion, exit codes") {
  TempDir dir;
  SampleTensors a = Model(), b = Model();
  b["layers.1.attn.weight"] = Sample<float>({5, 12.5f});
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  const Outcome equal = RunTool({"diff", dir / "a", dir / "a"});
  CHECK(equal.code == 0);
  CHECK(equal.out == "4 equal; 0 B read\ncriterion: bitwise\n");

  const Outcome changed = RunTool({"diff", dir / "a", dir / "b"});
  CHECK(changed.code == 1);
  CHECK(Contains(changed.out, "changed  layers.1.attn.weight"));
  CHECK_FALSE(Contains(changed.out, "layers.0"));
  CHECK(Contains(changed.out, "3 equal, 1 changed; 16 B read\ncriterion: bitwise\n"));
  CHECK(Contains(RunTool({"diff", "--all", dir / "a", dir / "b"}).out, "layers.0.attn.weight"));
  CHECK(RunTool({"diff", "--summary", dir / "a", dir / "b"}).out ==
        "3 equal, 1 changed; 16 B read\ncriterion: bitwise\n");
  const Outcome quiet = RunTool({"diff", "-q", dir / "a", dir / "b"});
  CHECK(quiet.code == 1);
  CHECK(quiet.out.empty());

  const Outcome close = RunTool({"diff", "--rtol", "1e-1", dir / "a", dir / "b"});
  CHECK(close.code == 0);
  CHECK(Contains(close.out, "3 equal, 1 close; 16 B read\ncriterion: rtol 0.1 atol 0\n"));
  CHECK(RunTool({"diff", "--fail-on", "added", dir / "a", dir / "b"}).code == 0);
  CHECK(RunTool({"diff", "--fail-on", "close", "--rtol", "1", dir / "a", dir / "b"}).code == 1);
  CHECK(RunTool({"diff", "--rtol", "-1", dir / "a", dir / "b"}).code == 2);
  CHECK(RunTool({"diff", "--rtol", "nan", dir / "a", dir / "b"}).code == 2);
  CHECK(RunTool({"diff", "--filter", "nothing", dir / "a", dir / "b"}).code == 2);
  CHECK(RunTool({"diff", dir / "a", dir / "nowhere"}).code == 2);

  const Json json = Json::parse(RunTool({"diff", "--json", dir / "a", dir / "b"}).out);
  CHECK(json["schema"] == "dsckpt.diff/1");
  CHECK(json["counts"]["equal"] == 3);
  CHECK(json["rows"].size() == 1);
  CHECK(json["rows"][0]["max_abs"] == 0.5);
  CHECK(json["rows"][0]["max_index"] == 1);
  CHECK(json["rows"][0]["changed%"] == 50.0);
  CHECK(json["rows"][0]["beyond"].is_null());
  CHECK(json["rows"][0]["ratio"] == 0.5 / 13);
}

TEST_CASE("diff --show: elements of the rows, in a table and as JSON") {
  TempDir dir;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SampleTensors a = {{"one", Sample<float>({1, 2, 3, 4, 0.1f, 6}, {2, 3})},
                     {"other", Sample<double>({1, 2})}};
  SampleTensors b = {{"one", Sample<float>({1, 2.5f, 2, 4, nan, 6.5f}, {2, 3})},
                     {"other", Sample<double>({1, 2.25})}};
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  const std::string table = RunTool({"diff", "--show", "3", dir / "a", dir / "b"}).out;
  CHECK(Contains(table, "NAME   INDEX    A     B  |B-A|                  ULP\n"));
  CHECK(Contains(table, "one    [1,1]  0.1   nan    inf\n"));
  CHECK(Contains(table, "one    [0,2]    3     2      1"));
  CHECK(Contains(table, "other    [1]    2  2.25   0.25"));
  // Of two with one distance, the first.
  CHECK(Contains(table, "one    [0,1]"));
  CHECK_FALSE(Contains(table, "one    [1,2]"));
  CHECK_FALSE(Contains(RunTool({"diff", dir / "a", dir / "b"}).out, "INDEX"));
  const Strings summary = {"diff", "--show", "3", "--summary", dir / "a", dir / "b"};
  CHECK_FALSE(Contains(RunTool(summary).out, "INDEX"));

  const Json json = Json::parse(
      RunTool({"diff", "--show", "2", "--json", "--sort", "name:desc", dir / "a", dir / "b"}).out);
  REQUIRE(json["elements"].size() == 3);
  CHECK(json["elements"][0]["name"] == "other");
  CHECK(json["elements"][0]["ulp"] == uint64_t{1} << 49);
  CHECK(json["elements"][1]["name"] == "one");
  CHECK(json["elements"][1]["index"] == Json::array({1, 1}));
  CHECK(json["elements"][1]["b"] == Json{{"$float", "nan"}});
  CHECK(json["elements"][1]["distance"].is_null());
  CHECK(json["elements"][1]["ulp"].is_null());
  CHECK(json["elements"][2]["a"] == 3.0);
  CHECK(json["elements"][2]["distance"] == 1.0);
  const Json limited = Json::parse(
      RunTool({"diff", "--show", "1", "--json", "--limit", "1", dir / "a", dir / "b"}).out);
  CHECK(limited["elements"].size() == 1);
  CHECK_FALSE(
      Json::parse(RunTool({"diff", "--json", dir / "a", dir / "b"}).out).contains("elements"));
}

TEST_CASE("diff: names that lose a beginning, or are replaced") {
  TempDir dir;
  SampleTensors a, b = Model();
  for (const auto& [name, tensor] : b) a["module." + name] = tensor;
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  CHECK(Contains(RunTool({"diff", dir / "a", dir / "b"}).out, "4 moved"));
  for (const Strings& rule :
       {Strings{"--strip-prefix-a", "module."}, Strings{"--strip-prefix", "module."},
        Strings{"--map", "s/^module\\.//"}}) {
    Strings args = {"diff", dir / "a", dir / "b"};
    args.insert(args.end(), rule.begin(), rule.end());
    CHECK(Contains(RunOk(args).out, "4 equal"));
  }
  CHECK(RunTool({"diff", dir / "b", dir / "a", "--strip-prefix-b", "module."}).code == 0);
}

TEST_CASE("stats: quantiles and histograms, of tensors and of groups") {
  TempDir dir;
  const std::string path = dir / "a";
  SampleTensors tensors = {{"h.0.b", Sample<int8_t>({1, 2, 3, 4, -4})},
                           {"h.1.b", Sample<int8_t>({0})}};
  SaveSample(path, tensors);
  const Json stats =
      Json::parse(RunOk({"stats", path, "--by", "pattern", "--quantiles", "0,0.5", "--json"}).out);
  CHECK(stats["rows"][0]["q0"] == -4.0);
  CHECK(stats["rows"][0]["q0.5"] == 1.0);
  CHECK(RunOk({"stats", path, "--hist", "log2", "--by", "all", "--format", "csv"}).out ==
        "name,low,high,count\nall,-8.0,-4.0,1\nall,0.0,0.0,1\nall,1.0,2.0,1\nall,2.0,4.0,2\n"
        "all,4.0,8.0,1\n");
  CHECK(RunOk({"stats", path, "--hist", "linear:2", "-f", "h.0.*", "--format", "csv"}).out ==
        "name,low,high,count\nh.0.b,-4.0,0.0,1\nh.0.b,0.0,4.0,4\n");
  for (const std::string wrong : {"log", "linear", "linear:0", "linear:x", "linear:1000001"}) {
    CHECK(RunTool({"stats", path, "--hist", wrong}).code == 2);
  }
  CHECK(RunTool({"stats", path, "--quantiles", "1.5"}).code == 2);
  CHECK(RunTool({"stats", path, "--quantiles", "0.5", "--quick"}).code == 2);
}

TEST_CASE("diff: groups add sums up and count states") {
  TempDir dir;
  SampleTensors a = {{"h.0.w", Sample<float>({3, 4})},
                     {"h.1.w", Sample<float>({0, 1})},
                     {"h.1.b", Sample<float>({1})},
                     {"x", Sample<float>({1})}};
  SampleTensors b = a;
  b["h.0.w"] = Sample<float>({3, 7});
  b["h.1.w"] = Sample<float>({4, 1});
  b["y"] = Sample<float>({2});
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  const Outcome found =
      RunTool({"diff", dir / "a", dir / "b", "--by", "pattern", "--all", "--json"});
  CHECK(found.code == 1);
  const Json json = Json::parse(found.out);
  CHECK(json["by"] == "pattern");
  CHECK(Column(json, "name") == Strings{"h.#.b", "h.#.w", "x", "y"});
  const Json& weights = json["rows"][1];
  CHECK(weights["tensors"] == 2);
  CHECK(weights["differ"] == 2);
  CHECK(weights["diff_norm"] == 5.0);
  CHECK(weights["max_abs"] == 4.0);
  CHECK(weights["changed"] == 2);
  CHECK(weights["ratio"] == 5 / std::sqrt(26.0));
  CHECK(json["rows"][0]["equal"] == 1);
  CHECK(json["rows"][3]["added"] == 1);
  CHECK(RunTool({"diff", dir / "a", dir / "b", "--by", "all", "--show", "1"}).code == 2);
}
