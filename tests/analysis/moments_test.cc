#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "dsckpt/analysis.h"
#include "tests/analysis/samples.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

std::vector<uint32_t> AllOf(const Checkpoint& checkpoint) {
  std::vector<uint32_t> tensors(checkpoint.tensor_count());
  for (uint32_t i = 0; i < tensors.size(); ++i) tensors[i] = i;
  return tensors;
}

std::vector<std::optional<TensorMoments>> MomentsOfAll(const Checkpoint& checkpoint,
                                                       const AnalysisOptions& options = {}) {
  const auto report = Moments(checkpoint, AllOf(checkpoint), options);
  REQUIRE(report.ok());
  return report->tensors;
}

bool SameBits(const TensorMoments& a, const TensorMoments& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <typename T>
std::vector<T> Normal(size_t count, double mean, double deviation, uint32_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(normal(random));
  return values;
}

/// By two passes with 64 bits of precision.
template <typename T>
void CheckMoments(const TensorMoments& found, const std::vector<T>& values) {
  long double sum = 0, squares = 0, sizes = 0, deviations = 0;
  for (const T value : values) {
    sum += value;
    sizes += std::fabs(static_cast<long double>(value));
    squares += static_cast<long double>(value) * value;
  }
  const long double n = values.size(), mean = sum / n;
  for (const T value : values) deviations += (value - mean) * (value - mean);
  const auto within = [](double a, long double b, long double scale) {
    return std::fabs(a - b) <= 1e-12L * scale;
  };
  CHECK(found.count == values.size());
  CHECK(within(found.mean, mean, sizes / n));
  CHECK(within(found.squared_deviations, deviations, deviations));
  CHECK(within(found.Std(), std::sqrt(deviations / n), std::sqrt(deviations / n)));
  CHECK(within(found.Norm(), std::sqrt(squares), std::sqrt(squares)));
  CHECK(within(found.Rms(), std::sqrt(squares / n), std::sqrt(squares / n)));
}

}  // namespace

