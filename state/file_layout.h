#ifndef DSCKPT_STATE_FILE_LAYOUT_H_
#define DSCKPT_STATE_FILE_LAYOUT_H_

// The file image that a description leads to, cached from save to save.

#include <cstdint>
#include <string>
#include <vector>

#include "dsckpt/provider.h"
#include "dsckpt/status.h"
#include "format/header/header.h"
#include "format/index/index.h"
#include "state/description.h"

namespace dsckpt {

/// Positions of a file's tensors, aliases and objects, each in name order.
using TensorOrdinal = Ordinal<struct TensorOrdinalTag>;
using AliasOrdinal = Ordinal<struct AliasOrdinalTag>;
using ObjectOrdinal = Ordinal<struct ObjectOrdinalTag>;

/// What became of a described tensor: a tensor of the file, or, tied to another, an alias.
class TensorOrAlias {
 public:
  TensorOrAlias() = default;
  explicit TensorOrAlias(TensorOrdinal tensor) : value_(tensor.value()) {}
  explicit TensorOrAlias(AliasOrdinal alias) : value_(alias.value() | kAliasBit) {}
  bool is_alias() const { return (value_ & kAliasBit) != 0; }
  /// REQUIRES: !is_alias().
  TensorOrdinal tensor() const { return TensorOrdinal(value_); }
  /// REQUIRES: is_alias().
  AliasOrdinal alias() const { return AliasOrdinal(value_ & ~kAliasBit); }

 private:
  static constexpr uint32_t kAliasBit = uint32_t{1} << 31;
  uint32_t value_ = 0;
};

/// The file image that a description leads to: items sorted, ties folded, every placed tensor at
/// its offset, the JSON header ready. Depends on the description's identity and on which tensors
/// share memory, on nothing else; a writer keeps it from save to save. Immutable once built.
struct FileLayout {
  OrdinalVector<TensorOrdinal, SourceIndex> tensors;
  OrdinalVector<AliasOrdinal, SourceIndex> aliases;
  OrdinalVector<ObjectOrdinal, ObjectIndex> objects;
  OrdinalVector<AliasOrdinal, TensorOrdinal> alias_target;
  OrdinalVector<SourceIndex, TensorOrAlias> tensor_ordinal;
  OrdinalVector<ObjectIndex, ObjectOrdinal> object_ordinal;

  /// The tensor whose bytes a described one has: its own, or that which it is tied to.
  TensorOrdinal StoredTensor(SourceIndex source) const {
    const TensorOrAlias item = tensor_ordinal[source];
    return item.is_alias() ? alias_target[item.alias()] : item.tensor();
  }

  /// Placed tensors, the raw ones, in file order. The first `listed` of them lie in [data_begin,
  /// tail_begin), the others from unlisted_begin on.
  std::vector<TensorOrdinal> placed_order;
  uint32_t listed = 0;
  OrdinalVector<TensorOrdinal, uint64_t> offset;  // 0 for encoded tensors, which are appended.
  OrdinalVector<TensorOrdinal, uint64_t> raw_bytes;

  struct AppendedItem {
    bool is_object;
    TensorOrdinal tensor = {};  // One of these, as is_object says.
    ObjectOrdinal object = {};
  };
  /// Objects and encoded tensors, which follow the placed tensors, in name order.
  std::vector<AppendedItem> appended;

  uint64_t data_begin = 0;      // D
  uint64_t tail_begin = 0;      // L
  uint64_t unlisted_begin = 0;  // L rounded up to a page
  uint64_t placed_end = 0;      // end of the last placed tensor
  uint64_t appended_begin = 0;  // placed_end rounded up to a page

  struct Header {
    std::string region;         // [0, D), sizes not yet patched
    bool lists_tensors = true;  // false: above the cap, `__dsckpt__` alone
    format::Metadata metadata;  // what `region` was built with, for cache comparison
  };
  Header header;
  bool shard = true;  // false: plain safetensors

  /// Columns that do not depend on the data: names, dtypes, dims, aliases, media types, raw sizes,
  /// encodings, chunk ends of tensors. A save copies them and fills in the rest.
  format::IndexColumns columns;

  /// Where the chunk sums of a tensor begin.
  uint32_t FirstSum(TensorOrdinal tensor) const {
    return tensor.value() == 0 ? 0 : columns.tensors.chunk_end[tensor.value() - 1];
  }
};

/// Sorts, checks (names, duplicates, limits, for plain safetensors also its restrictions) and lays
/// out. kInvalidArgument, kAlreadyExists (a name twice), kLimitExceeded.
Result<FileLayout> BuildFileLayout(const Description::Data& description, bool shard,
                                   const format::Metadata& metadata);

/// True when `layout`, built from `built_from`, holds for `description` too: same identity, same
/// ties, same options. Cheap: compares arrays; looks for ties again only where addresses changed.
bool FileLayoutHolds(const FileLayout& layout, const Description::Data& built_from,
                     const Description::Data& description, bool shard,
                     const format::Metadata& metadata);

/// The description's trees with ordinals and alias kinds in place of description positions.
format::TreeColumns ResolveTree(const Description::Data& description, const FileLayout& layout);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_FILE_LAYOUT_H_
