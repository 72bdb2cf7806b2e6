#include "trajectory/tensor_reader.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/align.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"

namespace dsckpt::trajectory {

namespace {

/// Well below the number of mappings that Linux lets a process have.
constexpr uint64_t kMostMappedFiles = 16'384;

}  // namespace

Result<Checkpoint> MappedCheckpoints::Open(uint32_t t) {
  {
    MutexLock lock(mutex_);
    if (kept_[t].valid()) return kept_[t];
  }
  return run_.OpenCheckpoint(t);
}

void MappedCheckpoints::Keep(uint32_t t, const Checkpoint& checkpoint) {
  MutexLock lock(mutex_);
  if (kept_[t].valid() || files_ + checkpoint.shard_count() > kMostMappedFiles) return;
  files_ += checkpoint.shard_count();
  kept_[t] = checkpoint;
}

Result<TensorReader::Stored*> TensorReader::Open(uint32_t t) {
  Stored& stored = stored_[t];
  std::call_once(stored.once, [&] {
    stored.opened = [&]() -> Status {
      DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, checkpoints_.Open(t));
      DSCKPT_ASSIGN_OR_RETURN(const LogicalTensorInfo info,
                              checkpoint.FindTensor(run_.tensor(tensor_).name));
      DSCKPT_ASSIGN_OR_RETURN(stored.whole, checkpoint.FindWhole(info.ordinal));
      if (!stored.whole) return {};
      stored.mapped = stored.whole->file.MappedView(stored.whole->info);
      if (stored.mapped) checkpoints_.Keep(t, checkpoint);
      if (!stored.mapped || !verify_) return {};
      stored.checked.resize(stored.whole->file.ChunkSums(stored.whole->info).size());
      return {};
    }();
  });
  if (!stored.opened.ok()) return stored.opened;
  return &stored;
}

/// A chunk that two threads meet at once is checked by both.
Status TensorReader::Check(uint32_t t, Stored& stored, uint64_t offset, uint64_t size) {
  const std::span<const std::byte> all = stored.mapped->bytes();
  const auto sums = stored.whole->file.ChunkSums(stored.whole->info);
  const uint64_t end =
      std::min<uint64_t>((offset + size + kChunkBytes - 1) / kChunkBytes, stored.checked.size());
  for (uint64_t chunk = offset / kChunkBytes; chunk < end; ++chunk) {
    if (stored.checked[chunk].load(std::memory_order_relaxed)) continue;
    const uint64_t begin = chunk * kChunkBytes;
    const auto bytes = all.subspan(begin, std::min(kChunkBytes, all.size() - begin));
    if (format::HashChunk(bytes) != sums[chunk]) {
      // Reading says what is wrong, or that the file is another one by now.
      std::vector<std::byte> copy(bytes.size());
      DSCKPT_RETURN_IF_ERROR(run_.Read(t, tensor_, begin, copy));
      return Status(StatusCode::kCorrupt, "the file changed while it was read")
          .WithPath(run_.path(t));
    }
    stored.checked[chunk].store(true, std::memory_order_relaxed);
    if (size < bytes.size()) Forget(t, bytes);
  }
  return {};
}

Result<std::span<const std::byte>> TensorReader::Read(uint32_t t, uint64_t offset, uint64_t size,
                                                      std::vector<std::byte>& buffer) {
  DSCKPT_ASSIGN_OR_RETURN(const bool mapped, IsMapped(t));
  if (!mapped && buffer.size() < size) buffer.resize(size);
  return mapped ? Mapped(t, offset, size) : Copy(t, offset, std::span(buffer).first(size));
}

Result<std::span<const std::byte>> TensorReader::Read(uint32_t t, uint64_t offset,
                                                      std::span<std::byte> out) {
  DSCKPT_ASSIGN_OR_RETURN(const bool mapped, IsMapped(t));
  return mapped ? Mapped(t, offset, out.size()) : Copy(t, offset, out);
}

Result<std::span<const std::byte>> TensorReader::Mapped(uint32_t t, uint64_t offset,
                                                        uint64_t size) {
  Stored& stored = stored_[t];
  DSCKPT_RETURN_IF_ERROR(Check(t, stored, offset, size));
  return stored.mapped->bytes().subspan(offset, size);
}

Result<std::span<const std::byte>> TensorReader::Copy(uint32_t t, uint64_t offset,
                                                      std::span<std::byte> out) const {
  DSCKPT_RETURN_IF_ERROR(run_.Read(t, tensor_, offset, out, verify_));
  return std::span<const std::byte>(out);
}

void TensorReader::Forget(uint32_t t, std::span<const std::byte> bytes) {
  const Stored& stored = stored_[t];
  if (!stored.mapped || bytes.empty()) return;
  // Else the pages of all files would count as memory of this process.
  const auto begin = RoundUp(reinterpret_cast<uintptr_t>(bytes.data()), kPageBytes);
  const auto end = RoundDown(reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()), kPageBytes);
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<bool> TensorReader::IsMapped(uint32_t t) {
  DSCKPT_ASSIGN_OR_RETURN(const Stored* const stored, Open(t));
  return stored->mapped.has_value();
}

}  // namespace dsckpt::trajectory
