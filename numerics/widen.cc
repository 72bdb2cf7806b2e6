#include "numerics/widen.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace dsckpt::numerics {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
void WidenNumbers(const std::byte* elements, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, elements + i * sizeof value, sizeof value);
    out[i] = static_cast<double>(value);
  }
}

void WidenBools(const std::byte* elements, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) out[i] = elements[i] == std::byte{0} ? 0 : 1;
}

void WidenBF16(const std::byte* elements, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    out[i] = static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16));
  }
}

/// Moves the exponent and the fraction of a binary16 into a binary64. What has no exponent of its
/// own, zeros and subnormal numbers, is a count of 2^-24.
void WidenF16(const std::byte* elements, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    const uint64_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    const uint64_t wide = exponent == 31 ? 2047 : exponent + 1023 - 15;
    const double size = exponent == 0 ? static_cast<double>(fraction) * 0x1p-24
                                      : std::bit_cast<double>(wide << 52 | fraction << 42);
    out[i] = (bits & 0x8000) != 0 ? -size : size;
  }
}

using Bytes = std::array<double, 256>;

/// An 8-bit float. `infinities`: the greatest exponent means what it means in binary16.
struct SmallFloat {
  int fraction_bits;
  int bias;
  bool infinities;
};

/// `negative_zero_is_nan`: 0x80 is the only NaN; else E4M3 has them where all bits but the sign are
/// ones.
Bytes TableOf(SmallFloat format, bool negative_zero_is_nan) {
  Bytes table;
  const int fractions = 1 << format.fraction_bits;
  const int greatest = (128 >> format.fraction_bits) - 1;
  for (int byte = 0; byte < 256; ++byte) {
    const int size = byte & 127;
    const int exponent = size / fractions, fraction = size % fractions;
    double value = exponent == 0 ? std::ldexp(fraction, 1 - format.bias - format.fraction_bits)
                                 : std::ldexp(fractions + fraction,
                                              exponent - format.bias - format.fraction_bits);
    if (format.infinities && exponent == greatest) {
      value = fraction == 0 ? std::numeric_limits<double>::infinity() : kNan;
    }
    if (!format.infinities && !negative_zero_is_nan && size == 127) value = kNan;
    table[static_cast<size_t>(byte)] = byte < 128 ? value : -value;
  }
  if (negative_zero_is_nan) table[0x80] = kNan;
  return table;
}

Bytes ScaleTable() {
  Bytes table;
  for (int byte = 0; byte < 255; ++byte) {
    table[static_cast<size_t>(byte)] = std::ldexp(1.0, byte - 127);
  }
  table[255] = kNan;
  return table;
}

Bytes MakeTable(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3:
      return TableOf({.fraction_bits = 3, .bias = 7, .infinities = false}, false);
    case DType::kF8E5M2:
      return TableOf({.fraction_bits = 2, .bias = 15, .infinities = true}, false);
    case DType::kF8E4M3FNUZ:
      return TableOf({.fraction_bits = 3, .bias = 8, .infinities = false}, true);
    case DType::kF8E5M2FNUZ:
      return TableOf({.fraction_bits = 2, .bias = 16, .infinities = false}, true);
    default:
      return ScaleTable();
  }
}

template <DType dtype>
void WidenBytes(const std::byte* elements, size_t count, double* out) {
  static const Bytes table = MakeTable(dtype);
  const Bytes& values = table;
  for (size_t i = 0; i < count; ++i) out[i] = values[std::to_integer<size_t>(elements[i])];
}

}  // namespace

Widen FindWiden(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return WidenBools;
    case DType::kU8:
      return WidenNumbers<uint8_t>;
    case DType::kI8:
      return WidenNumbers<int8_t>;
    case DType::kU16:
      return WidenNumbers<uint16_t>;
    case DType::kI16:
      return WidenNumbers<int16_t>;
    case DType::kU32:
      return WidenNumbers<uint32_t>;
    case DType::kI32:
      return WidenNumbers<int32_t>;
    case DType::kU64:
      return WidenNumbers<uint64_t>;
    case DType::kI64:
      return WidenNumbers<int64_t>;
    case DType::kF16:
      return WidenF16;
    case DType::kBF16:
      return WidenBF16;
    case DType::kF32:
      return WidenNumbers<float>;
    case DType::kF64:
      return WidenNumbers<double>;
    case DType::kF8E4M3:
      return WidenBytes<DType::kF8E4M3>;
    case DType::kF8E5M2:
      return WidenBytes<DType::kF8E5M2>;
    case DType::kF8E8M0:
      return WidenBytes<DType::kF8E8M0>;
    case DType::kF8E4M3FNUZ:
      return WidenBytes<DType::kF8E4M3FNUZ>;
    case DType::kF8E5M2FNUZ:
      return WidenBytes<DType::kF8E5M2FNUZ>;
    default:
      return nullptr;
  }
}

}  // namespace dsckpt::numerics
