#include "numerics/largest_pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.h"

using namespace dsckpt;
using numerics::ElementPair;
using numerics::LargestPairs;

namespace {

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <typename T>
std::vector<ElementPair> Largest(DType dtype, size_t most, const std::vector<T>& a,
                                 const std::vector<T>& b) {
  LargestPairs largest(most);
  largest.Look(dtype, BytesOf(a), BytesOf(b), 0);
  return largest.Sorted();
}

}  // namespace

TEST_CASE("largest pairs: the same as sorting all of them, whatever the pieces") {
  std::mt19937 random(5);
  std::vector<float> a(20'000), b;
  for (float& value : a) value = static_cast<float>(random() % 1000);
  b = a;
  // Few different distances, so that most ties are broken by the index.
  for (float& value : b) value += static_cast<float>(random() % 4);
  std::vector<ElementPair> expected;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    expected.push_back({i, a[i], b[i], std::fabs(b[i] - a[i]), 0});
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& x, const auto& y) { return x.distance > y.distance; });
  for (const size_t most : {size_t{0}, size_t{1}, size_t{100}, a.size()}) {
    LargestPairs largest(most);
    // The last piece comes first.
    for (const size_t first : {size_t{10'000}, size_t{0}}) {
      LargestPairs piece(most);
      piece.Look(DType::kF32, BytesOf(a).subspan(first * 4, 40'000),
                 BytesOf(b).subspan(first * 4, 40'000), first);
      largest.Add(piece);
    }
    const auto found = largest.Sorted();
    REQUIRE(found.size() == std::min(most, expected.size()));
    for (size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].index == expected[i].index);
      REQUIRE(found[i].a == expected[i].a);
      REQUIRE(found[i].b == expected[i].b);
      REQUIRE(found[i].distance == expected[i].distance);
    }
  }
}

TEST_CASE("largest pairs: what is not finite, zeros, and steps") {
  const float nan = std::bit_cast<float>(0x7FC00000), other = std::bit_cast<float>(0x7FC00001);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {0, 1, nan, 1, -inf, inf, 2, 3};
  const std::vector<float> b = {-0.0f, std::nextafter(1.0f, 2.0f), other, nan, inf, inf, 5, 3};
  const auto found = Largest(DType::kF32, 10, a, b);
  REQUIRE(found.size() == 6);
  const uint64_t order[] = {3, 4, 6, 1, 0, 2};
  for (size_t i = 0; i < 6; ++i) CHECK(found[i].index == order[i]);
  CHECK(found[0].distance == inf);
  CHECK(std::isnan(found[0].b));
  CHECK(found[1].distance == inf);
  CHECK(found[2].distance == 3);
  CHECK(found[3].ulp == 1);
  CHECK(found[4].distance == 0);
  CHECK(found[4].ulp == 0);
  CHECK(found[5].distance == 0);
}

TEST_CASE("largest pairs: integers, and complex elements by their moduli") {
  const auto bytes = Largest<int8_t>(DType::kI8, 1, {-128, 5}, {127, 5});
  REQUIRE(bytes.size() == 1);
  CHECK(bytes[0].distance == 255);
  CHECK(bytes[0].ulp == 255);
  using Complex = std::complex<double>;
  const auto turned = Largest<Complex>(DType::kC128, 2, {{3, 4}, {1, 0}}, {{-3, -4}, {1, 1}});
  REQUIRE(turned.size() == 2);
  CHECK(turned[0].index == 0);
  CHECK(turned[0].a == 5);
  CHECK(turned[0].b == 5);
  CHECK(turned[0].distance == 10);
  CHECK(turned[1].distance == 1);
}
