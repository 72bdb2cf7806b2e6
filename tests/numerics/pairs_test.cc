#include "numerics/pairs.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "dsckpt/limits.h"
#include "numerics/statistics.h"
#include "tests/support/catch.h"
#include "tests/support/reference_statistics.h"

namespace dsckpt::numerics {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<DType> PairDTypes() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : AllDTypes()) {
    if (HasStatistics(info.code)) dtypes.push_back(info.code);
  }
  return dtypes;
}

/// Two tensors that agree in about half of their elements, with any bits or with finite ones.
std::pair<Bytes, Bytes> RandomPair(DType dtype, size_t count, bool finite, uint32_t seed) {
  const auto info = *FindDType(dtype);
  std::mt19937 random(seed);
  Bytes a(count * info.block_bytes), b;
  for (std::byte& byte : a) byte = static_cast<std::byte>(random());
  b = a;
  for (size_t i = 0; i < count; ++i) {
    if (random() % 2 == 0) continue;
    b[i * info.block_bytes + random() % info.block_bytes] ^= static_cast<std::byte>(random());
  }
  if (finite && info.floating) {
    const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
    const size_t part = info.block_bytes / (complex ? 2 : 1);
    for (size_t last = part - 1; last < a.size(); last += part) {
      a[last] &= std::byte{0xBF};
      b[last] &= std::byte{0xBF};
    }
  }
  return {a, b};
}

/// The parts of an element, one after another.
std::array<double, 2> Parts(DType dtype, const std::byte* at) {
  if (dtype == DType::kC64) return {ElementAt<float>(at), ElementAt<float>(at + 4)};
  if (dtype == DType::kC128) return {ElementAt<double>(at), ElementAt<double>(at + 8)};
  return {ReferenceValue(dtype, at), 0};
}

struct WideSums {
  long double difference = 0, cross = 0, first = 0, second = 0, cross_size = 0;
};

/// Sums over pairs of finite elements with 64 bits of precision, and the plain counts.
PairStatistics Expected(DType dtype, const Bytes& a, const Bytes& b, WideSums& sums) {
  const size_t size = FindDType(dtype)->block_bytes;
  PairStatistics found;
  for (size_t at = 0; at < a.size(); at += size, ++found.count) {
    const auto x = Parts(dtype, &a[at]), y = Parts(dtype, &b[at]);
    const bool nan_x = std::isnan(x[0]) || std::isnan(x[1]);
    const bool nan_y = std::isnan(y[0]) || std::isnan(y[1]);
    const bool changed = !std::equal(&a[at], &a[at] + size, &b[at]);
    found.nan_a += nan_x ? 1 : 0;
    found.nan_b += nan_y ? 1 : 0;
    found.changed += changed ? 1 : 0;
    found.changed_nan += changed && nan_x && nan_y ? 1 : 0;
    found.one_nan += nan_x != nan_y ? 1 : 0;
    if (!std::isfinite(x[0] + x[1]) || !std::isfinite(y[0] + y[1])) continue;
    ++found.finite;
    double difference = 0, size_x = 0, size_y = 0;
    for (size_t part = 0; part < 2; ++part) {
      const long double p = x[part], q = y[part];
      sums.difference += (q - p) * (q - p);
      sums.cross += (q - p) * (q + p);
      sums.cross_size += std::fabs((q - p) * (q + p));
      sums.first += p * p;
      sums.second += q * q;
      const double d = y[part] - x[part];
      difference += d * d;
      size_x += x[part] * x[part];
      size_y += y[part] * y[part];
    }
    const bool real = dtype != DType::kC64 && dtype != DType::kC128;
    const double distance = real ? std::fabs(y[0] - x[0]) : std::sqrt(difference);
    const double greater =
        real ? std::max(std::fabs(x[0]), std::fabs(y[0])) : std::sqrt(std::max(size_x, size_y));
    if (distance > found.max_abs) {
      found.max_abs = distance;
      found.max_index = found.count;
    }
    if (greater > 0) found.max_rel = std::max(found.max_rel, distance / greater);
  }
  return found;
}

