#include <cmath>
#include <cstring>
#include <random>

#include "dsckpt/analysis.h"
#include "tests/analysis/samples.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

std::vector<float> Weights(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// By the name in `b`, or in `a` where it is not there.
struct Found {
  std::map<std::string, TensorDiff> tensors;
  uint64_t read_bytes = 0;
  const TensorDiff& operator[](const std::string& name) const { return tensors.at(name); }
};

Found Compare(const std::string& a, const std::string& b, const DiffOptions& options = {}) {
  const auto report = Diff(OpenSample(a), OpenSample(b), options);
  REQUIRE(report.ok());
  Found found;
  found.read_bytes = report->read_bytes;
  for (const TensorDiff& diff : report->tensors) {
    found.tensors[diff.name_b.empty() ? diff.name_a : diff.name_b] = diff;
  }
  return found;
}

/// The state of the one tensor of two files.
DiffState StateOf(const SampleTensor& a, const SampleTensor& b, const DiffOptions& options = {}) {
  TempDir dir;
  SampleTensors tensors_a = {{"t", a}}, tensors_b = {{"t", b}};
  SaveSample(dir / "a", tensors_a);
  SaveSample(dir / "b", tensors_b);
  return Compare(dir / "a", dir / "b", options)["t"].state;
}

}  // namespace

TEST_CASE("diff: every state, for files with digests and without") {
  TempDir dir;
  const auto same = Weights(1000, 1), moved = Weights(500, 2);
  auto changed = Weights(1000, 3);
  SampleTensors a = {{"same", Sample(same)},           {"changed", Sample(changed)},
                     {"gone", Sample(same)},           {"old", Sample(moved)},
                     {"shape", Sample(same)},          {"type", Sample<float>({1, 2})},
                     {"empty", Sample<float>({}, {0})}};
  changed[17] += 1;
  SampleTensors b = {{"same", Sample(same)},
                     {"changed", Sample(changed)},
                     {"new", Sample<int32_t>({1})},
                     {"now", Sample(moved)},
                     {"shape", Sample(same, {10, 100})},
                     {"type", Sample<double>({1, 2.5})},
                     {"empty", Sample<float>({}, {0})}};
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  SavePlainSample(dir / "a.safetensors", a);
  SavePlainSample(dir / "b.safetensors", b);
  for (const auto& [left, right] : {std::pair("a", "b"), std::pair("a.safetensors", "b"),
                                    std::pair("a.safetensors", "b.safetensors")}) {
    CAPTURE(left, right);
    const Found found = Compare(dir / left, dir / right);
    CHECK(found.tensors.size() == 8);
    CHECK(found["same"].state == DiffState::kEqual);
    CHECK(found["empty"].state == DiffState::kEqual);
    CHECK(found["changed"].state == DiffState::kChanged);
    CHECK(found["changed"].difference->changed == 1);
    CHECK(found["changed"].difference->max_index == 17);
    CHECK(found["gone"].state == DiffState::kRemoved);
    CHECK(found["new"].state == DiffState::kAdded);
    CHECK(found["now"].state == DiffState::kMoved);
    CHECK(found["now"].name_a == "old");
    CHECK(found["shape"].state == DiffState::kReshaped);
    CHECK(found["type"].state == DiffState::kRetyped);
    CHECK(found["type"].difference->max_abs == 0.5);
    CHECK(found["type"].difference->changed == 1);
    CHECK_FALSE(found["type"].difference->max_ulp.has_value());
  }
}

TEST_CASE("diff: digests decide equality, and chunks with equal sums are not read") {
  TempDir dir;
  auto values = Weights(5'000'000, 1);  // five chunks
  SampleTensors a = {{"big", Sample(values)}, {"same", Sample(values)}};
  SaveSample(dir / "a", a);
  SaveSample(dir / "coded", a, Encoding::kZstd);
  CHECK(Compare(dir / "a", dir / "a").read_bytes == 0);
  CHECK(Compare(dir / "a", dir / "coded").read_bytes == 0);
  const float before = values[2'500'000];
  values[2'500'000] += 1;
  SampleTensors b = {{"big", Sample(values)}, {"same", a.at("same")}};
  SaveSample(dir / "b", b);
  const Found sparse = Compare(dir / "a", dir / "b");
  CHECK(sparse.read_bytes == 2 * kChunkBytes);
  CHECK(sparse["same"].state == DiffState::kEqual);
  CHECK_FALSE(sparse["same"].difference.has_value());
  const Difference& part = *sparse["big"].difference;
  CHECK(part.changed == 1);
  CHECK(part.count == 5'000'000);
  CHECK(part.compared == kChunkBytes / 4);
  CHECK(part.max_index == 2'500'000);
  CHECK_FALSE(part.Ratio().has_value());
  CHECK_FALSE(part.Angle().has_value());
  const Found whole = Compare(dir / "a", dir / "b", {.whole = true});
  CHECK(whole.read_bytes == 4 * a.at("big").bytes.size());
  CHECK(whole["same"].state == DiffState::kEqual);
  CHECK(whole["big"].difference->Norm() == part.Norm());
  CHECK(part.Norm() == static_cast<double>(values[2'500'000]) - static_cast<double>(before));
  CHECK(whole["big"].difference->Ratio().has_value());
}

