#include "reader/chunk_cache.h"

#include <algorithm>
#include <utility>

#include "dsckpt/limits.h"

namespace dsckpt::reader {

namespace {

/// Below, reading ahead in the page cache beats one direct read each.
constexpr uint64_t kSmallRead = 256 * kKiB;
constexpr uint64_t kBufferBytes = kChunkBytes + 2 * kPageBytes;

}  // namespace

Result<std::shared_ptr<const ChunkCache::Chunk>> ChunkCache::Get(const Key& key,
                                                                 const io::InputFile& input,
                                                                 const StoredItem& item,
                                                                 uint64_t offset, bool verify) {
  std::unique_lock lock(mutex_);
  if (const auto found = chunks_.find(key); found != chunks_.end()) {
    const Entry entry = found->second;
    changed_.wait(lock, [&] { return entry->ready_; });
    if (!entry->status_.ok()) return entry->status_;
    return std::shared_ptr<const Chunk>(entry);
  }
  const Entry entry = Take();
  chunks_[key] = entry;
  order_.push_back(key);
  lock.unlock();
  Status status = Fill(*entry, input, item, offset, key.chunk, verify);
  lock.lock();
  entry->status_ = status;
  entry->ready_ = true;
  changed_.notify_all();
  Trim();
  if (!status.ok()) return status;
  return std::shared_ptr<const Chunk>(entry);
}

Status ChunkCache::Fill(Chunk& chunk, const io::InputFile& input, const StoredItem& item,
                        uint64_t offset, uint32_t index, bool verify) {
  if (chunk.buffer_.bytes().empty()) {
    DSCKPT_ASSIGN_OR_RETURN(chunk.buffer_, AlignedBuffer::Allocate(kBufferBytes, kPageBytes));
  }
  const uint64_t bytes = item.stored_length(index);
  const uint64_t begin = offset / kPageBytes * kPageBytes;
  const auto stored = chunk.buffer_.bytes().subspan(offset - begin, bytes);
  if (bytes < kSmallRead) {
    DSCKPT_RETURN_IF_ERROR(input.ReadAt(offset, stored));
  } else {
    const uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    DSCKPT_ASSIGN_OR_RETURN(const uint64_t there,
                            input.ReadDirect(begin, chunk.buffer_.bytes().first(end - begin)));
    if (there < offset - begin + bytes) {
      // The file shrank since it was opened; this says so.
      DSCKPT_RETURN_IF_ERROR(input.ReadAt(offset, stored));
    }
  }
  DSCKPT_ASSIGN_OR_RETURN(chunk.raw_, RawChunk(item, index, stored, verify, chunk.scratch_));
  return Status();
}

/// Fresh memory costs page faults: that of chunks nobody holds any more is used again.
ChunkCache::Entry ChunkCache::Take() {
  Trim();
  for (Entry& spare : spare_) {
    if (spare.use_count() != 1) continue;
    std::swap(spare, spare_.back());
    Entry entry = std::move(spare_.back());
    spare_.pop_back();
    entry->ready_ = false;
    entry->status_ = Status();
    return entry;
  }
  return std::make_shared<Chunk>();
}

void ChunkCache::Trim() {
  while (order_.size() > capacity_) {
    const auto found = chunks_.find(order_.front());
    if (!found->second->ready_) return;  // Its reader is at work; whoever ends next trims.
    spare_.push_back(std::move(found->second));
    chunks_.erase(found);
    order_.pop_front();
  }
}

}  // namespace dsckpt::reader
