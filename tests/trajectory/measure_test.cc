// Measure(): numbers against wide references, and the same bits however they are computed.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "dsckpt/trajectory_measures.h"
#include "tests/analysis/samples.h"
#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/reference_statistics.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

using Run = std::vector<SampleTensors>;
using Rows = std::map<std::pair<std::string, uint32_t>, TensorMeasure>;

struct Measured {
  Rows rows;
  MeasureSummary summary;
};

std::string FileOf(const std::string& dir, size_t t, bool plain) {
  return dir + "/step-" + std::to_string(t + 1) + (plain ? ".safetensors" : ".dsckpt");
}

void Write(const std::string& dir, Run& run, bool plain = false,
           Encoding encoding = Encoding::kRaw) {
  std::filesystem::create_directories(dir);
  for (size_t t = 0; t < run.size(); ++t) {
    if (plain) {
      SavePlainSample(FileOf(dir, t, plain), run[t]);
    } else {
      SaveSample(FileOf(dir, t, plain), run[t], encoding);
    }
  }
}

Trajectory Open(const std::string& dir) {
  auto run = Trajectory::Open(dir);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  return *run;
}

Measured MeasureAll(const Trajectory& run, const MeasureOptions& options = {},
                    std::optional<TrajectorySelection> selection = {}) {
  Measured found;
  const auto take = [&](uint32_t tensor, std::span<const TensorMeasure> rows) -> Status {
    for (const TensorMeasure& row : rows) {
      CHECK(row.tensor == tensor);
      found.rows[{std::string(run.tensor(tensor).name), row.checkpoint}] = row;
    }
    return {};
  };
  if (!selection) selection = SelectAll(run);
  const auto summary = Measure(run, *selection, take, options);
  INFO(summary.status().ToString());
  REQUIRE(summary.ok());
  found.summary = *summary;
  return found;
}

using Bits = std::vector<uint64_t>;

Bits BitsOfRow(const TensorMeasure& row) {
  Bits bits = {row.moments.count,
               row.moments.nan,
               row.moments.inf,
               row.moments.zero,
               row.first_nan.value_or(UINT64_MAX),
               row.before.value_or(UINT32_MAX)};
  const auto number = [&](double value) { bits.push_back(std::bit_cast<uint64_t>(value)); };
  for (const double value : {row.moments.min, row.moments.max, row.moments.mean,
                             row.moments.squared_deviations, row.distance}) {
    number(value);
  }
  bits.push_back(row.update ? 1 : 0);
  const TensorUpdate u = row.update.value_or(TensorUpdate{});
  bits.insert(bits.end(), {u.count, u.finite, u.changed});
  for (const double v : {u.squares, u.cross, u.squares_before, u.squares_after}) number(v);
  bits.push_back(row.turn ? 1 : 0);
  const UpdateTurn turn = row.turn.value_or(UpdateTurn{});
  for (const double v : {turn.dot, turn.squares, turn.squares_before}) number(v);
  return bits;
}

std::map<std::pair<std::string, uint32_t>, Bits> BitsOfRows(const Rows& rows) {
  std::map<std::pair<std::string, uint32_t>, Bits> bits;
  for (const auto& [key, row] : rows) bits[key] = BitsOfRow(row);
  return bits;
}

bool Near(double found, long double expected, long double size) {
  return std::isfinite(found) &&
         std::fabs(static_cast<long double>(found) - expected) <= 1e-12L * std::fabs(size);
}

/// The elements as numbers; of complex ones both parts.
std::vector<std::array<double, 2>> Elements(const SampleTensor& tensor) {
  const size_t bytes = FindDType(tensor.dtype)->block_bytes;
  std::vector<std::array<double, 2>> elements;
  for (size_t at = 0; at < tensor.bytes.size(); at += bytes) {
    const std::byte* const p = &tensor.bytes[at];
    if (tensor.dtype == DType::kC64) {
      elements.push_back({ElementAt<float>(p), ElementAt<float>(p + 4)});
    } else if (tensor.dtype == DType::kC128) {
      elements.push_back({ElementAt<double>(p), ElementAt<double>(p + 8)});
    } else {
      elements.push_back({ReferenceValue(tensor.dtype, p), 0});
    }
  }
  return elements;
}

