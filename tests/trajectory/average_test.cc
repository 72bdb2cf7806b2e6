// Average(): every dtype against sums of doubles, edge values, and what is refused.

#include "dsckpt/average.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/trajectory/tensor_samples.h"
#include "trajectory/weighted_sum.h"

using namespace dsckpt;
using samples::Bytes;
using samples::Sample;
namespace fs = std::filesystem;

namespace {

const DType kAveraged[] = {DType::kF64,    DType::kF32,    DType::kBF16,       DType::kF16,
                           DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ,
                           DType::kC64,    DType::kC128};

std::string NameOf(DType dtype) { return "t." + std::string(FindDType(dtype)->name); }

/// A run of `count` checkpoints with a tensor of each dtype, of `elements` elements.
std::vector<std::vector<Sample>> WriteRun(const std::string& run, int count, int64_t elements) {
  fs::create_directories(run);
  std::vector<std::vector<Sample>> all;
  for (int t = 0; t < count; ++t) {
    std::vector<Sample>& tensors = all.emplace_back();
    uint32_t seed = 100 * static_cast<uint32_t>(t);
    for (const DType dtype : kAveraged) {
      tensors.push_back(samples::Random(NameOf(dtype), dtype, elements, ++seed));
    }
    samples::Save(run + "/step" + std::to_string(t), tensors, t);
  }
  return all;
}

std::vector<AverageTerm> Terms(std::vector<double> weights) {
  std::vector<AverageTerm> terms;
  for (uint32_t t = 0; t < weights.size(); ++t) terms.push_back({t, weights[t]});
  return terms;
}

Trajectory OpenRun(const std::string& path) {
  auto run = Trajectory::Open(path);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  return *std::move(run);
}

AverageReport Averaged(const Trajectory& run, const std::vector<AverageTerm>& terms,
                       const std::string& output, AverageOptions options = {}) {
  options.replace = true;
  auto report = Average(run, terms, output, options);
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  return *std::move(report);
}

/// By the rule in the documentation, in doubles.
std::vector<double> Expected(const std::vector<std::vector<Sample>>& all, size_t tensor,
                             const std::vector<double>& weights) {
  std::vector<double> sums;
  double total = 0;
  for (size_t t = 0; t < all.size(); ++t) {
    const auto numbers = samples::Widened(all[t][tensor].dtype, all[t][tensor].bytes);
    sums.resize(numbers.size(), -0.0);
    for (size_t i = 0; i < numbers.size(); ++i) sums[i] += weights[t] * numbers[i];
    total += weights[t];
  }
  for (double& sum : sums) sum /= total;
  return sums;
}

/// The same with 64 bits of precision.
std::vector<long double> ExactlyExpected(const std::vector<std::vector<Sample>>& all, size_t tensor,
                                         const std::vector<double>& weights) {
  std::vector<long double> sums;
  long double total = 0;
  for (size_t t = 0; t < all.size(); ++t) {
    const auto numbers = samples::Widened(all[t][tensor].dtype, all[t][tensor].bytes);
    sums.resize(numbers.size(), 0);
    for (size_t i = 0; i < numbers.size(); ++i) {
      sums[i] += static_cast<long double>(weights[t]) * numbers[i];
    }
    total += weights[t];
  }
  for (long double& sum : sums) sum /= total;
  return sums;
}

}  // namespace

TEST_CASE("average: every dtype has the nearest number to the sum in doubles") {
  TempDir dir;
  const int64_t elements = 10'007;
  const auto all = WriteRun(dir / "run", 3, elements);
  const std::vector<double> weights = {0.5, 0.3, 0.2};
  const AverageReport report = Averaged(OpenRun(dir / "run"), Terms(weights), dir / "out");
  CHECK(report.averaged == std::size(kAveraged));
  CHECK(report.copied.empty());
  CHECK(report.nonfinite.empty());
  CHECK(report.became_infinite == 0);
  CHECK(report.read_bytes == 3 * report.output.bytes);
  for (size_t i = 0; i < std::size(kAveraged); ++i) {
    CAPTURE(FindDType(kAveraged[i])->name);
    const auto numbers = Expected(all, i, weights);
    CHECK(samples::ReadTensor(dir / "out", NameOf(kAveraged[i])) ==
          samples::Narrowed(kAveraged[i], numbers));
    const auto exact = ExactlyExpected(all, i, weights);
    double worst = 0;
    for (size_t k = 0; k < numbers.size(); ++k) {
      worst = std::max(worst, static_cast<double>(std::fabs(numbers[k] - exact[k])));
    }
    CHECK(worst < 1e-15);
  }
}

