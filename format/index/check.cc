#include "format/index/check.h"

#include <algorithm>
#include <string>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/columns/check.h"
#include "format/pieces/check.h"
#include "format/rank_own.h"

namespace dsckpt::format {
namespace {

Status CheckColumnLengths(const IndexView& index) {
  const size_t tensors = index.tensor_names.size();
  const size_t objects = index.object_names.size();
  const ColumnLength columns[] = {
      {"tensors.dtype", tensors, index.tensor_dtype.size()},
      {"tensors.dim_end", tensors, index.dim_end.size()},
      {"tensors.offset", tensors, index.tensors.offset.size()},
      {"tensors.raw_bytes", tensors, index.tensors.raw_bytes.size()},
      {"tensors.stored_bytes", tensors, index.tensors.stored_bytes.size()},
      {"tensors.encoding", tensors, index.tensors.encoding.size()},
      {"tensors.chunk_end", tensors, index.tensors.chunk_end.size()},
      {"tensors.stored_chunk_end", tensors, index.tensors.stored_chunk_end.size()},
      {"aliases.target", index.alias_names.size(), index.alias_target.size()},
      {"objects.media_type", objects, index.object_media_type.size()},
      {"objects.offset", objects, index.objects.offset.size()},
      {"objects.raw_bytes", objects, index.objects.raw_bytes.size()},
      {"objects.stored_bytes", objects, index.objects.stored_bytes.size()},
      {"objects.encoding", objects, index.objects.encoding.size()},
      {"objects.chunk_end", objects, index.objects.chunk_end.size()},
      {"objects.stored_chunk_end", objects, index.objects.stored_chunk_end.size()},
  };
  return CheckLengths(kIndexPart, columns);
}

Status CheckDisjoint(const NameView& a, std::string_view a_kind, const NameView& b,
                     std::string_view b_kind) {
  for (uint32_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int order = a[i].compare(b[j]);
    if (order == 0) {
      return IndexError(ItemTitle(a_kind, a, i), "name", "unique among all items",
                        "the same name on " + std::string(b_kind) + " " + std::to_string(j));
    }
    (order < 0 ? i : j) += 1;
  }
  return {};
}

Status CheckShapes(const IndexView& index) {
  uint32_t begin = 0;
  for (uint32_t i = 0; i < index.tensor_names.size(); ++i) {
    const uint32_t end = index.dim_end[i];
    if (end < begin || end > index.dims.size() || end - begin > kMaxRank) {
      return IndexError(ItemTitle("tensor", index.tensor_names, i), "dim_end",
                        std::to_string(begin) + " to " +
                            std::to_string(std::min(begin + kMaxRank, index.dims.size())),
                        std::to_string(end));
    }
    if (index.tensor_dtype[i] >= index.dtypes.size()) {
      return IndexError(ItemTitle("tensor", index.tensor_names, i), "dtype",
                        "below " + std::to_string(index.dtypes.size()),
                        std::to_string(index.tensor_dtype[i]));
    }
    const DTypeRecord& dtype = index.dtypes[index.tensor_dtype[i]];
    uint64_t bytes = 0;
    if (!ShapeBytes(index.dims.subspan(begin, end - begin), dtype, bytes)) {
      return IndexError(ItemTitle("tensor", index.tensor_names, i), "shape",
                        "dimensions >= 0 whose product fits 63 bits and whole blocks of dtype " +
                            std::to_string(dtype.code),
                        "others");
    }
    if (bytes != index.tensors.raw_bytes[i]) {
      return IndexError(ItemTitle("tensor", index.tensor_names, i), "raw_bytes", bytes,
                        index.tensors.raw_bytes[i]);
    }
    begin = end;
  }
  if (begin != index.dims.size()) return IndexError("dims", "entries", begin, index.dims.size());
  return {};
}

// Chunk sums and stored chunks of tensors, then of objects: both follow from raw_bytes and
// encoding.
class ChunkCheck {
 public:
  explicit ChunkCheck(const IndexView& index) : index_(index) {}

  Status Check(std::string_view kind, const NameView& names, const PayloadView& payload) {
    for (uint32_t i = 0; i < names.size(); ++i) {
      const uint64_t chunks = ChunkCount(payload.raw_bytes[i]);
      const bool raw = payload.encoding[i] == static_cast<uint8_t>(Encoding::kRaw);
      sums_ += chunks;
      if (payload.chunk_end[i] != sums_ || sums_ > index_.chunk_sums.count) {
        return IndexError(ItemTitle(kind, names, i), "chunk_end", sums_, payload.chunk_end[i]);
      }
      const uint64_t first = stored_;
      if (!raw) stored_ += chunks;
      if (payload.stored_chunk_end[i] != stored_ || stored_ > index_.stored_chunks.size()) {
        return IndexError(ItemTitle(kind, names, i), "stored_chunk_end", stored_,
                          payload.stored_chunk_end[i]);
      }
      if (raw && payload.stored_bytes[i] != payload.raw_bytes[i]) {
        return IndexError(ItemTitle(kind, names, i), "stored_bytes", payload.raw_bytes[i],
                          payload.stored_bytes[i]);
      }
      if (!raw) DSCKPT_RETURN_IF_ERROR(CheckStored(kind, names, payload, i, first));
    }
    return {};
  }

