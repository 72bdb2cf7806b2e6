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

/// The file image that a description leads to: items sorted, ties folded, every raw tensor at its
/// offset, the JSON header ready. Depends on the description's identity and on which tensors share
/// memory, on nothing else; a writer keeps it from save to save. Immutable once built.
struct FileLayout {
  /// Items by ordinal (name order); values are positions in the description.
  std::vector<uint32_t> tensors, aliases, objects;
  std::vector<uint32_t> alias_target;  // ordinal of the tensor
  /// By position in the description: the ordinal among tensors, or among aliases with kAliasBit
  /// set.
  std::vector<uint32_t> tensor_ordinal;
  std::vector<uint32_t> object_ordinal;
  static constexpr uint32_t kAliasBit = uint32_t{1} << 31;

  /// Placed tensors, the raw ones, in file order: ordinals. The first `listed` of them lie in
  /// [data_begin, tail_begin), the others from unlisted_begin on.
  std::vector<uint32_t> placed_order;
  uint32_t listed = 0;
  /// By tensor ordinal; 0 for encoded tensors, which are appended.
  std::vector<uint64_t> offset;
  std::vector<uint64_t> raw_bytes;

  /// Objects and encoded tensors, which follow the placed tensors, in name order.
  struct AppendedItem {
    bool is_object;
    uint32_t ordinal;
  };
  std::vector<AppendedItem> appended;

  uint64_t data_begin = 0;      // D
  uint64_t tail_begin = 0;      // L
  uint64_t unlisted_begin = 0;  // L rounded up to a page
  uint64_t placed_end = 0;      // end of the last placed tensor
  uint64_t appended_begin = 0;  // placed_end rounded up to a page

  std::string header;                // region [0, D), sizes not yet patched
  bool header_lists = true;          // false: above the cap, `__dsckpt__` alone
  format::Metadata header_metadata;  // what `header` was built with, for cache comparison
  bool shard = true;                 // false: plain safetensors

  /// Columns that do not depend on the data: names, dtypes, dims, aliases, media types, raw sizes,
  /// encodings, chunk ends of tensors. A save copies them and fills in the rest.
  format::IndexColumns columns;
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
