#include "numerics/turns.h"

#include <bit>
#include <cmath>
#include <random>

#include "numerics/statistics.h"
#include "tests/support/catch.h"

namespace dsckpt::numerics {
namespace {

using Bytes = std::vector<std::byte>;

Bytes RandomState(const DTypeInfo& info, size_t count, bool finite, std::mt19937& random) {
  Bytes state(count * info.block_bytes);
  for (std::byte& byte : state) byte = static_cast<std::byte>(random());
  if (!info.floating || !finite) return state;
  const bool complex = info.code == DType::kC64 || info.code == DType::kC128;
  const size_t part = info.block_bytes / (complex ? 2 : 1);
  for (size_t last = part - 1; last < state.size(); last += part) state[last] &= std::byte{0xBF};
  return state;
}

std::vector<uint64_t> BitsOfSums(const TurnSums& sums) {
  // NaN has many forms.
  std::vector<uint64_t> bits;
  for (const double v : {sums.dot, sums.later, sums.earlier}) {
    bits.push_back(std::isnan(v) ? 1 : std::bit_cast<uint64_t>(v));
  }
  return bits;
}

}  // namespace

TEST_CASE("turns: the same bits for every instruction set") {
  std::mt19937 random(1);
  for (const DTypeInfo& info : AllDTypes()) {
    if (!HasStatistics(info.code)) continue;
    for (const bool finite : {true, false}) {
      const size_t count = 3 * kBlockElements + 777;
      const Bytes a = RandomState(info, count, finite, random);
      const Bytes b = RandomState(info, count, true, random);
      const Bytes c = RandomState(info, count, true, random);
      const auto expected = BitsOfSums(SumTurns(info.code, a, b, c));
      for (const PairKernels& kernels : UsablePairKernels()) {
        INFO(info.name << " by " << kernels.target << (finite ? "" : ", not finite"));
        CHECK(BitsOfSums(SumTurns(info.code, a, b, c, kernels)) == expected);
      }
    }
  }
}

TEST_CASE("turns: lanes, blocks and blocks' tree are joined as all sums are") {
  constexpr size_t kCount = 5 * kBlockElements + 100;
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  std::vector<double> a(kCount), b(kCount), c(kCount);
  for (size_t i = 0; i < kCount; ++i)
    a[i] = normal(random), b[i] = normal(random), c[i] = normal(random);
  PairwiseTree<SumPair> tree;
  for (size_t first = 0; first < kCount; first += kBlockElements) {
    double lanes[kLanes] = {};
    for (size_t i = first; i < std::min(kCount, first + kBlockElements); ++i) {
      lanes[i % kLanes] += (b[i] - a[i]) * (c[i] - b[i]);
    }
    tree.Push({JoinLanes(lanes), 0});
  }
  const auto bytes = [](const auto& v) { return std::as_bytes(std::span(v)); };
  CHECK(SumTurns(DType::kF64, bytes(a), bytes(b), bytes(c)).dot == tree.Root().sum);
}

TEST_CASE("turns: the first NaN is found in any block") {
  std::vector<float> values(2 * kBlockElements + 5, 1);
  const auto bytes = std::as_bytes(std::span(values));
  CHECK_FALSE(FindNan(DType::kF32, bytes));
  values[2 * kBlockElements + 3] = std::nanf("");
  CHECK(FindNan(DType::kF32, bytes) == 2 * kBlockElements + 3);

  values[kBlockElements] = std::nanf("");
  CHECK(FindNan(DType::kF32, bytes) == kBlockElements);
  CHECK(FindNan(DType::kC64, bytes.first(bytes.size() - 4)) == kBlockElements / 2);
}

}  // namespace dsckpt::numerics
