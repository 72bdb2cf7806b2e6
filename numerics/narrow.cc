#include "numerics/narrow.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace dsckpt::numerics {
namespace {

/// A float of at most 16 bits. `greatest`: the code of its greatest finite number.
struct NarrowFormat {
  int bits;
  int fraction_bits;
  int least_exponent;  ///< Of numbers that are not subnormal.
  uint64_t greatest, infinity, nan;
  bool signed_zero_and_nan;
};

constexpr NarrowFormat kNarrowF16{16, 10, -14, 0x7BFF, 0x7C00, 0x7E00, true};
constexpr NarrowFormat kNarrowBF16{16, 7, -126, 0x7F7F, 0x7F80, 0x7FC0, true};
constexpr NarrowFormat kNarrowE5M2{8, 2, -14, 0x7B, 0x7C, 0x7E, true};
constexpr NarrowFormat kNarrowE4M3{8, 3, -6, 0x7E, 0x7F, 0x7F, true};
constexpr NarrowFormat kNarrowE4M3Fnuz{8, 3, -7, 0x7F, 0x80, 0x80, false};
constexpr NarrowFormat kNarrowE5M2Fnuz{8, 2, -15, 0x7F, 0x80, 0x80, false};

constexpr int kDoubleFraction = 52, kDoubleBias = 1023;

/// The code of a finite number without its sign; above `greatest` where it is too large.
uint64_t CodeOf(double size, const NarrowFormat& format) {
  const auto bits = std::bit_cast<uint64_t>(size);
  int exponent = static_cast<int>(bits >> kDoubleFraction) - kDoubleBias;
  if (exponent < format.least_exponent) exponent = format.least_exponent;
  if (exponent > -format.least_exponent + 2) return format.greatest + 1;
  // In a sum with this power of two, the last bit is worth one unit of the narrow number: the
  // addition rounds as wanted, and what it adds to the bits counts the units. A carry into the
  // next exponent comes out right.
  const auto unit =
      static_cast<uint64_t>(exponent - format.fraction_bits + kDoubleFraction + kDoubleBias)
      << kDoubleFraction;
  const uint64_t units = std::bit_cast<uint64_t>(size + std::bit_cast<double>(unit)) - unit;
  return (static_cast<uint64_t>(exponent - format.least_exponent) << format.fraction_bits) + units;
}

template <NarrowFormat format, typename Bits>
uint64_t NarrowSmall(const double* numbers, size_t count, std::byte* out) {
  uint64_t overflows = 0;
  for (size_t i = 0; i < count; ++i) {
    const double number = numbers[i];
    const uint64_t sign = std::signbit(number) ? uint64_t{1} << (format.bits - 1) : 0;
    uint64_t code = format.nan;
    if (std::isfinite(number)) {
      code = CodeOf(std::fabs(number), format);
      if (code > format.greatest) {
        code = format.infinity;
        ++overflows;
      }
    } else if (std::isinf(number)) {
      code = format.infinity;
    }
    if (format.signed_zero_and_nan || (code != 0 && code != format.nan)) code |= sign;
    const auto narrow = static_cast<Bits>(code);
    std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return overflows;
}

uint64_t NarrowF32(const double* numbers, size_t count, std::byte* out) {
  uint64_t overflows = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto narrow = static_cast<float>(numbers[i]);
    overflows += std::isinf(narrow) && !std::isinf(numbers[i]) ? 1 : 0;
    std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return overflows;
}

uint64_t NarrowF64(const double* numbers, size_t count, std::byte* out) {
  std::memcpy(out, numbers, count * sizeof *numbers);
  return 0;
}

}  // namespace

Narrow FindNarrow(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return NarrowSmall<kNarrowF16, uint16_t>;
    case DType::kBF16:
      return NarrowSmall<kNarrowBF16, uint16_t>;
    case DType::kF32:
      return NarrowF32;
    case DType::kF64:
      return NarrowF64;
    case DType::kF8E4M3:
      return NarrowSmall<kNarrowE4M3, uint8_t>;
    case DType::kF8E5M2:
      return NarrowSmall<kNarrowE5M2, uint8_t>;
    case DType::kF8E4M3FNUZ:
      return NarrowSmall<kNarrowE4M3Fnuz, uint8_t>;
    case DType::kF8E5M2FNUZ:
      return NarrowSmall<kNarrowE5M2Fnuz, uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace dsckpt::numerics