TEST_CASE("moments: within 1e-12 of wide sums, where naive ones have no digit left") {
  TempDir dir;
  const auto near_one = Normal<float>(3'000'001, 1, 1e-4);
  const auto nearer = Normal<double>(2'000'000, 1, 1e-6);
  const auto usual = Normal<float>(4097, 0, 0.02);
  std::vector<double> drift(1'500'000), jump(1'200'000, 0);
  for (size_t i = 0; i < drift.size(); ++i) drift[i] = static_cast<double>(i) / 1.5e6;
  const auto far = Normal<double>(600'000, 1000, 1e-3);
  std::copy(far.begin(), far.end(), jump.begin() + 600'000);
  SampleTensors tensors = {{"a", Sample(near_one)},
                           {"b", Sample(nearer)},
                           {"c", Sample(usual)},
                           {"d", Sample(drift)},
                           {"e", Sample(jump)}};
  SaveSample(dir / "f", tensors);
  const auto found = MomentsOfAll(OpenSample(dir / "f"));
  CheckMoments(*found[0], near_one);
  CheckMoments(*found[1], nearer);
  CheckMoments(*found[2], usual);
  CheckMoments(*found[3], drift);
  CheckMoments(*found[4], jump);
}

TEST_CASE("moments: NaN, infinities, zeros of both signs, constants, nothing") {
  TempDir dir;
  const float nan = std::nanf(""), inf = INFINITY;
  SampleTensors tensors = {{"a", Sample<float>({nan, inf, -inf, 0.0f, -0.0f, 3, -4})},
                           {"b", Sample<float>({nan, nan})},
                           {"c", Sample<double>(std::vector<double>(10007, 0.1))},
                           {"d", Sample<float>({}, {0, 3})},
                           {"e", Sample<int64_t>({-7, 7, 1})},
                           {"f", {DType::kF4, {4}, {std::byte{0x12}, std::byte{0x34}}}},
                           {"g", {DType::kC64, {1}, Sample<float>({3, 4}).bytes}}};
  SaveSample(dir / "f", tensors);
  const auto found = MomentsOfAll(OpenSample(dir / "f"));
  CHECK(found[0]->count == 7);
  CHECK(found[0]->nan == 1);
  CHECK(found[0]->inf == 2);
  CHECK(found[0]->zero == 2);
  CHECK(found[0]->min == -4);
  CHECK(found[0]->max == 3);
  CHECK(found[0]->AbsMax() == 4);
  CHECK(found[0]->mean == -0.25);
  CHECK(found[0]->Norm() == 5);
  CHECK(found[0]->Rms() == 2.5);
  CHECK(found[1]->finite() == 0);
  CHECK(found[1]->Std() == 0);
  CHECK(found[1]->Rms() == 0);
  CHECK(found[2]->Std() == 0);
  CHECK(found[2]->mean == 0.1);
  CHECK(found[3]->count == 0);
  CHECK(found[4]->mean == 1.0 / 3);
  CHECK(found[4]->min == -7);
  CHECK_FALSE(found[5].has_value());
  CHECK(found[6]->mean == 5);
}

TEST_CASE("moments: the same bits for any threads, mapping, encoding and kind of file") {
  TempDir dir;
  SampleTensors tensors = {{"a", Sample(Normal<float>(3'333'333, 0.5, 0.02))},
                           {"b", Sample(Normal<double>(700'001, -2, 1, 2))},
                           {"c", Sample(Normal<float>(100, 0, 1, 3))}};
  SaveSample(dir / "raw", tensors);
  SaveSample(dir / "coded", tensors, Encoding::kBytePlaneZstd);
  SavePlainSample(dir / "plain.safetensors", tensors);
  const auto expected = MomentsOfAll(OpenSample(dir / "raw"), {.threads = 1});
  for (const char* const name : {"raw", "coded", "plain.safetensors"}) {
    for (const bool map : {false, true}) {
      for (const int threads : {1, 2, 7}) {
        CAPTURE(name, map, threads);
        const auto found =
            MomentsOfAll(OpenSample(dir / name, map), {.threads = threads, .verify = threads != 2});
        for (size_t i = 0; i < expected.size(); ++i) CHECK(SameBits(*found[i], *expected[i]));
      }
    }
  }
}

TEST_CASE("moments: tensors in parts have the bits of the whole") {
  for (const uint64_t seed : {400, 401, 402}) {
    CAPTURE(seed);
    const job::Job job(seed);
    TempDir dir;
    std::vector<std::string> shards;
    for (int64_t rank = 0; rank < 4; ++rank) {
      auto locals = job.Of(rank, 4);
      for (job::Local& local : locals) local.memory = local.expected;
      shards.push_back(dir / ("s-" + std::to_string(rank)));
      REQUIRE(SaveFile(shards.back(), *job::Provider(locals), {}, {.pool_bytes = kMiB}).ok());
    }
    REQUIRE(Merge(shards, dir / "one").ok());
    const auto parts = Checkpoint::OpenShards(shards);
    REQUIRE(parts.ok());
    const auto found = MomentsOfAll(*parts), expected = MomentsOfAll(OpenSample(dir / "one"));
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].has_value() == expected[i].has_value());
      if (found[i]) CHECK(SameBits(*found[i], *expected[i]));
    }
  }
}

TEST_CASE("moments: of several tensors they are those of one") {
  TempDir dir;
  const auto all = Normal<float>(10'000, 3, 0.5);
  const std::vector<float> left(all.begin(), all.begin() + 3000),
      right(all.begin() + 3000, all.end());
  SampleTensors tensors = {
      {"a", Sample(left)}, {"b", Sample(right)}, {"nan", Sample<float>({std::nanf("")})}};
  SaveSample(dir / "f", tensors);
  const auto found = MomentsOfAll(OpenSample(dir / "f"));
  CheckMoments(found[0]->With(*found[1]), all);
  const TensorMoments with_nan = found[2]->With(*found[0]);
  CHECK(with_nan.count == 3001);
  CHECK(with_nan.nan == 1);
  CHECK(with_nan.mean == found[0]->mean);
  CHECK(found[0]->With(*found[2]).min == found[0]->min);
}

TEST_CASE("moments: damage is found unless checksums are not looked at") {
  TempDir dir;
  SampleTensors tensors = {{"a", Sample(Normal<float>(2'000'000, 0, 1))}};
  SaveSample(dir / "f", tensors);
  const auto file = File::Open(dir / "f");
  const uint64_t at = file->FindTensor("a")->offset + (5 << 20);
  std::string bytes = ReadWholeFile(dir / "f");
  bytes[at] ^= 1;
  WriteWholeFile(dir / "g", bytes);
  for (const bool map : {false, true}) {
    const Checkpoint damaged = OpenSample(dir / "g", map);
    const Status status = Moments(damaged, AllOf(damaged)).status();
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.ToString().find("'a'") != std::string::npos);
    CHECK(Moments(damaged, AllOf(damaged), {.verify = false}).ok());
  }
}