bool Finite(const std::array<double, 2>& e) { return std::isfinite(e[0]) && std::isfinite(e[1]); }

/// |b - a| over elements that are finite in both.
long double ExpectedDistance(const SampleTensor& first, const SampleTensor& now) {
  const auto a = Elements(first), b = Elements(now);
  long double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Finite(a[i]) || !Finite(b[i])) continue;
    for (size_t part = 0; part < 2; ++part) {
      const long double d = static_cast<long double>(b[i][part]) - a[i][part];
      squares += d * d;
    }
  }
  return std::sqrt(squares);
}

std::array<long double, 3> ExpectedTurn(const SampleTensor& first, const SampleTensor& second,
                                        const SampleTensor& third) {
  const auto a = Elements(first), b = Elements(second), c = Elements(third);
  std::array<long double, 3> sums = {0, 0, 0};
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Finite(a[i]) || !Finite(b[i]) || !Finite(c[i])) continue;
    for (size_t part = 0; part < 2; ++part) {
      const long double d = static_cast<long double>(b[i][part]) - a[i][part];
      const long double e = static_cast<long double>(c[i][part]) - b[i][part];
      sums[0] += d * e;
      sums[1] += e * e;
      sums[2] += d * d;
    }
  }
  return sums;
}

/// Any bits; those of floats are small numbers, and a few NaN.
SampleTensor RandomTensor(DType dtype, size_t count, std::mt19937& random) {
  const DTypeInfo info = *FindDType(dtype);
  SampleTensor tensor{dtype, {static_cast<int64_t>(count)}, {}};
  tensor.bytes.resize(count * info.block_bytes);
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
  if (!info.floating) return tensor;
  const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
  const size_t part = info.block_bytes / (complex ? 2 : 1);
  for (size_t last = part - 1; last < tensor.bytes.size(); last += part) {
    tensor.bytes[last] &= std::byte{0xBF};
    if (random() % 500 != 0) continue;
    std::fill_n(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(last + 1 - part), part,
                std::byte{0xFF});
  }
  return tensor;
}

/// A few elements get other bits.
SampleTensor Moved(SampleTensor tensor, std::mt19937& random) {
  const size_t size = FindDType(tensor.dtype)->block_bytes;
  for (size_t at = 0; at + size <= tensor.bytes.size(); at += size * (1 + random() % 7)) {
    tensor.bytes[at] ^= static_cast<std::byte>(random());
  }
  return tensor;
}

Run EveryDType(size_t steps, size_t count) {
  std::mt19937 random(3);
  Run run(steps);
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.block_elements != 1) continue;
    SampleTensor tensor = RandomTensor(info.code, count, random);
    for (size_t t = 0; t < steps; ++t) {
      run[t][std::string(info.name)] = tensor;
      if (t != 1) tensor = Moved(std::move(tensor), random);  // Step 3 is step 2 again.
    }
  }
  return run;
}