TEST_CASE("average: 40 checkpoints, chunks of several sizes, and the tail of a chunk") {
  TempDir dir;
  fs::create_directories(dir / "run");
  std::vector<std::vector<Sample>> all;
  for (int t = 0; t < 40; ++t) {
    Sample wide = samples::Random("wide", DType::kF32, 70'001, static_cast<uint32_t>(t));
    Sample packed = samples::Random("packed", DType::kF32, 30'000, static_cast<uint32_t>(t + 50));
    packed.encoding = Encoding::kBytePlaneZstd;
    all.push_back({wide, packed});
    samples::Save(dir / ("run/step" + std::to_string(t)), all.back(), t);
  }
  const std::vector<double> weights = EmaWeights(40, 0.9);
  Averaged(OpenRun(dir / "run"), Terms(weights), dir / "out");
  CHECK(samples::ReadTensor(dir / "out", "wide") ==
        samples::Narrowed(DType::kF32, Expected(all, 0, weights)));
  CHECK(samples::ReadTensor(dir / "out", "packed") ==
        samples::Narrowed(DType::kF32, Expected(all, 1, weights)));
}

TEST_CASE("average: tensors of several chunks") {
  TempDir dir;
  fs::create_directories(dir / "run");
  std::vector<std::vector<Sample>> all;
  for (int t = 0; t < 2; ++t) {
    all.push_back({samples::Random("big", DType::kBF16, 5'000'003, static_cast<uint32_t>(t))});
    samples::Save(dir / ("run/step" + std::to_string(t)), all.back(), t);
  }
  AverageOptions options;
  options.dtype = DType::kF32;
  const auto report = Averaged(OpenRun(dir / "run"), Terms({1, 1}), dir / "out", options);
  CHECK(report.output.cast == 1);
  CHECK(samples::ReadTensor(dir / "out", "big") ==
        samples::Narrowed(DType::kF32, Expected(all, 0, {1, 1})));
}

TEST_CASE("average: attributes, state tree and the list of what was averaged") {
  TempDir dir;
  WriteRun(dir / "run", 3, 5);
  const Trajectory run = OpenRun(dir / "run");
  Averaged(run, Terms({1, 1, 2}), dir / "out");
  const auto file = File::Open(dir / "out");
  REQUIRE(file.ok());
  CHECK(std::get<int64_t>(*file->Attribute("step")) == 2);
  CHECK(std::get<double>(*file->Attribute("loss")) == 1.0 / 3);
  const auto from = nlohmann::json::parse(std::get<std::string>(*file->Attribute("averaged_from")));
  REQUIRE(from.size() == 3);
  CHECK(from[0]["checkpoint"] == (dir / "run") + "@0");
  CHECK(from[0]["step"] == 0);
  CHECK(from[0]["weight"] == 0.25);
  CHECK(from[2]["weight"] == 0.5);
  CHECK(file->tree().has_value());
}

TEST_CASE("average: equal checkpoints average to themselves, bit by bit") {
  TempDir dir;
  fs::create_directories(dir / "run");
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<Sample> tensors;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    // Small enough and large enough for all of them.
    tensors.push_back({NameOf(dtype),
                       dtype,
                       {6},
                       samples::Narrowed(dtype, {-0.0, 0.0, 6e-8, -65504, inf, -inf})});
  }
  for (int t = 0; t < 3; ++t) samples::Save(dir / ("run/step" + std::to_string(t)), tensors, t);
  const AverageReport report = Averaged(OpenRun(dir / "run"), Terms({1, 1, 1}), dir / "out");
  for (const Sample& tensor : tensors) {
    CAPTURE(tensor.name);
    CHECK(samples::ReadTensor(dir / "out", tensor.name) == tensor.bytes);
  }
  REQUIRE(report.nonfinite.size() == 4);
  CHECK(report.nonfinite[0].inf == 2);
  CHECK(report.nonfinite[0].nan == 0);
  // Content that does not change is read once.
  CHECK(report.read_bytes == report.output.bytes);
}

TEST_CASE("average: edge values and overflow") {
  TempDir dir;
  fs::create_directories(dir / "run");
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> first = {nan, inf, inf, 60000, 1, -0.0};
  const std::vector<double> second = {1, -inf, 1, -60000, 3, 0.0};
  samples::Save(dir / "run/step0", {{"x", DType::kF16, {6}, samples::Narrowed(DType::kF16, first)}},
                0);
  samples::Save(dir / "run/step1",
                {{"x", DType::kF16, {6}, samples::Narrowed(DType::kF16, second)}}, 1);
  const Trajectory run = OpenRun(dir / "run");
  AverageReport report = Averaged(run, Terms({1, 1}), dir / "out");
  auto numbers = samples::Widened(DType::kF16, samples::ReadTensor(dir / "out", "x"));
  CHECK(std::isnan(numbers[0]));
  CHECK(std::isnan(numbers[1]));
  CHECK(numbers[2] == inf);
  CHECK(numbers[3] == 0);
  CHECK(numbers[4] == 2);
  REQUIRE(report.nonfinite.size() == 1);
  CHECK(report.nonfinite[0].name == "x");
  CHECK(report.nonfinite[0].nan == 2);
  CHECK(report.nonfinite[0].inf == 1);
  CHECK(report.became_infinite == 0);
  // Beyond the second one.
  report = Averaged(run, Terms({-1, 2}), dir / "out");
  numbers = samples::Widened(DType::kF16, samples::ReadTensor(dir / "out", "x"));
  CHECK(numbers[3] == -inf);
  CHECK(numbers[4] == 5);
  CHECK(report.became_infinite == 1);
  // What does not count is not read, not even its NaN.
  report = Averaged(run, Terms({0, 3}), dir / "out");
  CHECK(samples::ReadTensor(dir / "out", "x") == samples::Narrowed(DType::kF16, second));
  CHECK(report.terms[0].weight == 0);
  CHECK(report.terms[1].weight == 1);
}

TEST_CASE("average: other dtypes are those of the last checkpoint") {
  TempDir dir;
  fs::create_directories(dir / "run");
  for (int t = 0; t < 2; ++t) {
    const std::vector<std::byte> bytes(8, static_cast<std::byte>(t + 1));
    const std::vector<std::byte> same(8, std::byte{1});
    samples::Save(dir / ("run/step" + std::to_string(t)),
                  {{"count", DType::kI64, {1}, bytes},
                   {"mask", DType::kBool, {8}, same},
                   {"scale", DType::kF8E8M0, {8}, bytes},
                   {"x", DType::kF32, {2}, samples::Narrowed(DType::kF32, {1.0 * t, 2})}},
                  t);
  }
  const AverageReport report = Averaged(OpenRun(dir / "run"), Terms({1, 1}), dir / "out");
  REQUIRE(report.copied.size() == 3);
  CHECK(report.copied[0].name == "count");
  CHECK(report.copied[0].equal == false);
  CHECK(report.copied[1].equal == true);
  CHECK(report.copied[2].name == "scale");
  CHECK(report.averaged == 1);
  CHECK(samples::ReadTensor(dir / "out", "count") == Bytes(8, std::byte{2}));
  CHECK(samples::Widened(DType::kF32, samples::ReadTensor(dir / "out", "x")) ==
        std::vector<double>{0.5, 2});
}

TEST_CASE("average: a dtype that changed, and the dtype that was asked for") {
  TempDir dir;
  fs::create_directories(dir / "run");
  samples::Save(dir / "run/step0",
                {{"x", DType::kF32, {2}, samples::Narrowed(DType::kF32, {1, 0.1})}}, 0);
  samples::Save(dir / "run/step1",
                {{"x", DType::kBF16, {2}, samples::Narrowed(DType::kBF16, {2, 0.5})}}, 1);
  const Trajectory run = OpenRun(dir / "run");
  const double sum = static_cast<double>(0.1f) + 0.5;
  Averaged(run, Terms({1, 1}), dir / "out");
  CHECK(samples::ReadTensor(dir / "out", "x") == samples::Narrowed(DType::kBF16, {1.5, sum / 2}));
  AverageOptions options;
  options.dtype = DType::kF64;
  Averaged(run, Terms({1, 1}), dir / "out", options);
  CHECK(samples::ReadTensor(dir / "out", "x") == samples::Narrowed(DType::kF64, {1.5, sum / 2}));
}

TEST_CASE("average: tensors that checkpoints do not share are an error that names them") {
  TempDir dir;
  fs::create_directories(dir / "run");
  const Bytes two(8), three(12);
  samples::Save(dir / "run/step0", {{"only", DType::kF32, {2}, two}, {"x", DType::kF32, {2}, two}},
                0);
  samples::Save(dir / "run/step1", {{"x", DType::kF32, {3}, three}}, 1);
  const Trajectory run = OpenRun(dir / "run");
  const auto refused = Average(run, Terms({1, 1}), dir / "out");
  CHECK(refused.status().code() == StatusCode::kMismatch);
  const std::string message = refused.status().message();
  CHECK(message.find("'only' is not in " + (dir / "run") + "@1") != std::string::npos);
  CHECK(message.find("'x' has the shape [2]") != std::string::npos);
  CHECK(!fs::exists(dir / "out"));
  AverageOptions options;
  options.names.excludes = {"only", "x"};
  CHECK(Average(run, Terms({1, 1}), dir / "out", options).status().code() ==
        StatusCode::kInvalidArgument);
  // A checkpoint that does not count needs nothing.
  CHECK(Average(run, Terms({0, 1}), dir / "out").ok());
}

TEST_CASE("average: weights and outputs that make no sense") {
  TempDir dir;
  const auto all = WriteRun(dir / "run", 2, 3);
  const Trajectory run = OpenRun(dir / "run");
  const auto code = [&](const std::vector<AverageTerm>& terms, const std::string& output) {
    return Average(run, terms, output).status().code();
  };
  CHECK(code({}, dir / "out") == StatusCode::kInvalidArgument);
  CHECK(code(Terms({1, -1}), dir / "out") == StatusCode::kInvalidArgument);
  CHECK(code(Terms({1, std::nan("")}), dir / "out") == StatusCode::kInvalidArgument);
  CHECK(code({{7, 1}}, dir / "out") == StatusCode::kInvalidArgument);
  AverageOptions options;
  options.replace = true;
  const auto onto = Average(run, Terms({1, 1}), dir / "run/step0", options);
  CHECK(onto.status().code() == StatusCode::kInvalidArgument);
  CHECK(samples::ReadTensor(dir / "run/step0", all[0][0].name) == all[0][0].bytes);
  CHECK(code(Terms({1, 1}), dir / "out") == StatusCode::kOk);
  CHECK(code(Terms({1, 1}), dir / "out") == StatusCode::kAlreadyExists);
}

TEST_CASE("average: damage in any checkpoint is found, and nothing is written") {
  TempDir dir;
  WriteRun(dir / "run", 3, 1000);
  {
    const auto file = File::Open(dir / "run/step1");
    REQUIRE(file.ok());
    std::fstream out(dir / "run/step1", std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(file->FindTensor("t.F32")->offset + 5));
    out.put('\x55');
  }
  const Trajectory run = OpenRun(dir / "run");
  const auto refused = Average(run, Terms({1, 1, 1}), dir / "out");
  CHECK(refused.status().code() == StatusCode::kCorrupt);
  CHECK(refused.status().message().find("t.F32") != std::string::npos);
  CHECK(!fs::exists(dir / "out"));
  AverageOptions options;
  options.verify = false;
  CHECK(Average(run, Terms({1, 1, 1}), dir / "out", options).ok());
}

TEST_CASE("average: weights of a moving average") {
  CHECK(EmaWeights(1, 0.9) == std::vector<double>{1});
  CHECK(EmaWeights(3, 0.5) == std::vector<double>{0.25, 0.25, 0.5});
  CHECK(EmaWeights(3, 0) == std::vector<double>{0, 0, 1});
  // Step by step.
  double average = 3;
  for (const double next : {5.0, 8.0}) average = 0.75 * average + 0.25 * next;
  const auto weights = EmaWeights(3, 0.75);
  CHECK(weights[0] * 3 + weights[1] * 5 + weights[2] * 8 == average);
}

TEST_CASE("average: of more checkpoints than may be open") {
  TempDir dir;
  fs::create_directories(dir / "run");
  std::vector<std::vector<Sample>> all;
  for (int t = 0; t < 12; ++t) {
    const auto seed = static_cast<uint32_t>(t);
    all.push_back({samples::Random("raw", DType::kF32, 1000, seed),
                   samples::Random("packed", DType::kF16, 20'000, seed + 20)});
    all.back()[1].encoding = Encoding::kZstd;
    samples::Save(dir / ("run/step" + std::to_string(t)), all.back(), t);
  }
  TrajectoryOptions options;
  options.max_open_files = 1;
  const auto run = Trajectory::Open(dir / "run", options);
  REQUIRE(run.ok());
  const std::vector<double> weights(12, 1);
  Averaged(*run, Terms(weights), dir / "out");
  for (size_t i = 0; i < 2; ++i) {
    const Sample& sample = all[0][i];
    CHECK(samples::ReadTensor(dir / "out", sample.name) ==
          samples::Narrowed(sample.dtype, Expected(all, i, weights)));
  }
}

TEST_CASE("average: a cancelled one leaves nothing behind, and stops in the middle of a tensor") {
  TempDir dir;
  WriteRun(dir / "run", 3, 100);
  const Trajectory run = OpenRun(dir / "run");
  for (const int calls : {0, 1}) {
    AverageOptions options;
    options.cancelled = [left = calls]() mutable { return left-- <= 0; };
    const auto stopped = Average(run, Terms({1, 1, 1}), dir / "out", options);
    CHECK(stopped.status().code() == StatusCode::kCancelled);
    CHECK(stopped.status().message() == "the average was cancelled");
  }
  CHECK(std::distance(fs::directory_iterator(fs::path(dir / "run").parent_path()), {}) == 1);
  trajectory::WeightedSum sum(run, Terms({1, 1, 1}), true);
  const uint32_t tensor = *run.FindTensor("t.F32");
  Bytes out(400);
  CHECK(sum.Read(tensor, DType::kF32, 0, out).ok());
  sum.Stop();
  CHECK(sum.Read(tensor, DType::kF32, 0, out).code() == StatusCode::kCancelled);
}

TEST_CASE("average: windows may begin and end within elements") {
  TempDir dir;
  const auto all = WriteRun(dir / "run", 2, 1000);
  const Trajectory run = OpenRun(dir / "run");
  trajectory::WeightedSum sum(run, Terms({1, 3}), true);
  const uint32_t tensor = *run.FindTensor("t.F32");
  const Bytes whole = samples::Narrowed(DType::kF32, Expected(all, 1, {1, 3}));
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 4000}, {1, 3}, {3, 3999}, {6, 9}}) {
    Bytes out(end - begin);
    REQUIRE(sum.Read(tensor, DType::kF32, begin, out).ok());
    CHECK(std::equal(out.begin(), out.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
}
