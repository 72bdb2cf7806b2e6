#ifndef DSCKPT_DTYPE_H_
#define DSCKPT_DTYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/status.h"

namespace dsckpt {

/// Element types. The numbers are stored in files (spec/format.md, "Registry: dtypes") and never
/// change meaning. A file may hold a code that is not listed here: its items are listed and
/// verified, but not interpreted.
enum class DType : uint16_t {
  kBool = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kU32 = 6,
  kI32 = 7,
  kU64 = 8,
  kI64 = 9,
  kF16 = 10,
  kBF16 = 11,
  kF32 = 12,
  kF64 = 13,
  kC64 = 14,     ///< two F32: real, imaginary
  kC128 = 15,    ///< two F64; not a safetensors dtype
  kF8E4M3 = 16,  ///< OCP E4M3 ("fn")
  kF8E5M2 = 17,  ///< OCP E5M2
  kF8E8M0 = 18,  ///< OCP MX scale
  kF8E4M3FNUZ = 19,
  kF8E5M2FNUZ = 20,
  kF6E2M3 = 21,  ///< 4 elements in 3 bytes
  kF6E3M2 = 22,
  kF4 = 23,  ///< OCP E2M1, 2 elements in a byte
  kI4 = 24,  ///< 2 elements in a byte; not a safetensors dtype
  kU4 = 25,  ///< 2 elements in a byte; not a safetensors dtype
};

inline constexpr DType kBool = DType::kBool, kU8 = DType::kU8, kI8 = DType::kI8, kU16 = DType::kU16,
                       kI16 = DType::kI16, kU32 = DType::kU32, kI32 = DType::kI32,
                       kU64 = DType::kU64, kI64 = DType::kI64, kF16 = DType::kF16,
                       kBF16 = DType::kBF16, kF32 = DType::kF32, kF64 = DType::kF64,
                       kC64 = DType::kC64, kC128 = DType::kC128;

/// What the format knows of a dtype. Elements come in blocks: `block_elements` of them take
/// `block_bytes`. Sub-byte types (F4: 2 in 1 byte) and block-quantized ones fit the same
/// description.
struct DTypeInfo {
  DType code;
  uint16_t bits;            ///< Nominal bits an element.
  uint32_t block_elements;  ///< A tensor's element count is a multiple of this.
  uint32_t block_bytes;
  std::string_view
      name;  ///< safetensors spelling, e.g. "BF16", "F8_E4M3"; "unknown" for an unregistered code.
  bool listable;  ///< safetensors 0.8.0 knows it, so the JSON header lists raw tensors of it.
  bool floating;  ///< Byte-plane encoding applies.
};

/// The registered description, or nothing for a code that this release does not know.
std::optional<DTypeInfo> FindDType(DType code);
/// By safetensors spelling, case-sensitive: "F32".
std::optional<DTypeInfo> FindDType(std::string_view name);
/// All registered dtypes, in code order.
std::span<const DTypeInfo> AllDTypes();

/// A dtype for a message: its safetensors spelling, or "unknown(999)" for an unregistered code.
std::string DTypeText(DType code);
/// A shape for a message: "[2, 3]".
std::string ShapeText(std::span<const int64_t> shape);

/// Elements in `shape`; kInvalidArgument on a negative dimension or when the product leaves 63
/// bits. A dimension of zero makes it 0 whatever the others are, unless the others alone overflow:
/// that is refused too, because readers multiply in different orders.
Result<uint64_t> ElementCount(std::span<const int64_t> shape);
/// Bytes that `shape` takes at `dtype`; kInvalidArgument as above, or when the count is no whole
/// number of blocks.
Result<uint64_t> TensorBytes(const DTypeInfo& dtype, std::span<const int64_t> shape);

/// DType of a C++ element type, for typed views: float, double, bool and the fixed-width integers.
template <typename T>
inline constexpr DType kDTypeOf = DType{0};
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kU8;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kI8;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kU16;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kI16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kU32;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kU64;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;

}  // namespace dsckpt

#endif  // DSCKPT_DTYPE_H_