TEST_CASE("diff: a small angle keeps its digits") {
  TempDir dir;
  const auto a = Weights(1'000'000, 1), noise = Weights(1'000'000, 2);
  std::vector<double> x(a.begin(), a.end()), y = x;
  for (size_t i = 0; i < y.size(); ++i) y[i] += 1e-6 * static_cast<double>(noise[i]);
  SampleTensors left = {{"t", Sample(x)}}, right = {{"t", Sample(y)}};
  SaveSample(dir / "a", left);
  SaveSample(dir / "b", right);
  const Difference found = *Compare(dir / "a", dir / "b")["t"].difference;
  long double xx = 0, yy = 0, dd = 0, dx = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double d = static_cast<long double>(y[i]) - x[i];
    xx += static_cast<long double>(x[i]) * x[i];
    yy += static_cast<long double>(y[i]) * y[i];
    dd += d * d;
    dx += d * x[i];
  }
  // The part of the difference that stands across a, over twice the product of the lengths.
  const long double across = dd - dx * dx / xx;
  const long double angle = 1 - std::sqrt(1 - across / yy);
  CHECK(std::fabs(*found.Angle() - angle) <= 1e-5L * angle);
  CHECK(*found.Angle() < 1e-11);
  CHECK(std::fabs(*found.Ratio() - std::sqrt(dd / xx)) <= 1e-12L * std::sqrt(dd / xx));
}

TEST_CASE("diff: the same bits for any threads") {
  TempDir dir;
  SampleTensors a = {{"x", Sample(Weights(4'000'001, 1))}, {"y", Sample(Weights(77, 2))}};
  SampleTensors b = {{"x", Sample(Weights(4'000'001, 3))}, {"y", Sample(Weights(77, 4))}};
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b, Encoding::kBytePlaneZstd);
  const Found expected = Compare(dir / "a", dir / "b", {.reading = {.threads = 1}});
  for (const int threads : {2, 7}) {
    const Found found = Compare(dir / "a", dir / "b", {.reading = {.threads = threads}});
    for (const char* const name : {"x", "y"}) {
      const Difference &one = *found[name].difference, &other = *expected[name].difference;
      CHECK(one.squared_difference == other.squared_difference);
      CHECK(one.cross == other.cross);
      CHECK(one.squared_a == other.squared_a);
      CHECK(one.squared_b == other.squared_b);
      CHECK(one.max_rel == other.max_rel);
      CHECK(one.max_index == other.max_index);
    }
  }
}

TEST_CASE("diff: the elements that differ most, the same for any threads") {
  TempDir dir;
  auto x = Weights(3'000'000, 1), y = x;
  // In three chunks; three of the distances are equal.
  for (const auto& [index, step] :
       {std::pair(7, 1.0f), {2'999'999, 2.0f}, {1'500'000, 1.0f}, {1'500'001, 0.5f}, {20, 1.0f}}) {
    x[static_cast<size_t>(index)] = 1;
    y[static_cast<size_t>(index)] = 1 + step;
  }
  SampleTensors a = {{"x", Sample(x)}, {"same", Sample(x)}, {"type", Sample<float>({1, 2, 3})}};
  SampleTensors b = {{"x", Sample(y)}, {"same", Sample(x)}, {"type", Sample<double>({1, 2, 5})}};
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  for (const int threads : {1, 2, 7}) {
    const Found found = Compare(dir / "a", dir / "b", {.reading = {.threads = threads}, .show = 4});
    const auto& elements = found["x"].elements;
    REQUIRE(elements.size() == 4);
    CHECK(elements[0].index == 2'999'999);
    CHECK(elements[0].a == 1);
    CHECK(elements[0].b == 3);
    CHECK(elements[0].distance == 2);
    CHECK(elements[0].ulp == uint64_t{3} << 22);
    CHECK(elements[1].index == 7);
    CHECK(elements[2].index == 20);
    CHECK(elements[3].index == 1'500'000);
    CHECK(found["same"].elements.empty());
    REQUIRE(found["type"].elements.size() == 1);
    CHECK(found["type"].elements[0].index == 2);
    CHECK(found["type"].elements[0].distance == 2);
    CHECK_FALSE(found["type"].elements[0].ulp.has_value());
  }
  CHECK(Compare(dir / "a", dir / "b")["x"].elements.empty());
}