  Status CheckEnd() const {
    if (sums_ != index_.chunk_sums.count) {
      return IndexError("chunk_sums", "entries", sums_, index_.chunk_sums.count);
    }
    if (stored_ != index_.stored_chunks.size()) {
      return IndexError("stored_chunks", "entries", stored_, index_.stored_chunks.size());
    }
    return {};
  }

 private:
  Status CheckStored(std::string_view kind, const NameView& names, const PayloadView& payload,
                     uint32_t i, uint64_t first) const {
    // An encoding that this release does not know may grow a chunk; ours store such a chunk raw.
    const bool known = payload.encoding[i] <= static_cast<uint8_t>(Encoding::kBytePlaneZstd);
    uint64_t left = payload.raw_bytes[i];
    uint64_t total = 0;
    for (uint64_t chunk = first; chunk < stored_; ++chunk) {
      const StoredChunk& stored = index_.stored_chunks[chunk];
      const uint64_t raw_bytes = std::min(left, kChunkBytes);
      if (stored.stored_bytes == 0 || (known && stored.stored_bytes > raw_bytes)) {
        return IndexError(ItemTitle(kind, names, i),
                          "stored bytes of chunk " + std::to_string(chunk - first),
                          "1 to " + std::to_string(raw_bytes), std::to_string(stored.stored_bytes));
      }
      if (stored.reserved != 0) {
        return IndexError(ItemTitle(kind, names, i), "reserved", 0, stored.reserved);
      }
      total += stored.stored_bytes;
      left -= raw_bytes;
    }
    if (payload.stored_bytes[i] != total) {
      return IndexError(ItemTitle(kind, names, i), "stored_bytes", total, payload.stored_bytes[i]);
    }
    return {};
  }

  const IndexView& index_;
  uint64_t sums_ = 0;
  uint64_t stored_ = 0;
};

template <typename Ordinal>
Status CheckOrdinals(std::string_view kind, const NameView& names, std::string_view field,
                     std::span<const Ordinal> ordinals, size_t limit) {
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (ordinals[i] >= limit) {
      return IndexError(ItemTitle(kind, names, i), field, "below " + std::to_string(limit),
                        std::to_string(ordinals[i]));
    }
  }
  return {};
}

}  // namespace

Status IndexError(std::string_view where, std::string_view field, std::string_view expected,
                  std::string_view found) {
  return ColumnError(kIndexPart, where, field, expected, found);
}

Status IndexError(std::string_view where, std::string_view field, uint64_t expected,
                  uint64_t found) {
  return ColumnError(kIndexPart, where, field, expected, found);
}

Status CheckItems(const IndexView& index) {
  const NameView& tensors = index.tensor_names;
  const NameView& aliases = index.alias_names;
  const NameView& objects = index.object_names;
  DSCKPT_RETURN_IF_ERROR(CheckColumnLengths(index));
  DSCKPT_RETURN_IF_ERROR(CheckNames(kIndexPart, tensors, "tensor"));
  DSCKPT_RETURN_IF_ERROR(CheckNames(kIndexPart, aliases, "alias"));
  DSCKPT_RETURN_IF_ERROR(CheckNames(kIndexPart, objects, "object"));
  DSCKPT_RETURN_IF_ERROR(CheckDisjoint(aliases, "alias", tensors, "tensor"));
  DSCKPT_RETURN_IF_ERROR(CheckDisjoint(objects, "object", tensors, "tensor"));
  DSCKPT_RETURN_IF_ERROR(CheckDisjoint(objects, "object", aliases, "alias"));
  DSCKPT_RETURN_IF_ERROR(CheckDTypes(kIndexPart, index.dtypes));
  DSCKPT_RETURN_IF_ERROR(CheckShapes(index));
  ChunkCheck chunks(index);
  DSCKPT_RETURN_IF_ERROR(chunks.Check("tensor", tensors, index.tensors));
  DSCKPT_RETURN_IF_ERROR(chunks.Check("object", objects, index.objects));
  DSCKPT_RETURN_IF_ERROR(chunks.CheckEnd());
  DSCKPT_RETURN_IF_ERROR(
      CheckOrdinals("alias", aliases, "target", index.alias_target, tensors.size()));
  DSCKPT_RETURN_IF_ERROR(CheckOrdinals("object", objects, "media_type", index.object_media_type,
                                       index.media_types.size()));
  DSCKPT_RETURN_IF_ERROR(CheckRankOwn(index.rank_own));
  DSCKPT_RETURN_IF_ERROR(CheckIndexPieces(index));
  return CheckAnnotations(index);
}

}  // namespace dsckpt::format
