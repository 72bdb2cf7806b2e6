#ifndef DSCKPT_TOOLS_ITEMS_H_
#define DSCKPT_TOOLS_ITEMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/file.h"

// The items of an open file as listings show them.

namespace dsckpt::tools {

/// A tensor or an alias of one, by ordinal.
struct TensorRow {
  uint32_t index;
  bool alias;
};

/// A row with what it stands for: an alias carries everything of its target but the name.
struct TensorEntry {
  std::string_view name;
  TensorInfo info;
  std::optional<std::string_view> alias_of;
};
TensorEntry Resolve(const File& file, TensorRow row);

/// Raw bytes of all tensors.
uint64_t TotalTensorBytes(const File& file);

enum class SortBy { kName, kSize, kOffset };

/// Tensors and aliases whose names match any of `patterns` (all when empty), sorted: names in byte
/// order, sizes descending, offsets ascending; ties by name.
std::vector<TensorRow> SelectTensors(const File& file, const std::vector<std::string>& patterns,
                                     SortBy sort);
std::vector<uint32_t> SelectObjects(const File& file, const std::vector<std::string>& patterns);

/// "BF16", or "unknown(77)".
std::string DTypeText(const DTypeInfo& dtype);
/// "raw", "zstd", "byteplane-zstd", or "unknown(9)".
std::string EncodingText(Encoding encoding);
/// "[2, 3]".
std::string ShapeText(std::span<const int64_t> shape);
/// Empty for raw items; "zstd 43%": stored bytes of raw bytes.
std::string StoredText(Encoding encoding, uint64_t raw_bytes, uint64_t stored_bytes);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_ITEMS_H_