TEST_CASE("diff: what is close") {
  const auto one = Sample<float>({1, 2, 4}), near = Sample<float>({1, 2, 4.00001f});
  CHECK(StateOf(one, near) == DiffState::kChanged);
  CHECK(StateOf(one, near, {.relative_tolerance = 1e-5}) == DiffState::kClose);
  CHECK(StateOf(one, near, {.relative_tolerance = 1e-7}) == DiffState::kChanged);
  CHECK(StateOf(one, near, {.absolute_tolerance = 1e-4}) == DiffState::kClose);
  CHECK(StateOf(one, near, {.ulp = 21}) == DiffState::kClose);
  CHECK(StateOf(one, near, {.ulp = 20}) == DiffState::kChanged);
  CHECK(StateOf(one, one, {.ulp = 0}) == DiffState::kEqual);
  CHECK(StateOf(Sample<float>({0.0f}), Sample<float>({-0.0f})) == DiffState::kChanged);
  CHECK(StateOf(Sample<float>({0.0f}), Sample<float>({-0.0f}), {.ulp = 0}) == DiffState::kClose);
  const float nan = std::bit_cast<float>(0x7FC00000), other = std::bit_cast<float>(0x7FC00001);
  CHECK(StateOf(Sample<float>({nan, 1}), Sample<float>({nan, 1})) == DiffState::kEqual);
  CHECK(StateOf(Sample<float>({nan, 1}), Sample<float>({other, 1})) == DiffState::kClose);
  CHECK(StateOf(Sample<float>({nan, 1}), Sample<float>({other, 1}), {.nan_equal = false}) ==
        DiffState::kChanged);
  CHECK(StateOf(Sample<float>({nan}), Sample<float>({1}),
                {.relative_tolerance = 1, .absolute_tolerance = 1e9, .ulp = ~uint64_t{0}}) ==
        DiffState::kChanged);
  const SampleTensor packed = {DType::kF4, {4}, {std::byte{1}, std::byte{2}}};
  const SampleTensor other_packed = {DType::kF4, {4}, {std::byte{1}, std::byte{3}}};
  CHECK(StateOf(packed, packed) == DiffState::kEqual);
  CHECK(StateOf(packed, other_packed, {.ulp = 100}) == DiffState::kChanged);
}

TEST_CASE("diff: names are compared by rules, which may not make two of them one") {
  TempDir dir;
  SampleTensors a = {{"module.x", Sample<float>({1})}, {"module.y", Sample<float>({2})}};
  SampleTensors b = {{"x", Sample<float>({1})}, {"y", Sample<float>({3})}};
  SaveSample(dir / "a", a);
  SaveSample(dir / "b", b);
  DiffOptions options;
  options.name_a = [](std::string_view name) { return std::optional(std::string(name.substr(7))); };
  const Found found = Compare(dir / "a", dir / "b", options);
  CHECK(found["x"].state == DiffState::kEqual);
  CHECK(found["x"].name_a == "module.x");
  CHECK(found["y"].state == DiffState::kChanged);
  options.name_a = [](std::string_view) { return std::optional<std::string>("x"); };
  const Status status = Diff(OpenSample(dir / "a"), OpenSample(dir / "b"), options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.ToString().find("'module.x' and 'module.y'") != std::string::npos);
}

TEST_CASE("diff: tensors in parts equal the whole, and a changed element of a part is found") {
  const job::Job job(401);
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
  const auto report = Diff(*parts, OpenSample(dir / "one"));
  REQUIRE(report.ok());
  CHECK(report->read_bytes > 0);
  CHECK(report->tensors.size() == parts->tensor_count());
  for (const TensorDiff& diff : report->tensors) CHECK(diff.state == DiffState::kEqual);

  // Of a tensor that no shard holds whole, one bit of the merged file.
  uint32_t split = 0;
  while (split < parts->tensor_count() &&
         (parts->tensor(split).bytes == 0 || parts->Digest(split)->has_value())) {
    ++split;
  }
  REQUIRE(split < parts->tensor_count());
  const std::string name(parts->tensor(split).name);
  std::string bytes = ReadWholeFile(dir / "one");
  bytes[File::Open(dir / "one")->FindTensor(name)->offset] ^= 1;
  WriteWholeFile(dir / "other", bytes);
  const auto changed = Diff(*parts, OpenSample(dir / "other"), {.reading = {.verify = false}});
  REQUIRE(changed.ok());
  for (const TensorDiff& diff : changed->tensors) {
    CAPTURE(diff.name_a);
    CHECK((diff.state == DiffState::kChanged) == (diff.name_a == name));
  }
  CHECK(Diff(*parts, OpenSample(dir / "other")).status().code() == StatusCode::kCorrupt);
}
