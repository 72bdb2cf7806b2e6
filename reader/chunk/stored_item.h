#ifndef DSCKPT_READER_CHUNK_STORED_ITEM_H_
#define DSCKPT_READER_CHUNK_STORED_ITEM_H_

// Where an item's bytes lie and what checks them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/text.h"
#include "dsckpt/encoding.h"
#include "dsckpt/limits.h"
#include "dsckpt/status.h"
#include "format/columns/columns.h"

namespace dsckpt::reader {

/// Where the bytes of one tensor or object lie and what checks them. Borrows from the index.
struct StoredItem {
  std::string_view kind;  ///< "tensor" or "object", for messages.
  std::string_view name;
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  Encoding encoding = Encoding::kRaw;
  uint32_t element_bytes = 1;                   ///< Width of byte planes.
  std::span<const Hash128> sums;                ///< Of raw chunks; none in plain safetensors.
  std::span<const format::StoredChunk> stored;  ///< None when raw.

  bool encoded() const { return encoding != Encoding::kRaw; }
  uint64_t chunk_count() const {
    return raw_bytes / kChunkBytes + (raw_bytes % kChunkBytes != 0 ? 1 : 0);
  }
  /// Raw bytes of chunk `chunk`.
  uint64_t raw_length(uint64_t chunk) const {
    return std::min(kChunkBytes, raw_bytes - chunk * kChunkBytes);
  }
  /// Bytes of chunk `chunk` in the file.
  uint64_t stored_length(uint64_t chunk) const {
    return encoded() ? stored[chunk].stored_bytes : raw_length(chunk);
  }
  /// "tensor 'name'".
  std::string Title() const;
};

StoredItem TensorItem(const format::IndexView& index, uint32_t tensor);
StoredItem ObjectItem(const format::IndexView& index, uint32_t object);

/// kUnsupported when this release cannot decode the item. kCorrupt when its stored bytes are too
/// few for its raw bytes in any encoding: checked before memory for those is taken.
Status CheckDecodable(const StoredItem& item);

/// kCorrupt, in the same words for every checksum of an item.
Status ChecksumError(const StoredItem& item, uint64_t chunk, uint64_t offset,
                     const std::string& expected, const std::string& found);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHUNK_STORED_ITEM_H_