void CheckClose(double found, long double expected, long double scale) {
  if (!std::isfinite(static_cast<double>(scale))) return;
  constexpr long double kSubnormal = 1e-300L;  // Squares that are too small for a double.
  CHECK(std::fabs(found - expected) <= 1e-12L * scale + kSubnormal);
}

bool SameBits(const PairSums& a, const PairSums& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("pairs: sums are within 1e-12 of wide ones, counts and extremes exact, for every dtype") {
  for (const DType dtype : PairDTypes()) {
    for (const size_t count : {1, 15, 17, 4095, 4096, 4097, 12345}) {
      for (const bool finite : {false, true}) {
        CAPTURE(DTypeText(dtype), count, finite);
        const auto [a, b] = RandomPair(dtype, count, finite, static_cast<uint32_t>(count));
        WideSums sums;
        const PairStatistics expected = Expected(dtype, a, b, sums);
        const PairStatistics found = ComparePairs(dtype, a, b);
        CHECK(found.count == expected.count);
        CHECK(found.finite == expected.finite);
        CHECK(found.nan_a == expected.nan_a);
        CHECK(found.nan_b == expected.nan_b);
        CHECK(found.changed == expected.changed);
        CHECK(found.changed_nan == expected.changed_nan);
        CHECK(found.one_nan == expected.one_nan);
        CHECK(found.max_abs == expected.max_abs);
        CHECK(found.max_index == expected.max_index);
        CHECK(found.max_rel == expected.max_rel);
        CheckClose(found.sums.difference, sums.difference, sums.difference);
        CheckClose(found.sums.cross, sums.cross, sums.cross_size);
        CheckClose(found.sums.first, sums.first, sums.first);
        CheckClose(found.sums.second, sums.second, sums.second);
      }
    }
  }
}

TEST_CASE("pairs: all instruction sets give the same bits") {
  for (const DType dtype : PairDTypes()) {
    for (const bool finite : {false, true}) {
      const auto [a, b] = RandomPair(dtype, 20480 + 77, finite, 3);
      const PairStatistics first = ComparePairs(dtype, a, b);
      for (const PairKernels& kernels : UsablePairKernels()) {
        CAPTURE(DTypeText(dtype), finite, kernels.target);
        const PairStatistics found = ComparePairs(dtype, a, b, std::nullopt, kernels);
        CHECK(SameBits(found.sums, first.sums));
        CHECK(found.max_abs == first.max_abs);
        CHECK(found.max_index == first.max_index);
        CHECK(found.max_rel == first.max_rel);
        CHECK(found.max_ulp == first.max_ulp);
        CHECK(found.changed == first.changed);
        const PairStatistics update = SumUpdates(dtype, a, b, kernels);
        CHECK(SameBits(update.sums, first.sums));
        CHECK(update.count == first.count);
        CHECK(update.finite == first.finite);
        CHECK(update.changed == first.changed);
        CHECK(update.max_abs == 0);
      }
    }
  }
}

TEST_CASE("pairs: a block with a NaN elsewhere has the sums of its kernel") {
  // The NaN sends the block through the code for single elements. Where a and b have it, all else
  // is as in a block where both have 0.
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    CAPTURE(DTypeText(dtype));
    const size_t size = FindDType(dtype)->block_bytes;
    auto [a, b] = RandomPair(dtype, 4096, true, 9);
    std::fill_n(a.begin(), size, std::byte{0});
    std::fill_n(b.begin(), size, std::byte{0});
    const PairStatistics whole = ComparePairs(dtype, a, b);
    std::fill_n(a.begin(), size, std::byte{0xFF});
    std::fill_n(b.begin(), size, std::byte{0xFF});
    const PairStatistics with_nan = ComparePairs(dtype, a, b);
    REQUIRE(with_nan.nan_a == 1);
    REQUIRE(with_nan.nan_b == 1);
    CHECK(SameBits(whole.sums, with_nan.sums));
    CHECK(whole.max_rel == with_nan.max_rel);
    CHECK(whole.max_abs == with_nan.max_abs);
    CHECK(whole.max_ulp == with_nan.max_ulp);
  }
}

