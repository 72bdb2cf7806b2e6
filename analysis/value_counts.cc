#include "analysis/value_counts.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "numerics/kernels.h"
#include "numerics/widen.h"

namespace dsckpt::analysis {
namespace {

constexpr size_t kCodes = 1 << 16;
/// Behind the codes of wide elements: zeros, which share one with subnormal numbers.
constexpr size_t kZero = kCodes;

/// Bits that count by themselves.
template <typename Bits>
void CountBits(std::span<const std::byte> elements, std::vector<uint64_t>& counts) {
  for (size_t at = 0; at < elements.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, elements.data() + at, sizeof bits);
    ++counts[bits];
  }
}

/// The same as UpperHalf() of each.
void CountFloats(std::span<const std::byte> elements, std::vector<uint64_t>& counts) {
  constexpr uint32_t kNoSign = 0x7FFF'FFFF, kInfinity = 0x7F80'0000;
  for (size_t at = 0; at < elements.size(); at += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, elements.data() + at, sizeof bits);
    if ((bits & kNoSign) < kInfinity) ++counts[(bits & kNoSign) == 0 ? kZero : bits >> 16];
  }
}

/// Toward zero; what a float is too small for is the greatest float.
uint32_t UpperHalf(double value) {
  const double size = std::min(std::fabs(value), static_cast<double>(FLT_MAX));
  auto narrow = static_cast<float>(size);
  if (static_cast<double>(narrow) > size) narrow = std::nextafterf(narrow, 0);
  const uint32_t sign = value < 0 ? 0x8000 : 0;
  return std::bit_cast<uint32_t>(narrow) >> 16 | sign;
}

double ValueOf(uint32_t upper_half) {
  return static_cast<double>(std::bit_cast<float>(upper_half << 16));
}

/// A step of BF16, away from zero.
TensorHistogram::Bin BinOf(uint32_t code, double greatest, uint64_t count) {
  const double low = ValueOf(code), next = ValueOf(code + 1);
  const double far = std::isfinite(next) ? next : std::copysign(greatest, low);
  return {std::min(low, far), std::max(low, far), count};
}

void WidenComplex(DType dtype, const std::byte* elements, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    double parts[2];
    if (dtype == DType::kC64) {
      numerics::FindWiden(DType::kF32)(elements + 8 * i, 2, parts);
    } else {
      numerics::FindWiden(DType::kF64)(elements + 16 * i, 2, parts);
    }
    out[i] = std::hypot(parts[0], parts[1]);
    // The modulus of an infinity and NaN is infinite: neither counts.
  }
}

}  // namespace

ValueCounts::ValueCounts(DType dtype)
    : dtype_(dtype),
      element_bytes_(FindDType(dtype)->block_bytes),
      counts_(element_bytes_ == 1   ? 256
              : element_bytes_ == 2 ? kCodes
                                    : kCodes + 1) {}

void ValueCounts::Add(std::span<const std::byte> elements) {
  if (element_bytes_ == 1) return CountBits<uint8_t>(elements, counts_);
  if (element_bytes_ == 2) return CountBits<uint16_t>(elements, counts_);
  if (dtype_ == DType::kF32) return CountFloats(elements, counts_);
  const bool complex = dtype_ == DType::kC64 || dtype_ == DType::kC128;
  double values[numerics::kBlockElements];
  const size_t block_bytes = numerics::kBlockElements * element_bytes_;
  for (size_t at = 0; at < elements.size(); at += block_bytes) {
    const size_t count = std::min(block_bytes, elements.size() - at) / element_bytes_;
    if (complex) {
      WidenComplex(dtype_, elements.data() + at, count, values);
    } else {
      numerics::FindWiden(dtype_)(elements.data() + at, count, values);
    }
    AddNumbers(values, count);
  }
}

void ValueCounts::AddNumbers(const double* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) ++counts_[values[i] == 0 ? kZero : UpperHalf(values[i])];
  }
}

void ValueCounts::Add(const ValueCounts& other) {
  for (size_t code = 0; code < counts_.size(); ++code) counts_[code] += other.counts_[code];
}

TensorHistogram ValueCounts::ToHistogram() const {
  TensorHistogram histogram;
  const bool exact = element_bytes_ <= 2;
  for (uint32_t code = 0; code < counts_.size(); ++code) {
    if (counts_[code] == 0) continue;
    TensorHistogram::Bin bin;
    if (exact) {
      const uint16_t bits = static_cast<uint16_t>(code);
      double value;
      numerics::FindWiden(dtype_)(reinterpret_cast<const std::byte*>(&bits), 1, &value);
      if (!std::isfinite(value)) continue;
      bin = {value, value, counts_[code]};
    } else if (code == kZero) {
      bin = {0, 0, counts_[code]};
    } else {
      bin = BinOf(code, dtype_ == DType::kF32 ? FLT_MAX : DBL_MAX, counts_[code]);
    }
    histogram.bins.push_back(bin);
  }
  std::ranges::sort(histogram.bins, {}, &TensorHistogram::Bin::low);
  return TensorHistogram().With(histogram);
}

}  // namespace dsckpt::analysis
