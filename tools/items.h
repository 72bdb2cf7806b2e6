#ifndef DSCKPT_TOOLS_ITEMS_H_
#define DSCKPT_TOOLS_ITEMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/file.h"
#include "tools/selection_options.h"

// The items of an open file as listings show them.

namespace dsckpt::tools {

class Console;
class JsonWriter;

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

/// Leaves of the state tree that are neither tensors nor objects.
uint64_t PlainValues(const File& file);

/// Of tensors of one dtype. Aliases do not count: their elements exist once.
struct DTypeTotal {
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;
};

/// By DTypeText().
class Totals {
 public:
  void Add(const DTypeInfo& dtype, std::span<const int64_t> shape, uint64_t bytes,
           uint64_t stored_bytes);
  const std::map<std::string, DTypeTotal>& by_dtype() const { return by_dtype_; }
  DTypeTotal all() const;
  /// The member "totals", an object, in an open object.
  void WriteJson(JsonWriter& json) const;
  /// The table, largest first.
  void Print(Console& console) const;

 private:
  std::map<std::string, DTypeTotal> by_dtype_;
};

enum class SortBy { kName, kSize, kOffset };

/// Tensors and aliases that `names` takes, sorted: names in byte order, sizes descending, offsets
/// ascending; ties by name.
std::vector<TensorRow> SelectTensors(const File& file, const NameFilter& names, SortBy sort);
std::vector<uint32_t> SelectObjects(const File& file, const NameFilter& names);

/// Of the tensors among the rows.
Totals TotalsOf(const File& file, const std::vector<TensorRow>& rows);

/// 32 lower-case hexadecimal digits, high half first.
std::string HexDigest(const Hash128& digest);

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