/// Turns a bit of a tensor where it lies in a file.
void Damage(const std::string& path, const SampleTensor& tensor) {
  std::ifstream in(path, std::ios::binary);
  std::string file(std::istreambuf_iterator<char>(in), {});
  const size_t at =
      file.find({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  REQUIRE(at != std::string::npos);
  file[at] ^= 1;
  std::ofstream(path, std::ios::binary) << file;
}

}  // namespace

TEST_CASE("measure: every dtype has the numbers of a wide reference") {
  TempDir dir;
  Run run = EveryDType(5, 5000);
  Write(dir / "run", run);
  const Measured found = MeasureAll(Open(dir / "run"));
  CHECK(found.summary.skipped.empty());
  for (const auto& [key, row] : found.rows) {
    const auto& [name, t] = key;
    INFO(name << " in checkpoint " << t);
    const SampleTensor& now = run[t].at(name);
    CHECK(Near(row.distance, ExpectedDistance(run[0].at(name), now), row.distance));
    CHECK(row.update.has_value() == (t > 0));
    if (t == 0) continue;
    CHECK(row.before == t - 1);
    const SampleTensor& before = run[t - 1].at(name);
    CHECK(Near(row.update->Norm(), ExpectedDistance(before, now), row.update->Norm()));
    uint64_t changed = 0;
    const size_t size = FindDType(now.dtype)->block_bytes;
    for (size_t at = 0; at < now.bytes.size(); at += size) {
      changed += std::memcmp(&now.bytes[at], &before.bytes[at], size) != 0 ? 1 : 0;
    }
    CHECK(row.update->changed == changed);
    CHECK((changed == 0) == (t == 2));
    CHECK(row.turn.has_value() == (t == 4));
    if (t != 4) continue;
    const auto turn = ExpectedTurn(run[2].at(name), before, now);
    CHECK(Near(row.turn->squares, turn[1], turn[1]));
    CHECK(Near(row.turn->squares_before, turn[2], turn[2]));
    CHECK(Near(row.turn->dot, turn[0], std::sqrt(turn[1]) * std::sqrt(turn[2])));
  }
}

TEST_CASE("measure: the same bits for threads, files without digests and parts") {
  TempDir dir;
  Run run = EveryDType(4, 3000);
  Write(dir / "run", run);
  for (auto& tensors : run) tensors.erase("C128");  // Of which plain safetensors know nothing.
  Write(dir / "plain", run, true);
  const Trajectory trajectory = Open(dir / "run");
  const auto expected = BitsOfRows(MeasureAll(trajectory).rows);
  for (const int threads : {1, 2, 7}) {
    CHECK(BitsOfRows(MeasureAll(trajectory, {.reading = {.threads = threads}}).rows) == expected);
  }
  auto without = expected;
  std::erase_if(without, [](const auto& row) { return row.first.first == "C128"; });
  CHECK(without.size() + 4 == expected.size());
  CHECK(BitsOfRows(MeasureAll(Open(dir / "plain")).rows) == without);
  for (const uint32_t parts : {1u, 3u, 100u}) {
    Rows rows;
    for (const auto& tensors : DivideTensors(trajectory, SelectAll(trajectory), parts)) {
      TrajectorySelection part = SelectAll(trajectory);
      part.tensors = tensors;
      rows.merge(MeasureAll(trajectory, {}, part).rows);
    }
    CHECK(BitsOfRows(rows) == expected);
  }
}

TEST_CASE("measure: the same bits where a tensor does not fit into the memory") {
  TempDir dir;
  std::mt19937 random(5);
  SampleTensor large = RandomTensor(DType::kF32, 4 * kChunkBytes / 4 + 77, random);
  Run run(3);
  for (auto& tensors : run) {
    tensors["large"] = large;
    large = Moved(std::move(large), random);
  }
  Write(dir / "run", run);
  const Trajectory trajectory = Open(dir / "run");
  const auto expected = BitsOfRows(MeasureAll(trajectory).rows);
  // Five tiles of which four fit.
  CHECK(BitsOfRows(MeasureAll(trajectory, {.memory = 1}).rows) == expected);
}

TEST_CASE("measure: each byte is read once, and unchanged content not again") {
  TempDir dir;
  std::mt19937 random(7);
  SampleTensor moving = RandomTensor(DType::kF32, 100'000, random);
  const SampleTensor frozen = RandomTensor(DType::kF32, 50'000, random);
  Run run(4);
  for (auto& tensors : run) {
    tensors = {{"moving", moving}, {"frozen", frozen}};
    moving = Moved(std::move(moving), random);
  }
  Write(dir / "run", run);
  const Measured found = MeasureAll(Open(dir / "run"));
  CHECK(found.summary.read_bytes == 4 * 400'000 + 200'000);
  const TensorMeasure& row = found.rows.at({"frozen", 3});
  CHECK(row.moments.count == 50'000);
  CHECK(row.update->changed == 0);
  CHECK(row.update->Norm() == 0);
  CHECK(row.update->finite == row.moments.finite());
  CHECK_FALSE(row.turn);
  CHECK(row.distance == 0);
  Write(dir / "plain", run, true);
  CHECK(MeasureAll(Open(dir / "plain")).summary.read_bytes == 4 * 600'000);
}

TEST_CASE("measure: with a cache only what is new is read, with the same bits") {
  TempDir dir;
  std::mt19937 random(11);
  SampleTensor moving = RandomTensor(DType::kF32, 100'000, random);
  const SampleTensor frozen = RandomTensor(DType::kF32, 50'000, random);
  Run run(6);
  for (auto& tensors : run) {
    tensors = {{"moving", moving}, {"frozen", frozen}};
    moving = Moved(std::move(moving), random);
  }
  for (const bool plain : {false, true}) {
    const std::string path = dir / (plain ? "plain" : "run");
    Write(path, run, plain);
    const Trajectory trajectory = Open(path);
    TrajectorySelection most = SelectAll(trajectory);
    most.checkpoints.pop_back();
    MeasureCache cache;
    MeasureAll(trajectory, {.cache = &cache}, most);
    CHECK(MeasureAll(trajectory, {.cache = &cache}, most).summary.read_bytes == 0);
    const Measured found = MeasureAll(trajectory, {.cache = &cache});
    // The new one, the two before it and the first one.
    CHECK(found.summary.read_bytes == 4 * (plain ? 600'000 : 400'000));
    CHECK(BitsOfRows(found.rows) == BitsOfRows(MeasureAll(trajectory).rows));
  }
}

TEST_CASE("measure: against one checkpoint, selected or not, before or behind") {
  TempDir dir;
  std::mt19937 random(9);
  SampleTensor tensor = RandomTensor(DType::kBF16, 10'000, random);
  Run run(4);
  for (auto& tensors : run) {
    tensors["w"] = tensor;
    tensor = Moved(std::move(tensor), random);
  }
  Write(dir / "run", run);
  const Trajectory trajectory = Open(dir / "run");
  for (const uint32_t against : {0u, 2u, 3u}) {
    for (const std::vector<uint32_t>& checkpoints :
         {std::vector<uint32_t>{0, 1, 2, 3}, std::vector<uint32_t>{1}}) {
      const Measured found =
          MeasureAll(trajectory, {.against = against}, TrajectorySelection{checkpoints, {0}});
      CHECK(found.rows.size() == checkpoints.size());
      for (const auto& [key, row] : found.rows) {
        const uint32_t t = key.second;
        INFO("checkpoint " << t << " against " << against);
        CHECK(row.update.has_value() == (t != against));
        CHECK_FALSE(row.turn);
        if (t == against) continue;
        CHECK(row.before == against);
        const long double norm = ExpectedDistance(run[against].at("w"), run[t].at("w"));
        CHECK(Near(row.update->Norm(), norm, norm));
      }
    }
  }
}

TEST_CASE("measure: another dtype, another shape and gaps begin anew") {
  TempDir dir;
  const auto f32 = Sample<float>({1, 2}), f64 = Sample<double>({1, 2}),
             longer = Sample<double>({1, 2, 3}), moved = Sample<double>({1, 2, 5});
  Run run = {{{"w", f32}}, {{"w", f64}},    {{"other", f32}},
             {{"w", f64}}, {{"w", longer}}, {{"w", moved}}};
  Write(dir / "run", run);
  const Rows rows = MeasureAll(Open(dir / "run")).rows;
  CHECK(rows.at({"w", 1}).before == 0u);
  CHECK_FALSE(rows.at({"w", 1}).update);
  CHECK(rows.at({"w", 3}).before == 1u);
  CHECK(rows.at({"w", 3}).update->changed == 0);
  CHECK_FALSE(rows.at({"w", 4}).update);
  CHECK(rows.at({"w", 4}).distance == 0);
  CHECK(rows.at({"w", 5}).distance == 2);
  CHECK(rows.at({"w", 5}).update->Ratio() == 2 / std::sqrt(14.0));
}

TEST_CASE("measure: NaN is counted, left out and located") {
  TempDir dir;
  std::vector<float> values(3 * kChunkBytes / 4, 1);
  Run run(3);
  run[0]["w"] = Sample(values);
  values[2 * kChunkBytes / 4 + 5] = std::numeric_limits<float>::quiet_NaN();
  values[0] = 3;
  run[1]["w"] = Sample(values);
  values[2] = std::numeric_limits<float>::infinity();
  values[0] = 4;
  run[2]["w"] = Sample(values);
  Write(dir / "run", run);
  const Rows rows = MeasureAll(Open(dir / "run")).rows;
  const TensorMeasure &one = rows.at({"w", 1}), &two = rows.at({"w", 2});
  CHECK_FALSE(rows.at({"w", 0}).first_nan);
  CHECK(one.first_nan == 2 * kChunkBytes / 4 + 5);
  CHECK(one.moments.nan == 1);
  CHECK(one.update->Norm() == 2);
  CHECK(one.update->finite == values.size() - 1);
  CHECK(one.update->changed == 2);
  CHECK(two.update->Norm() == 1);
  CHECK(two.update->finite == values.size() - 2);
  CHECK(two.turn->dot == 2);
  CHECK(two.turn->Cosine() == 1);
  CHECK(two.distance == 3);
}

TEST_CASE("measure: what cannot be read ends it, and packed dtypes are skipped") {
  TempDir dir;
  Run run(2);
  for (auto& tensors : run) {
    tensors["packed"] = {DType::kF4, {4}, std::vector<std::byte>(2)};
    tensors["w"] = Sample<float>({1, 2, 3});
  }
  run[1]["w"] = Sample<float>({1, 2, 4});
  Write(dir / "run", run);
  const Trajectory trajectory = Open(dir / "run");
  const Measured found = MeasureAll(trajectory);
  CHECK(found.summary.skipped == std::vector<uint32_t>{0});
  CHECK(found.summary.skipped_bytes == 4);
  const auto refuse = [](uint32_t, std::span<const TensorMeasure>) {
    return Status(StatusCode::kCancelled, "enough");
  };
  CHECK(Measure(trajectory, SelectAll(trajectory), refuse).status().message() == "enough");
  Damage(FileOf(dir / "run", 1, false), run[1].at("w"));
  const auto damaged = Measure(Open(dir / "run"), SelectAll(trajectory), refuse);
  CHECK(damaged.status().code() == StatusCode::kCorrupt);
  CHECK(MeasureAll(trajectory, {.reading = {.verify = false}}).rows.size() == 2);
}

TEST_CASE("events: from measures each planted thing too, and nothing else") {
  TempDir dir;
  planted::WriteRun(dir / "run");
  const Trajectory run = Open(dir / "run");
  const TrajectorySelection all = SelectAll(run);
  std::vector<TrajectoryEvent> events = FindRunEvents(run, all);
  const auto take = [&](uint32_t tensor, std::span<const TensorMeasure> rows) -> Status {
    for (const auto& event : FindTensorEvents(run, all, tensor, rows)) events.push_back(event);
    return {};
  };
  REQUIRE(Measure(run, all, take).ok());
  SortEvents(events);
  std::vector<std::string> texts;
  for (const TrajectoryEvent& event : events) {
    texts.push_back(std::string(TrajectoryEventName(event.kind)) + " " +
                    std::to_string(event.step.value_or(-1)));
    if (event.tensor) texts.back() += " " + std::string(run.tensor(*event.tensor).name);
    if (event.element) texts.back() += " at " + std::to_string(*event.element);
  }
  CHECK(texts == std::vector<std::string>{"jump 9000 " + planted::kSpiking, "missing_step 11000",
                                          "duplicate 14000",
                                          "nan 16000 " + planted::kWithNan + " at 5",
                                          "frozen 18000 " + planted::kFrozen});
}

TEST_CASE("events: updates below what the dtype tells apart are coarse") {
  TensorMeasure measure;
  measure.moments.count = 100;
  measure.moments.squared_deviations = 100 * 0.02 * 0.02;
  measure.update =
      TensorUpdate{.count = 100, .finite = 100, .changed = 20, .squares = 100 * 2.7e-5 * 2.7e-5};
  CHECK(IsCoarse(measure, DType::kBF16));
  CHECK_FALSE(IsCoarse(measure, DType::kF32));
  CHECK_FALSE(IsCoarse(measure, DType::kI32));
  measure.update->squares = 100 * 2.7e-4 * 2.7e-4;
  CHECK_FALSE(IsCoarse(measure, DType::kBF16));
  measure.update->changed = 0;
  CHECK_FALSE(IsCoarse(measure, DType::kBF16));
}
