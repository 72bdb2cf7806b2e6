// Gram(): products against sums of 64 bits, and what does not change them.

#include "dsckpt/gram.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/trajectory/tensor_samples.h"

using namespace dsckpt;
using samples::Bytes;
using samples::Sample;
namespace fs = std::filesystem;

namespace {

using Checkpoints = std::vector<std::vector<Sample>>;

void SaveRun(const std::string& run, const Checkpoints& all) {
  fs::create_directories(run);
  for (size_t t = 0; t < all.size(); ++t) {
    samples::Save(run + "/step" + std::to_string(t), all[t], static_cast<int64_t>(t));
  }
}

/// Tensors of every dtype with numbers, of one chunk and of several, raw and not.
Checkpoints SampleRun(int count) {
  Checkpoints all;
  for (int t = 0; t < count; ++t) {
    std::vector<Sample>& tensors = all.emplace_back();
    auto seed = static_cast<uint32_t>(1000 * t);
    for (const DType dtype :
         {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2,
          DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kC64, DType::kC128}) {
      tensors.push_back(
          samples::Random("t." + std::string(FindDType(dtype)->name), dtype, 20'011, ++seed));
    }
    tensors.push_back(samples::Random("packed", DType::kF32, 50'000, ++seed));
    tensors.back().encoding = Encoding::kBytePlaneZstd;
  }
  return all;
}

/// The rule in the documentation with 64 bits of precision.
long double Exactly(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  long double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = samples::Widened(a[i].dtype, a[i].bytes);
    const auto y = samples::Widened(b[i].dtype, b[i].bytes);
    for (size_t k = 0; k < x.size(); ++k) {
      if (std::isfinite(x[k]) && std::isfinite(y[k])) sum += static_cast<long double>(x[k]) * y[k];
    }
  }
  return sum;
}

GramReport Multiplied(const Trajectory& run, const TrajectorySelection& selection,
                      const GramOptions& options = {}) {
  auto report = Gram(run, selection, options);
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  return *std::move(report);
}

Trajectory OpenRun(const std::string& path) {
  auto run = Trajectory::Open(path);
  REQUIRE(run.ok());
  return *std::move(run);
}

}  // namespace

TEST_CASE("gram: every dtype, against sums of higher precision") {
  TempDir dir;
  const Checkpoints all = SampleRun(3);
  SaveRun(dir / "run", all);
  const Trajectory run = OpenRun(dir / "run");
  const GramReport report = Multiplied(run, SelectAll(run));
  CHECK(report.checkpoints == std::vector<uint32_t>{0, 1, 2});
  CHECK(report.tensors.size() == all[0].size());
  CHECK(report.skipped.empty());
  CHECK(report.nonfinite == std::vector<uint64_t>{0, 0, 0});
  CHECK(report.elements == 10 * 20'011 + 50'000);
  uint64_t bytes = 0;
  for (const Sample& tensor : all[0]) bytes += tensor.bytes.size();
  CHECK(report.read_bytes == 3 * bytes);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      const long double exact = Exactly(all[i], all[j]);
      const long double size = std::sqrt(Exactly(all[i], all[i]) * Exactly(all[j], all[j]));
      CHECK(std::fabs(report.At(i, j) - exact) < 1e-14 * size);
      CHECK(report.At(i, j) == report.At(j, i));
    }
  }
}

TEST_CASE("gram: the same bits whatever threads, memory and the other checkpoints are") {
  TempDir dir;
  Checkpoints all;
  for (int t = 0; t < 5; ++t) {
    const auto seed = static_cast<uint32_t>(t);
    all.push_back({samples::Random("big", DType::kBF16, 2'300'001, seed),
                   samples::Random("packed", DType::kF32, 1'100'000, seed + 10)});
    all.back()[1].encoding = Encoding::kZstd;
  }
  SaveRun(dir / "run", all);
  const Trajectory run = OpenRun(dir / "run");
  GramOptions options;
  options.reading.threads = 1;
  const auto first = Multiplied(run, SelectAll(run), options).products;
  for (const int threads : {2, 7}) {
    options.reading.threads = threads;
    CHECK(Multiplied(run, SelectAll(run), options).products == first);
  }
  options.memory = 1 << 20;
  CHECK(Multiplied(run, SelectAll(run), options).products == first);
  const GramReport two = Multiplied(run, {{1, 4}, {0, 1}});
  CHECK(two.At(0, 0) == first[1 * 5 + 1]);
  CHECK(two.At(0, 1) == first[1 * 5 + 4]);
}

TEST_CASE("gram: 40 checkpoints, of which equal ones are read once") {
  TempDir dir;
  Checkpoints all;
  for (int t = 0; t < 40; ++t) {
    const auto seed = static_cast<uint32_t>(t / 4);
    all.push_back({samples::Random("x", DType::kF32, 3000, seed),
                   samples::Random("frozen", DType::kF16, 5000, 77)});
  }
  SaveRun(dir / "run", all);
  const Trajectory run = OpenRun(dir / "run");
  const GramReport report = Multiplied(run, SelectAll(run));
  CHECK(report.read_bytes == 10 * 12'000 + 10'000);
  double worst = 0;
  for (size_t i = 0; i < 40; ++i) {
    for (size_t j = 0; j < 40; ++j) {
      const auto error = std::fabs(report.At(i, j) - Exactly(all[i], all[j]));
      worst = std::max(worst, static_cast<double>(error));
    }
  }
  CHECK(worst < 1e-12 * report.At(0, 0));
  CHECK(report.At(0, 3) == report.At(0, 0));
  CHECK(report.At(0, 4) != report.At(0, 0));
}

TEST_CASE("gram: what is not finite counts as 0, and is counted") {
  TempDir dir;
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto x = [](const std::vector<double>& numbers) {
    return std::vector<Sample>{{"x", DType::kF32, {4}, samples::Narrowed(DType::kF32, numbers)}};
  };
  SaveRun(dir / "run", {x({1, 2, 3, 4}), x({nan, 5, -inf, 6})});
  const Trajectory run = OpenRun(dir / "run");
  const GramReport report = Multiplied(run, SelectAll(run));
  CHECK(report.products == std::vector<double>{30, 34, 34, 61});
  CHECK(report.nonfinite == std::vector<uint64_t>{0, 2});
}

TEST_CASE("gram: tensors that are not the same everywhere are left out and named") {
  TempDir dir;
  const Bytes eight(8, std::byte{1});
  const auto common = [](double value) {
    return Sample{"x", DType::kF64, {1}, samples::Narrowed(DType::kF64, {value})};
  };
  SaveRun(dir / "run", {{common(2),
                         {"cast", DType::kF32, {2}, eight},
                         {"first", DType::kF32, {2}, eight},
                         {"packed", DType::kF4, {16}, eight},
                         {"wide", DType::kF32, {2}, eight}},
                        {common(3),
                         {"cast", DType::kF64, {1}, eight},
                         {"packed", DType::kF4, {16}, eight},
                         {"wide", DType::kF32, {2, 1}, eight}}});
  const Trajectory run = OpenRun(dir / "run");
  const GramReport report = Multiplied(run, SelectAll(run));
  CHECK(report.products == std::vector<double>{4, 6, 6, 9});
  REQUIRE(report.tensors.size() == 1);
  CHECK(run.tensor(report.tensors[0]).name == "x");
  REQUIRE(report.skipped.size() == 4);
  CHECK(report.skipped[0].why ==
        "is F64 [1] in " + run.operand(1) + " and F32 [2] in " + run.operand(0));
  CHECK(report.skipped[1].why == "is not in " + run.operand(1));
  CHECK(report.skipped[2].why == "is of a dtype that is packed or unknown");
  CHECK(run.tensor(report.skipped[3].tensor).name == "wide");
}

TEST_CASE("gram: integers, an empty tensor, a scalar, and nothing at all") {
  TempDir dir;
  const auto bytes = [](std::vector<int> values) {
    Bytes out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return out;
  };
  SaveRun(dir / "run", {{{"i8", DType::kI8, {3}, bytes({1, 2, 255})},
                         {"mask", DType::kBool, {}, bytes({1})},
                         {"none", DType::kF32, {0, 4}, {}}},
                        {{"i8", DType::kI8, {3}, bytes({3, 0, 5})},
                         {"mask", DType::kBool, {}, bytes({1})},
                         {"none", DType::kF32, {0, 4}, {}}}});
  const Trajectory run = OpenRun(dir / "run");
  CHECK(Multiplied(run, SelectAll(run)).products == std::vector<double>{7, -1, -1, 35});
  CHECK(Multiplied(run, {{}, {0, 1}}).products.empty());
  CHECK(Multiplied(run, {{0, 1}, {}}).products == std::vector<double>(4, 0.0));
}

TEST_CASE("gram: damage is found") {
  TempDir dir;
  SaveRun(dir / "run", SampleRun(2));
  {
    const auto file = File::Open(dir / "run/step1");
    std::fstream out(dir / "run/step1", std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(file->FindTensor("t.F32")->offset + 5));
    out.put('\x55');
  }
  const Trajectory run = OpenRun(dir / "run");
  const auto refused = Gram(run, SelectAll(run));
  CHECK(refused.status().code() == StatusCode::kCorrupt);
  GramOptions options;
  options.reading.verify = false;
  CHECK(Gram(run, SelectAll(run), options).ok());
}