TEST_CASE("pairs: steps between numbers of 8 and 16 bits are their distance in the sorted list") {
  for (const DType dtype : PairDTypes()) {
    const auto info = *FindDType(dtype);
    if (info.block_bytes > 2 || dtype == DType::kBool) continue;
    std::set<double> sorted;
    for (uint32_t bits = 0; bits < (1u << (8 * info.block_bytes)); ++bits) {
      std::byte bytes[2] = {static_cast<std::byte>(bits), static_cast<std::byte>(bits >> 8)};
      const double value = ReferenceValue(dtype, bytes);
      if (!std::isnan(value)) sorted.insert(value);
    }
    std::map<double, uint64_t> place;
    for (const double value : sorted) place.emplace(value, place.size());
    std::mt19937 random(5);
    for (int i = 0; i < 2000; ++i) {
      CAPTURE(DTypeText(dtype), i);
      Bytes a(info.block_bytes), b(info.block_bytes);
      for (std::byte& byte : a) byte = static_cast<std::byte>(random());
      for (std::byte& byte : b) byte = static_cast<std::byte>(random());
      const double x = ReferenceValue(dtype, a.data()), y = ReferenceValue(dtype, b.data());
      const uint64_t found = ComparePairs(dtype, a, b).max_ulp;
      if (std::isnan(x) || std::isnan(y)) {
        CHECK(found == 0);
      } else {
        CHECK(found == std::max(place[x], place[y]) - std::min(place[x], place[y]));
      }
    }
  }
}

TEST_CASE("pairs: steps between wide numbers") {
  const auto steps = [](DType dtype, auto x, auto y) {
    return ComparePairs(dtype, std::as_bytes(std::span(&x, 1)), std::as_bytes(std::span(&y, 1)))
        .max_ulp;
  };
  CHECK(steps(DType::kF32, 1.0f, std::nextafter(std::nextafter(1.0f, 2.0f), 2.0f)) == 2);
  CHECK(steps(DType::kF32, 0.0f, -0.0f) == 0);
  CHECK(steps(DType::kF32, -1e-45f, 1e-45f) == 2);
  CHECK(steps(DType::kF64, -1.0, std::nextafter(-1.0, 0.0)) == 1);
  CHECK(steps(DType::kU64, uint64_t{0}, ~uint64_t{0}) == ~uint64_t{0});
  CHECK(steps(DType::kI64, INT64_MIN, INT64_MAX) == ~uint64_t{0});
  CHECK(steps(DType::kI32, -3, 4) == 7);
  const std::array<float, 2> z = {1, 2}, w = {1, std::nextafter(2.0f, 0.0f)};
  CHECK(steps(DType::kC64, z, w) == 1);
}

TEST_CASE("pairs: what is beyond a tolerance") {
  const float nan = std::nanf(""), inf = INFINITY;
  const std::vector<float> a = {1, 1, 100, 0, nan, nan, inf, inf, inf};
  const std::vector<float> b = {1, 1.5f, 101, 1e-9f, nan, 1, inf, -inf, 1};
  const auto bytes = [](const std::vector<float>& v) { return std::as_bytes(std::span(v)); };
  const auto beyond = [&](double relative, double absolute) {
    return ComparePairs(DType::kF32, bytes(a), bytes(b), Tolerance{relative, absolute}).beyond;
  };
  CHECK(beyond(0, 0) == 6);
  CHECK(beyond(0.01, 0) == 5);
  CHECK(beyond(0.01, 1e-8) == 4);
  CHECK(beyond(0, 1) == 3);
  // In whole blocks too.
  std::vector<float> many_a(8192, 1), many_b(8192, 1);
  many_b[5000] = 1.5f;
  many_b[17] = 1.25f;
  const auto many = [&](double absolute) {
    return ComparePairs(DType::kF32, bytes(many_a), bytes(many_b), Tolerance{0, absolute}).beyond;
  };
  CHECK(many(0.1) == 2);
  CHECK(many(0.25) == 1);
  CHECK(many(0.5) == 0);
}

