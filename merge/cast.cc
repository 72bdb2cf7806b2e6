#include "merge/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace dsckpt::merge {

namespace {

// Elements that are cast at a time: memory is a fraction of a MiB a thread.
constexpr uint64_t kStep = 1 << 16;

/// IEEE formats of 16 bits.
struct Half {
  int mantissa_bits;
  int smallest_exponent;  // of normal numbers
};
constexpr Half kF16Format{10, -14};
constexpr Half kBF16Format{7, -126};

double Widen(uint16_t bits, Half format) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> format.mantissa_bits;
  const int largest = 0x7FFF >> format.mantissa_bits;
  double value;
  if (exponent == largest) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, format.smallest_exponent - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << format.mantissa_bits),
                       format.smallest_exponent + exponent - 1 - format.mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t Narrow(double value, Half format) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinity =
      static_cast<uint16_t>(0x7FFF >> format.mantissa_bits << format.mantissa_bits);
  if (std::isnan(value))
    return sign | infinity | static_cast<uint16_t>(1 << (format.mantissa_bits - 1));
  const double magnitude = std::abs(value);
  if (std::isinf(value)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.smallest_exponent);
  if (exponent > -format.smallest_exponent + 2) return sign | infinity;
  // In units of the last place; exact, for the scale is a power of two. A carry into the next
  // exponent comes out right in the sum.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const auto bits =
      static_cast<uint32_t>((exponent - format.smallest_exponent) << format.mantissa_bits) +
      static_cast<uint32_t>(units);
  return sign | static_cast<uint16_t>(std::min<uint32_t>(bits, infinity));
}

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double Get(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF16:
      return Widen(Load<uint16_t>(at), kF16Format);
    case DType::kBF16:
      return std::bit_cast<float>(uint32_t{Load<uint16_t>(at)} << 16);
    case DType::kF32:
      return Load<float>(at);
    default:
      return Load<double>(at);
  }
}

/// Returns whether a finite number became infinite.
bool Put(DType dtype, double value, std::byte* at) {
  const auto store = [&](auto narrow) { std::memcpy(at, &narrow, sizeof narrow); };
  const auto half = [&](Half format) {
    const uint16_t bits = Narrow(value, format);
    store(bits);
    const int infinity = 0x7FFF >> format.mantissa_bits << format.mantissa_bits;
    return std::isfinite(value) && (bits & 0x7FFF) == infinity;
  };
  switch (dtype) {
    case DType::kF16:
      return half(kF16Format);
    case DType::kBF16:
      return half(kBF16Format);
    case DType::kF32: {
      const auto narrow = static_cast<float>(value);
      store(narrow);
      return std::isfinite(value) && std::isinf(narrow);
    }
    default:
      store(value);
      return false;
  }
}

uint64_t Size(DType dtype) { return FindDType(dtype)->block_bytes; }

}  // namespace

bool CanCast(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

uint64_t CastElements(DType from, DType to, std::span<const std::byte> in,
                      std::span<std::byte> out) {
  const uint64_t in_size = Size(from), out_size = Size(to), count = out.size() / out_size;
  uint64_t overflows = 0;
  for (uint64_t i = 0; i < count; ++i) {
    overflows += Put(to, Get(from, in.data() + i * in_size), out.data() + i * out_size);
  }
  return overflows;
}

Result<uint64_t> ReadCast(
    DType from, DType to, uint64_t offset, std::span<std::byte> out,
    const std::function<Status(uint64_t offset, std::span<std::byte> out)>& read) {
  const uint64_t in_size = Size(from), out_size = Size(to), end = offset + out.size();
  std::vector<std::byte> in(kStep * in_size), cast(kStep * out_size);
  uint64_t overflows = 0;
  for (uint64_t done = offset; done < end;) {
    // A window may begin and end within an element.
    const uint64_t first = done / out_size;
    const uint64_t last = std::min((end + out_size - 1) / out_size, first + kStep);
    const auto some = std::span(in).first((last - first) * in_size);
    DSCKPT_RETURN_IF_ERROR(read(first * in_size, some));
    const auto made = std::span(cast).first((last - first) * out_size);
    overflows += CastElements(from, to, some, made);
    const uint64_t skip = done - first * out_size;
    const uint64_t bytes = std::min(made.size() - skip, end - done);
    std::memcpy(out.data() + (done - offset), made.data() + skip, bytes);
    done += bytes;
  }
  return overflows;
}

}  // namespace dsckpt::merge
