#include "analysis/tensor_source.h"

#include <algorithm>
#include <utility>

#include "dsckpt/limits.h"
#include "format/checksum.h"

namespace dsckpt::analysis {

Status TensorSource::Open() {
  std::call_once(once_, [this] {
    auto whole = checkpoint_->FindWhole(tensor_);
    if (!whole.ok()) {
      opened_ = whole.status();
      return;
    }
    whole_ = *std::move(whole);
    if (whole_) mapped_ = whole_->file.MappedView(whole_->info);
  });
  return opened_;
}

void TensorSource::Close() {
  mapped_.reset();
  whole_.reset();
}

Result<std::span<const Hash128>> TensorSource::ChunkSums() {
  DSCKPT_RETURN_IF_ERROR(Open());
  if (!whole_) return std::span<const Hash128>();
  return whole_->file.ChunkSums(whole_->info);
}

Result<std::span<const std::byte>> TensorSource::Read(uint64_t offset, uint64_t size,
                                                      std::vector<std::byte>& buffer,
                                                      std::atomic<uint64_t>& read_bytes) {
  DSCKPT_RETURN_IF_ERROR(Open());
  read_bytes += size;
  if (mapped_) {
    const auto bytes = mapped_->bytes().subspan(offset, size);
    if (!verify_) return bytes;
    const auto sums = whole_->file.ChunkSums(whole_->info);
    if (sums.empty()) return bytes;
    const bool chunk = offset % kChunkBytes == 0 &&
                       size == std::min(kChunkBytes, mapped_->bytes().size() - offset);
    if (chunk && format::HashChunk(bytes) == sums[offset / kChunkBytes]) return bytes;
  }
  // Also what is not whole chunks, and what is damaged: reading says how.
  if (buffer.size() < size) buffer.resize(size);
  const std::span<std::byte> out = std::span(buffer).first(size);
  DSCKPT_RETURN_IF_ERROR(checkpoint_->ReadBytes(tensor_, offset, out, verify_));
  return std::span<const std::byte>(out);
}

}  // namespace dsckpt::analysis
