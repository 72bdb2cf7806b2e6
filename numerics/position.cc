#include "numerics/position.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace dsckpt::numerics {
namespace {

template <typename Int>
void IntegerPositions(const std::byte* elements, size_t count, int64_t* out) {
  for (size_t i = 0; i < count; ++i) {
    Int value;
    std::memcpy(&value, elements + i * sizeof value, sizeof value);
    if constexpr (std::is_same_v<Int, uint64_t>) {
      out[i] = static_cast<int64_t>(value ^ uint64_t{1} << 63);
    } else {
      out[i] = static_cast<int64_t>(value);
    }
  }
}

/// Numbers of a sign and a size, the size in order.
template <typename Bits>
void FloatPositions(const std::byte* elements, size_t count, int64_t* out) {
  constexpr Bits kSize = std::numeric_limits<Bits>::max() >> 1;
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    const auto size = static_cast<int64_t>(bits & kSize);
    out[i] = bits > kSize ? -size : size;
  }
}

}  // namespace

FindPositions PositionsOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kF8E8M0:
      return IntegerPositions<uint8_t>;
    case DType::kI8:
      return IntegerPositions<int8_t>;
    case DType::kU16:
      return IntegerPositions<uint16_t>;
    case DType::kI16:
      return IntegerPositions<int16_t>;
    case DType::kU32:
      return IntegerPositions<uint32_t>;
    case DType::kI32:
      return IntegerPositions<int32_t>;
    case DType::kU64:
      return IntegerPositions<uint64_t>;
    case DType::kI64:
      return IntegerPositions<int64_t>;
    case DType::kF16:
    case DType::kBF16:
      return FloatPositions<uint16_t>;
    case DType::kF32:
      return FloatPositions<uint32_t>;
    case DType::kF64:
      return FloatPositions<uint64_t>;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
      return FloatPositions<uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace dsckpt::numerics
