#ifndef DSCKPT_DTYPE_H_
#define DSCKPT_DTYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// The element type of a tensor. The numbers are stored in files (spec/format.md, "Dtypes") and
/// never change their meaning. A file may hold a number that is not listed here, from a later
/// release: such a tensor is listed and verified, but it is not interpreted.
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
  /// Two kF32: the real part, then the imaginary part.
  kC64 = 14,
  /// Two kF64. safetensors has no such dtype, so the JSON header does not list these tensors.
  kC128 = 15,
  /// E4M3 of the OCP 8-bit floating point specification; other programs call it "fn".
  kF8E4M3 = 16,
  /// E5M2 of the same specification.
  kF8E5M2 = 17,
  /// The scale type E8M0 of the OCP microscaling (MX) specification.
  kF8E8M0 = 18,
  kF8E4M3FNUZ = 19,
  kF8E5M2FNUZ = 20,
  /// MX E2M3: four elements are packed into three bytes.
  kF6E2M3 = 21,
  /// MX E3M2: four elements are packed into three bytes.
  kF6E3M2 = 22,
  /// MX E2M1: two elements are packed into one byte.
  kF4 = 23,
  /// Two signed elements are packed into one byte. safetensors has no such dtype.
  kI4 = 24,
  /// Two unsigned elements are packed into one byte. safetensors has no such dtype.
  kU4 = 25,
};

/// Short spellings of the usual dtypes: `dsckpt::kF32` is `dsckpt::DType::kF32`.
inline constexpr DType kBool = DType::kBool, kU8 = DType::kU8, kI8 = DType::kI8, kU16 = DType::kU16,
                       kI16 = DType::kI16, kU32 = DType::kU32, kI32 = DType::kI32,
                       kU64 = DType::kU64, kI64 = DType::kI64, kF16 = DType::kF16,
                       kBF16 = DType::kBF16, kF32 = DType::kF32, kF64 = DType::kF64,
                       kC64 = DType::kC64, kC128 = DType::kC128;

/// What the format knows about a dtype (spec/format.md, "Dtype descriptors"). Elements are stored
/// in blocks: `block_elements` of them take `block_bytes`. So packed dtypes (kF4: two elements in
/// one byte) and block-quantized ones fit the same description.
struct DTypeInfo {
  /// The number that files hold.
  DType code;
  /// The nominal size of one element, in bits.
  uint16_t bits;
  /// How many elements one block holds. The element count of a tensor is a multiple of it.
  uint32_t block_elements;
  /// The size of one block, in bytes.
  uint32_t block_bytes;
  /// The spelling of safetensors, such as "BF16" or "F8_E4M3"; "unknown" for a number that is not
  /// registered. The text is static.
  std::string_view name;
  /// Whether safetensors 0.8.0 knows the dtype. Then the JSON header lists raw tensors of it, and
  /// other programs can read them.
  bool listable;
  /// Whether the elements are floating-point numbers, to which Encoding::kBytePlaneZstd applies.
  bool floating;
};

/// Finds the registered description of a number. Returns nothing for a number that this release
/// does not know.
std::optional<DTypeInfo> FindDType(DType code);
/// Finds a dtype by its safetensors spelling, such as "F32". Upper and lower case are different.
std::optional<DTypeInfo> FindDType(std::string_view name);
/// Returns all registered dtypes in the order of their numbers. The array is static.
std::span<const DTypeInfo> AllDTypes();

/// Returns the text of a dtype for a message: its safetensors spelling, or "unknown(999)" for a
/// number that is not registered.
std::string DTypeText(DType code);
/// Returns the text of a shape for a message, such as "[2, 3]".
std::string ShapeText(std::span<const int64_t> shape);

/// Returns the number of elements of a tensor of this shape; an empty shape is a scalar and has
/// one.
///
/// Errors: kInvalidArgument when a dimension is negative, or when the product does not fit into 63
/// bits. A dimension of zero makes the count 0, but the other dimensions must not overflow even
/// then: readers may multiply them in another order.
Result<uint64_t> ElementCount(std::span<const int64_t> shape);
/// Returns how many bytes a tensor of this dtype and shape takes when it is stored raw.
///
/// Errors: kInvalidArgument as for ElementCount(), and when the elements do not fill whole blocks.
Result<uint64_t> TensorBytes(const DTypeInfo& dtype, std::span<const int64_t> shape);

/// The DType of a C++ element type: bool, float, double and the fixed-width integers. It is
/// DType{0}, which no file holds, for every other type.
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
