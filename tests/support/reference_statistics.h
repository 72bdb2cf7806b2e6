#ifndef DSCKPT_TESTS_SUPPORT_REFERENCE_STATISTICS_H_
#define DSCKPT_TESTS_SUPPORT_REFERENCE_STATISTICS_H_

// The rules of spec/format.md, "Statistics", written down element by element.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/tensor_statistics.h"

namespace dsckpt {

template <typename T>
T ElementAt(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// A number of `fraction_bits` with a sign above `exponent_bits`; what its greatest exponent means
/// is up to the caller.
inline double SmallFloatValue(uint32_t bits, int exponent_bits, int fraction_bits, int bias) {
  const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const double fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
  const double one = std::exp2(fraction_bits);
  const double size = exponent == 0 ? fraction / one * std::exp2(1 - bias)
                                    : (1 + fraction / one) * std::exp2(exponent - bias);
  return negative ? -size : size;
}

/// IEEE's meaning of the greatest exponent.
inline double IeeeValue(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t greatest = (1u << exponent_bits) - 1;
  if ((bits >> fraction_bits & greatest) == greatest) {
    const double infinity = std::numeric_limits<double>::infinity();
    if (fraction != 0) return std::numeric_limits<double>::quiet_NaN();
    return (bits >> (exponent_bits + fraction_bits) & 1) != 0 ? -infinity : infinity;
  }
  return SmallFloatValue(bits, exponent_bits, fraction_bits, (1 << (exponent_bits - 1)) - 1);
}

inline double ReferenceValue(DType dtype, const std::byte* at) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto byte = std::to_integer<uint32_t>(*at);
  switch (dtype) {
    case DType::kBool:
      return byte != 0 ? 1 : 0;
    case DType::kU8:
      return byte;
    case DType::kI8:
      return ElementAt<int8_t>(at);
    case DType::kU16:
      return ElementAt<uint16_t>(at);
    case DType::kI16:
      return ElementAt<int16_t>(at);
    case DType::kU32:
      return ElementAt<uint32_t>(at);
    case DType::kI32:
      return ElementAt<int32_t>(at);
    case DType::kU64:
      return static_cast<double>(ElementAt<uint64_t>(at));
    case DType::kI64:
      return static_cast<double>(ElementAt<int64_t>(at));
    case DType::kF16:
      return IeeeValue(ElementAt<uint16_t>(at), 5, 10);
    case DType::kBF16:
      return IeeeValue(ElementAt<uint16_t>(at), 8, 7);
    case DType::kF32:
      return static_cast<double>(ElementAt<float>(at));
    case DType::kF64:
      return ElementAt<double>(at);
    case DType::kF8E4M3:
      return (byte & 127) == 127 ? nan : SmallFloatValue(byte, 4, 3, 7);
    case DType::kF8E5M2:
      return IeeeValue(byte, 5, 2);
    case DType::kF8E8M0:
      return byte == 255 ? nan : std::exp2(static_cast<int>(byte) - 127);
    case DType::kF8E4M3FNUZ:
      return byte == 128 ? nan : SmallFloatValue(byte, 4, 3, 8);
    case DType::kF8E5M2FNUZ:
      return byte == 128 ? nan : SmallFloatValue(byte, 5, 2, 16);
    default:
      return nan;
  }
}

/// Sums of the blocks, joined level by level.
inline double JoinedReference(std::vector<double> level) {
  while (level.size() > 1) {
    std::vector<double> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  const double sum = level.empty() ? 0 : level[0];
  return std::isnan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum;
}

inline double BlockReference(const double (&lanes)[16]) {
  double sums[16];
  std::copy(std::begin(lanes), std::end(lanes), sums);
  for (const size_t width : {8, 4, 2, 1}) {
    for (size_t k = 0; k < width; ++k) sums[k] = sums[k] + sums[k + width];
  }
  return sums[0];
}

/// One element by the rules.
struct ReferenceElement {
  bool nan, inf, zero;
  double value, square;
};

inline ReferenceElement ReferenceOf(DType dtype, const std::byte* at) {
  if (dtype != DType::kC64 && dtype != DType::kC128) {
    const double value = ReferenceValue(dtype, at);
    return {std::isnan(value), std::isinf(value), value == 0, value, value * value};
  }
  const bool narrow = dtype == DType::kC64;
  const double re = narrow ? static_cast<double>(ElementAt<float>(at)) : ElementAt<double>(at);
  const double im =
      narrow ? static_cast<double>(ElementAt<float>(at + 4)) : ElementAt<double>(at + 8);
  // Apart, so that no compiler fuses them.
  const volatile double re_square = re * re;
  const volatile double im_square = im * im;
  const double square = re_square + im_square;
  const bool nan = std::isnan(re) || std::isnan(im);
  return {nan, !nan && (std::isinf(re) || std::isinf(im)), re == 0 && im == 0, std::sqrt(square),
          square};
}

/// All elements of a tensor.
inline TensorStatistics ReferenceStatistics(DType dtype, std::span<const std::byte> bytes) {
  const size_t size = FindDType(dtype)->block_bytes;
  TensorStatistics result;
  result.min = result.max = std::numeric_limits<double>::quiet_NaN();
  const auto less = [](double a, double b) {
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  };
  std::vector<double> sums, squares;
  for (size_t first = 0; first * size < bytes.size(); first += 4096) {
    double lane_sums[16] = {}, lane_squares[16] = {};
    for (size_t i = 0; i < 4096 && (first + i) * size < bytes.size(); ++i) {
      const auto element = ReferenceOf(dtype, bytes.data() + (first + i) * size);
      result.nan += element.nan;
      result.inf += element.inf;
      if (element.nan || element.inf) continue;
      result.zero += element.zero;
      if (std::isnan(result.min) || less(element.value, result.min)) result.min = element.value;
      if (std::isnan(result.max) || less(result.max, element.value)) result.max = element.value;
      lane_sums[i % 16] += element.value;
      lane_squares[i % 16] += element.square;
    }
    sums.push_back(BlockReference(lane_sums));
    squares.push_back(BlockReference(lane_squares));
  }
  result.sum = JoinedReference(sums);
  result.sum_squares = JoinedReference(squares);
  return result;
}

/// The bits of all members: 0 and -0 differ, a NaN is equal to itself.
inline std::vector<uint64_t> BitsOf(const TensorStatistics& s) {
  return {s.nan,
          s.inf,
          s.zero,
          std::bit_cast<uint64_t>(s.min),
          std::bit_cast<uint64_t>(s.max),
          std::bit_cast<uint64_t>(s.sum),
          std::bit_cast<uint64_t>(s.sum_squares)};
}

}  // namespace dsckpt

#endif  // DSCKPT_TESTS_SUPPORT_REFERENCE_STATISTICS_H_
