#ifndef DSCKPT_FORMAT_COLUMNS_COLUMNS_H_
#define DSCKPT_FORMAT_COLUMNS_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/encoding.h"
#include "dsckpt/tree.h"
#include "format/columns/names.h"
#include "format/pieces/pieces.h"

// The index as structures: `...Columns` own their vectors (writers fill them), `...View` borrow
// them (readers see a FlatBuffer or columns through the same eyes). Columns and their rules:
// spec/format.md, "Index"; spec/index.fbs.

namespace dsckpt::format {

struct StoredChunk {
  uint64_t xxh3_64 = 0;
  uint32_t stored_bytes = 0;
  uint32_t reserved = 0;
};

struct NodeRecord {
  NodeKind kind = NodeKind::kNull;
  Key::Kind key_kind = Key::Kind::kNone;
  uint16_t tag = 0;
  uint32_t children = 0;
  uint64_t key = 0;
  uint64_t payload = 0;
};

/// Packs a range of a tree's heap into a node's `key` or `payload`: offset in the low half, length
/// in the high half.
constexpr uint64_t HeapRange(uint32_t offset, uint32_t length) {
  return offset | uint64_t{length} << 32;
}

struct PayloadColumns {
  std::vector<uint64_t> offset, raw_bytes, stored_bytes;
  std::vector<uint8_t> encoding;
  std::vector<uint32_t> chunk_end, stored_chunk_end;
};

struct TreeColumns {
  std::vector<NodeRecord> nodes;  // Empty: no tree.
  std::string heap;
  std::vector<std::string> tags;
};

struct DTypeRecord {
  uint16_t code = 0;
  uint16_t bits = 0;
  uint32_t block_elements = 1;
  uint32_t block_bytes = 1;
  friend bool operator==(const DTypeRecord&, const DTypeRecord&) = default;
};

/// Entry i of each column belongs to one tensor; what the numbers say: spec/format.md,
/// "Statistics".
struct StatisticsColumns {
  std::vector<uint32_t> tensor;  // Ordinals, ascending. Empty: no statistics.
  std::vector<uint64_t> nan, inf, zero;
  std::vector<double> min, max, sum, sum_squares;
};

struct VendorEntry {
  std::string name;
  std::string data;
};

/// What a reader may pass over without misreading an item.
struct AnnotationColumns {
  std::optional<Hash128> content;
  StatisticsColumns statistics;
  std::vector<VendorEntry> vendor;  // By name.
};

struct IndexColumns {
  std::vector<DTypeRecord> dtypes;
  std::vector<std::string> media_types;
  NameColumns tensor_names, alias_names, object_names;
  std::vector<uint8_t> tensor_dtype;
  std::vector<uint32_t> dim_end;
  std::vector<int64_t> dims;
  PayloadColumns tensors, objects;
  std::vector<uint32_t> alias_target;
  std::vector<uint8_t> object_media_type;
  std::vector<Hash128> chunk_sums;
  std::vector<StoredChunk> stored_chunks;
  PieceColumns pieces;
  TreeColumns tree, attributes;
  NameColumns rank_own;
  uint32_t rank = 0;  // Whose that is.
  AnnotationColumns annotations;
};

struct PayloadView {
  std::span<const uint64_t> offset, raw_bytes, stored_bytes;
  std::span<const uint8_t> encoding;
  std::span<const uint32_t> chunk_end, stored_chunk_end;
};

/// The bytes of a heap range (spec/format.md, section 10). REQUIRES: it lies in the heap.
inline std::string_view HeapText(std::string_view heap, uint64_t range) {
  return {heap.data() + static_cast<uint32_t>(range), range >> 32};
}

struct TreeView {
  std::span<const NodeRecord> nodes;
  std::string_view heap;
  std::vector<std::string_view> tags;
};

/// The id of XXH3-128, the one hash of chunks that this library computes (spec/format.md, section
/// 20.4).
inline constexpr uint8_t kHashXxh3 = 1;

/// Sums of all chunks: tensors in order, then objects.
struct ChunkSumsView {
  uint8_t hash_id = kHashXxh3;
  uint64_t count = 0;
  std::span<const Hash128> xxh3;  // Empty where the hash is another.
};

struct StatisticsView {
  std::span<const uint32_t> tensor;
  std::span<const uint64_t> nan, inf, zero;
  std::span<const double> min, max, sum, sum_squares;
};

struct VendorView {
  std::string_view name;
  std::string_view data;
};

struct AnnotationView {
  std::optional<Hash128> content;
  StatisticsView statistics;
  std::vector<VendorView> vendor;
};

/// Everything a reader asks an index. Borrows; the owner of the bytes or columns must outlive it.
struct IndexView {
  std::span<const DTypeRecord> dtypes;
  std::vector<std::string_view> media_types;
  NameView tensor_names, alias_names, object_names;
  std::span<const uint8_t> tensor_dtype;
  std::span<const uint32_t> dim_end;
  std::span<const int64_t> dims;
  PayloadView tensors, objects;
  std::span<const uint32_t> alias_target;
  std::span<const uint8_t> object_media_type;
  ChunkSumsView chunk_sums;
  std::span<const StoredChunk> stored_chunks;
  PieceView pieces;
  TreeView tree, attributes;
  NameView rank_own;
  uint32_t rank = 0;
  AnnotationView annotations;

  std::span<const int64_t> shape(uint32_t tensor) const {
    const uint32_t begin = tensor == 0 ? 0 : dim_end[tensor - 1];
    return dims.subspan(begin, dim_end[tensor] - begin);
  }
};

/// Entry i's part of a column that `ends` divides.
template <typename T>
std::span<const T> Part(std::span<const T> column, std::span<const uint32_t> ends, uint32_t i) {
  const uint32_t begin = i == 0 ? 0 : ends[i - 1];
  return column.subspan(begin, ends[i] - begin);
}

/// Sums of tensor i: they start at 0 with tensor 0. Object sums follow the last tensor's;
/// objects.chunk_end counts on. Nothing where the hash is not XXH3-128.
std::span<const Hash128> TensorSums(const IndexView& index, uint32_t tensor);
std::span<const Hash128> ObjectSums(const IndexView& index, uint32_t object);
std::span<const StoredChunk> TensorStoredChunks(const IndexView& index, uint32_t tensor);
std::span<const StoredChunk> ObjectStoredChunks(const IndexView& index, uint32_t object);

IndexView ViewOf(const IndexColumns& columns);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_COLUMNS_COLUMNS_H_
