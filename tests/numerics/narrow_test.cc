// Narrow: each double as the nearest number of a dtype.

#include "numerics/narrow.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "numerics/widen.h"
#include "tests/support/catch.h"

namespace dsckpt::numerics {
namespace {

const DType kSmall[] = {DType::kF16,    DType::kBF16,       DType::kF8E4M3,
                        DType::kF8E5M2, DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ};

size_t SizeOf(DType dtype) { return FindDType(dtype)->block_bytes; }

double ValueOf(DType dtype, uint32_t code) {
  double value = 0;
  FindWiden(dtype)(reinterpret_cast<const std::byte*>(&code), 1, &value);
  return value;
}

/// The code, and whether a finite number became infinite.
std::pair<uint32_t, uint64_t> CodeFor(DType dtype, double value) {
  uint32_t code = 0;
  const uint64_t overflows = FindNarrow(dtype)(&value, 1, reinterpret_cast<std::byte*>(&code));
  return {code, overflows};
}

/// Codes of the finite numbers from 0 upwards.
std::vector<uint32_t> FromZero(DType dtype) {
  const uint32_t sign = 1u << (8 * SizeOf(dtype) - 1);
  std::vector<uint32_t> codes;
  for (uint32_t code = 0; code < sign && std::isfinite(ValueOf(dtype, code)); ++code) {
    codes.push_back(code);
  }
  return codes;
}

}  // namespace

TEST_CASE("narrow: every number of a dtype comes back as itself") {
  for (const DType dtype : kSmall) {
    CAPTURE(FindDType(dtype)->name);
    for (uint32_t code = 0; code < 1u << (8 * SizeOf(dtype)); ++code) {
      const double value = ValueOf(dtype, code);
      const auto [narrow, overflows] = CodeFor(dtype, value);
      const bool same = std::isnan(value) ? std::isnan(ValueOf(dtype, narrow)) : narrow == code;
      if (!same || overflows != 0) {
        CAPTURE(code, narrow, overflows);
        FAIL("another number");
      }
    }
  }
}

TEST_CASE("narrow: numbers between two go to the nearest, or to the even one") {
  for (const DType dtype : kSmall) {
    CAPTURE(FindDType(dtype)->name);
    const auto codes = FromZero(dtype);
    REQUIRE(codes.size() > 100);
    for (size_t i = 0; i + 1 < codes.size(); ++i) {
      const double low = ValueOf(dtype, codes[i]), high = ValueOf(dtype, codes[i + 1]);
      const double middle = low + (high - low) / 2;
      const uint32_t even = codes[i] % 2 == 0 ? codes[i] : codes[i + 1];
      const bool right = CodeFor(dtype, middle).first == even &&
                         CodeFor(dtype, std::nextafter(middle, low)).first == codes[i] &&
                         CodeFor(dtype, std::nextafter(middle, high)).first == codes[i + 1];
      const double minus = ValueOf(dtype, CodeFor(dtype, -middle).first);
      if (!right || minus != -ValueOf(dtype, even)) {
        CAPTURE(low, high);
        FAIL("not the nearest");
      }
    }
  }
}

TEST_CASE("narrow: too large numbers become infinite, or NaN, and are counted") {
  for (const DType dtype : kSmall) {
    CAPTURE(FindDType(dtype)->name);
    const auto codes = FromZero(dtype);
    const double greatest = ValueOf(dtype, codes.back());
    const double step = greatest - ValueOf(dtype, codes[codes.size() - 2]);
    CHECK(CodeFor(dtype, std::nextafter(greatest + step / 2, 0)) ==
          std::pair(codes.back(), uint64_t{0}));
    const bool infinities =
        dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF8E5M2;
    for (const double large : {greatest + step / 2, greatest * 4, 1e300}) {
      const auto [code, overflows] = CodeFor(dtype, large);
      // The greatest number of E4M3 is even, its neighbour above is NaN.
      if (dtype == DType::kF8E4M3 && large == greatest + step / 2) {
        CHECK(code == codes.back());
        continue;
      }
      CHECK(overflows == 1);
      const double value = ValueOf(dtype, code);
      CHECK((infinities ? std::isinf(value) && value > 0 : std::isnan(value)));
    }
    const double infinite =
        ValueOf(dtype, CodeFor(dtype, -std::numeric_limits<double>::infinity()).first);
    CHECK(
        (infinities ? infinite == -std::numeric_limits<double>::infinity() : std::isnan(infinite)));
    CHECK(CodeFor(dtype, std::numeric_limits<double>::infinity()).second == 0);
    CHECK(std::isnan(ValueOf(dtype, CodeFor(dtype, std::nan("")).first)));
    // Smaller than half of the smallest.
    const double tiny = ValueOf(dtype, codes[1]) / 4;
    CHECK(ValueOf(dtype, CodeFor(dtype, -tiny).first) == 0);
    CHECK(ValueOf(dtype, CodeFor(dtype, 5e-324).first) == 0);
  }
}

TEST_CASE("narrow: 32 and 64 bits") {
  CHECK(CodeFor(DType::kF32, 0.1).first == 0x3DCCCCCD);
  CHECK(CodeFor(DType::kF32, 1e39) == std::pair(0x7F800000u, uint64_t{1}));
  CHECK(CodeFor(DType::kF32, std::numeric_limits<double>::infinity()).second == 0);
  const double value = 0.1;
  double copy = 0;
  CHECK(FindNarrow(DType::kF64)(&value, 1, reinterpret_cast<std::byte*>(&copy)) == 0);
  CHECK(copy == value);
  for (const DType none : {DType::kI32, DType::kBool, DType::kC64, DType::kF8E8M0, DType::kF4}) {
    CHECK(FindNarrow(none) == nullptr);
  }
}

}  // namespace dsckpt::numerics
