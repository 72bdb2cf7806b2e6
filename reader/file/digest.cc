// What the index says of whole tensors; digests where it says none.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/file/file_impl.h"

namespace dsckpt {

namespace {

/// Whether the stored tensor is the logical one: all of its elements, in order, and no others.
bool IsWhole(const LogicalTensorInfo& logical, const TensorInfo& stored, const OwnedPiece& piece) {
  if (stored.dtype.code != logical.dtype.code || stored.raw_bytes != logical.bytes ||
      piece.element_offset != 0 || !std::ranges::equal(stored.shape, logical.shape)) {
    return false;
  }
  if (piece.form == Piece::Form::kFlat) {
    const auto elements = ElementCount(logical.shape);
    return elements.ok() && piece.flat.begin == 0 &&
           piece.flat.end == static_cast<int64_t>(*elements);
  }
  return std::ranges::equal(piece.box, logical.shape, [](const Range& range, int64_t size) {
    return range.begin == 0 && range.end == size;
  });
}

/// What `ask(shard, stored)` tells of the first shard that holds a tensor whole and tells anything.
template <typename Ask>
auto FromWhole(const Checkpoint& checkpoint, uint32_t tensor, const Ask& ask)
    -> Result<decltype(ask(std::declval<const File&>(), std::declval<const TensorInfo&>()))> {
  const LogicalTensorInfo logical = checkpoint.tensor(tensor);
  for (const PieceLocation& location : checkpoint.Pieces(tensor)) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(location.shard));
    if (location.tensor >= shard.tensor_count()) continue;
    const TensorInfo stored = shard.tensor(location.tensor);
    if (!IsWhole(logical, stored, location.piece)) continue;
    if (auto told = ask(shard, stored)) return told;
  }
  return decltype(ask(std::declval<const File&>(), std::declval<const TensorInfo&>()))();
}

Result<std::vector<Hash128>> SumsByReading(const File::Impl& file, const reader::StoredItem& item) {
  std::vector<Hash128> sums;
  DSCKPT_RETURN_IF_ERROR(file.ReadByChunks(item, [&](std::span<const std::byte> raw) {
    sums.push_back(format::HashChunk(raw));
    return Status();
  }));
  return sums;
}

/// `read(chunk, bytes)` fills one chunk of the `raw_bytes` of a tensor.
template <typename Read>
Result<Hash128> DigestByReading(const DTypeInfo& dtype, std::span<const int64_t> shape,
                                uint64_t raw_bytes, const Read& read) {
  std::vector<Hash128> sums;
  DSCKPT_ASSIGN_OR_RETURN(
      auto buffer, io::AlignedBuffer::Allocate(std::min(raw_bytes, kChunkBytes), kPageBytes));
  for (uint64_t done = 0; done < raw_bytes; done += kChunkBytes) {
    const auto bytes = buffer.bytes().first(std::min(kChunkBytes, raw_bytes - done));
    DSCKPT_RETURN_IF_ERROR(read(done, bytes));
    sums.push_back(format::HashChunk(bytes));
  }
  return format::TensorDigest(static_cast<uint16_t>(dtype.code), shape, sums);
}

}  // namespace

std::span<const Hash128> File::ChunkSums(const TensorInfo& tensor) const {
  if (!verifiable()) return {};
  return format::TensorSums(impl_->index, tensor.ordinal);
}

Result<std::optional<StoredWhole>> Checkpoint::FindWhole(uint32_t tensor) const {
  return FromWhole(*this, tensor, [](const File& shard, const TensorInfo& stored) {
    return std::optional<StoredWhole>({shard, stored});
  });
}

Result<Hash128> File::ComputeDigest(const TensorInfo& tensor) const {
  if (const auto stored = Digest(tensor)) return *stored;
  DSCKPT_ASSIGN_OR_RETURN(const auto sums,
                          SumsByReading(*impl_, reader::TensorItem(impl_->index, tensor.ordinal)));
  return format::TensorDigest(static_cast<uint16_t>(tensor.dtype.code), tensor.shape, sums);
}

Result<Hash128> File::ComputeDigest(const ObjectInfo& object) const {
  if (const auto stored = Digest(object)) return *stored;
  DSCKPT_ASSIGN_OR_RETURN(const auto sums,
                          SumsByReading(*impl_, reader::ObjectItem(impl_->index, object.ordinal)));
  return format::ObjectDigest(object.raw_bytes, sums);
}

Result<bool> SameObject(const File& file, const ObjectInfo& object, const File& other_file,
                        const ObjectInfo& other) {
  if (object.media_type != other.media_type || object.raw_bytes != other.raw_bytes) return false;
  DSCKPT_ASSIGN_OR_RETURN(const Hash128 digest, file.ComputeDigest(object));
  DSCKPT_ASSIGN_OR_RETURN(const Hash128 other_digest, other_file.ComputeDigest(other));
  return digest == other_digest;
}

Result<std::optional<Hash128>> Checkpoint::Digest(uint32_t tensor) const {
  const LogicalTensorInfo logical = this->tensor(tensor);
  if (logical.bytes != 0) {
    return FromWhole(*this, tensor, [](const File& shard, const TensorInfo& stored) {
      return shard.Digest(stored);
    });
  }
  // Without elements there is nothing to be spread, and nothing to be read.
  return std::optional(
      format::TensorDigest(static_cast<uint16_t>(logical.dtype.code), logical.shape, {}));
}

Result<std::optional<TensorStatistics>> Checkpoint::Statistics(uint32_t tensor) const {
  return FromWhole(*this, tensor, [](const File& shard, const TensorInfo& stored) {
    return shard.Statistics(stored);
  });
}

Result<Hash128> Checkpoint::ComputeDigest(uint32_t tensor) const {
  DSCKPT_ASSIGN_OR_RETURN(const auto stored, Digest(tensor));
  if (stored) return *stored;
  const LogicalTensorInfo logical = this->tensor(tensor);
  return DigestByReading(
      logical.dtype, logical.shape, logical.bytes,
      [&](uint64_t offset, std::span<std::byte> out) { return ReadBytes(tensor, offset, out); });
}

Hash128 TreeDigest(std::vector<NamedDigest> items) {
  std::ranges::sort(items, {}, &NamedDigest::name);
  format::ChunkHasher hasher;
  const auto add = [&](uint64_t number) {
    std::byte bytes[sizeof number];
    StoreLittleEndian(bytes, number);
    hasher.Update(bytes);
  };
  for (const NamedDigest& item : items) {
    add(item.name.size());
    hasher.Update(std::as_bytes(std::span(item.name)));
    add(item.digest.low);
    add(item.digest.high);
  }
  return hasher.Digest();
}

}  // namespace dsckpt
