// The dtype table, overflow-safe sizes.

#include "dsckpt/dtype.h"

#include <array>
#include <limits>
#include <string>

namespace dsckpt {
namespace {

// The one dtype table. `floating` is false for the sub-byte floats: their bytes hold parts of
// several elements, so there are no planes of equal significance to gather.
// clang-format off
constexpr std::array kTable = std::to_array<DTypeInfo>({
    //                    bits  block: elements, bytes  name        listable floating
    {DType::kBool,           8, 1,  1, "BOOL",        true,  false},
    {DType::kU8,             8, 1,  1, "U8",          true,  false},
    {DType::kI8,             8, 1,  1, "I8",          true,  false},
    {DType::kU16,           16, 1,  2, "U16",         true,  false},
    {DType::kI16,           16, 1,  2, "I16",         true,  false},
    {DType::kU32,           32, 1,  4, "U32",         true,  false},
    {DType::kI32,           32, 1,  4, "I32",         true,  false},
    {DType::kU64,           64, 1,  8, "U64",         true,  false},
    {DType::kI64,           64, 1,  8, "I64",         true,  false},
    {DType::kF16,           16, 1,  2, "F16",         true,  true},
    {DType::kBF16,          16, 1,  2, "BF16",        true,  true},
    {DType::kF32,           32, 1,  4, "F32",         true,  true},
    {DType::kF64,           64, 1,  8, "F64",         true,  true},
    {DType::kC64,           64, 1,  8, "C64",         true,  true},
    {DType::kC128,         128, 1, 16, "C128",        false, true},
    {DType::kF8E4M3,         8, 1,  1, "F8_E4M3",     true,  true},
    {DType::kF8E5M2,         8, 1,  1, "F8_E5M2",     true,  true},
    {DType::kF8E8M0,         8, 1,  1, "F8_E8M0",     true,  true},
    {DType::kF8E4M3FNUZ,     8, 1,  1, "F8_E4M3FNUZ", true,  true},
    {DType::kF8E5M2FNUZ,     8, 1,  1, "F8_E5M2FNUZ", true,  true},
    {DType::kF6E2M3,         6, 4,  3, "F6_E2M3",     true,  false},
    {DType::kF6E3M2,         6, 4,  3, "F6_E3M2",     true,  false},
    {DType::kF4,             4, 2,  1, "F4",          true,  false},
    {DType::kI4,             4, 2,  1, "I4",          false, false},
    {DType::kU4,             4, 2,  1, "U4",          false, false},
});
// clang-format on

constexpr bool CodesAreDense() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].code) != i + 1) return false;
  }
  return true;
}
static_assert(CodesAreDense(), "FindDType(code) indexes the table by code");

constexpr uint64_t kMaxCount = std::numeric_limits<int64_t>::max();

Status BadShape(std::span<const int64_t> shape, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, "shape " + ShapeText(shape) + ": " + why);
}

}  // namespace

std::optional<DTypeInfo> FindDType(DType code) {
  const size_t index = static_cast<size_t>(code) - 1;
  if (index >= kTable.size()) return std::nullopt;
  return kTable[index];
}

std::optional<DTypeInfo> FindDType(std::string_view name) {
  for (const DTypeInfo& info : kTable) {
    if (info.name == name) return info;
  }
  return std::nullopt;
}

std::span<const DTypeInfo> AllDTypes() { return kTable; }

std::string DTypeText(DType code) {
  if (const auto known = FindDType(code)) return std::string(known->name);
  return "unknown(" + std::to_string(static_cast<unsigned>(code)) + ")";
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t dim : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + ']';
}

Result<uint64_t> ElementCount(std::span<const int64_t> shape) {
  uint64_t others = 1;  // Product of the dimensions that are not zero.
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      return BadShape(shape, "dimension " + std::to_string(i) + " is negative");
    }
    const auto dim = static_cast<uint64_t>(shape[i]);
    if (dim == 0) {
      empty = true;
    } else if (others > kMaxCount / dim) {
      return BadShape(shape, "more than 2^63-1 elements");
    } else {
      others *= dim;
    }
  }
  return empty ? 0 : others;
}

Result<uint64_t> TensorBytes(const DTypeInfo& dtype, std::span<const int64_t> shape) {
  DSCKPT_ASSIGN_OR_RETURN(const uint64_t count, ElementCount(shape));
  // Descriptions come from files too: a block of zero elements must not divide.
  if (dtype.block_elements == 0 || count % dtype.block_elements != 0) {
    return BadShape(shape, std::to_string(count) + " elements of " + std::string(dtype.name) +
                               " do not fill whole bytes; the count must be a multiple of " +
                               std::to_string(dtype.block_elements));
  }
  const uint64_t blocks = count / dtype.block_elements;
  if (dtype.block_bytes != 0 && blocks > kMaxCount / dtype.block_bytes) {
    return BadShape(shape, "more than 2^63-1 bytes of " + std::string(dtype.name));
  }
  return blocks * dtype.block_bytes;
}

}  // namespace dsckpt