TEST_CASE("pairs: ratios of many equal records and of the smallest numbers are found") {
  // Doubles so small that a product with a ratio is rounded up to the difference.
  const double least = 5e-324;
  std::vector<double> a(4096, 0), b(4096, 0);
  a[0] = 10 * least;
  b[0] = 1 * least;  // 0.9
  a[16] = 2 * least;
  b[16] = 0;  // 1
  const auto bytes = [](const auto& v) { return std::as_bytes(std::span(v)); };
  CHECK(ComparePairs(DType::kF64, bytes(a), bytes(b)).max_rel == 1);
  std::vector<float> c(4096, 1), d(4096, -1);
  CHECK(ComparePairs(DType::kF32, bytes(c), bytes(d)).max_rel == 2);
  std::fill(d.begin(), d.end(), 1.0f);
  CHECK(ComparePairs(DType::kF32, bytes(c), bytes(d)).max_rel == 0);
}

TEST_CASE("pairs: chunks join to the whole, in the order of elements") {
  const size_t chunk = kChunkBytes / sizeof(float);
  const size_t count = 2 * chunk + 12345;
  const auto [a, b] = RandomPair(DType::kF32, count, true, 4);
  std::vector<PairStatistics> chunks;
  for (size_t at = 0; at < a.size(); at += kChunkBytes) {
    const size_t size = std::min<size_t>(kChunkBytes, a.size() - at);
    chunks.push_back(
        ComparePairs(DType::kF32, std::span(a).subspan(at, size), std::span(b).subspan(at, size)));
  }
  const PairStatistics whole = ComparePairs(DType::kF32, a, b), joined = JoinPairs(chunks);
  CHECK(joined.count == count);
  CHECK(SameBits(joined.sums, whole.sums));
  CHECK(joined.max_index == whole.max_index);
  CHECK(joined.max_abs == whole.max_abs);
  CHECK(joined.changed == whole.changed);
  CHECK(joined.max_ulp == whole.max_ulp);
}

TEST_CASE("shifted sums have the same bits on all instruction sets, and those of their rule") {
  for (const DType dtype : PairDTypes()) {
    const auto [a, unused] = RandomPair(dtype, 12345, true, 8);
    const double shift = 0.375;
    const size_t size = FindDType(dtype)->block_bytes;
    long double sum = 0, squares = 0, scale = 0;
    for (size_t at = 0; at < a.size(); at += size) {
      const auto x = Parts(dtype, &a[at]);
      const double value = dtype == DType::kC64 || dtype == DType::kC128
                               ? std::sqrt(x[0] * x[0] + x[1] * x[1])
                               : x[0];
      if (!std::isfinite(value)) continue;
      const long double d = static_cast<long double>(value) - shift;
      sum += d;
      squares += d * d;
      scale += std::fabs(d);
    }
    ChunkStatistics plain(dtype);
    plain.Add(a);
    for (const Kernels& kernels : UsableKernels()) {
      CAPTURE(DTypeText(dtype), kernels.target);
      ChunkStatistics shifted(dtype, kernels, shift);
      shifted.Add(a);
      ChunkStatistics reference(dtype, UsableKernels().back(), shift);
      reference.Add(a);
      const TensorStatistics found = shifted.Finish(), expected = reference.Finish();
      CHECK(std::bit_cast<uint64_t>(found.sum) == std::bit_cast<uint64_t>(expected.sum));
      CHECK(std::bit_cast<uint64_t>(found.sum_squares) ==
            std::bit_cast<uint64_t>(expected.sum_squares));
      CheckClose(found.sum, sum, scale);
      if (std::isfinite(found.sum_squares)) CheckClose(found.sum_squares, squares, squares);
      CHECK(found.zero == plain.Finish().zero);
      CHECK(std::bit_cast<uint64_t>(found.max) == std::bit_cast<uint64_t>(plain.Finish().max));
    }
  }
}

}  // namespace dsckpt::numerics
