#include "reader/chunk/cache.h"

#include <algorithm>
#include <utility>

#include "base/align.h"
#include "dsckpt/limits.h"

namespace dsckpt::reader {

namespace {

/// Below, reading ahead in the page cache beats one direct read each.
constexpr uint64_t kSmallRead = 256 * kKiB;
/// What even the smallest chunk counts for: bounds how many there are.
constexpr uint64_t kLeastHeld = 64 * kKiB;
constexpr size_t kSpares = 16;

/// Whole pages around `bytes` at any offset.
uint64_t BufferBytes(uint64_t bytes) { return RoundUp(bytes, kPageBytes) + kPageBytes; }

}  // namespace

Result<std::shared_ptr<const ChunkCache::Chunk>> ChunkCache::Get(const Key& key,
                                                                 const io::InputFile& input,
                                                                 const StoredItem& item,
                                                                 uint64_t offset) {
  MutexLock lock(mutex_);
  if (const auto found = chunks_.find(key); found != chunks_.end()) {
    const Entry entry = found->second;
    while (!entry->ready_) changed_.Wait(lock);
    if (!entry->status_.ok()) return entry->status_;
    return std::shared_ptr<const Chunk>(entry);
  }
  const Entry entry = Take(BufferBytes(item.stored_length(key.chunk)));
  chunks_[key] = entry;
  order_.push_back(key);
  lock.Unlock();
  Status status = Fill(*entry, input, item, offset, key);
  lock.Lock();
  entry->status_ = status;
  entry->ready_ = true;
  entry->held_ = std::max<uint64_t>(
      kLeastHeld, entry->buffer_.bytes().size() + entry->scratch_.chunk.capacity());
  held_ += entry->held_;
  changed_.NotifyAll();
  Trim();
  if (!status.ok()) return status;
  return std::shared_ptr<const Chunk>(entry);
}

Status ChunkCache::Fill(Chunk& chunk, const io::InputFile& input, const StoredItem& item,
                        uint64_t offset, const Key& key) {
  const uint64_t bytes = item.stored_length(key.chunk);
  if (chunk.buffer_.bytes().size() < BufferBytes(bytes)) {
    DSCKPT_ASSIGN_OR_RETURN(chunk.buffer_,
                            io::AlignedBuffer::Allocate(BufferBytes(bytes), kPageBytes));
  }
  const uint64_t begin = RoundDown(offset, kPageBytes);
  const auto stored = chunk.buffer_.bytes().subspan(offset - begin, bytes);
  if (bytes < kSmallRead) {
    DSCKPT_RETURN_IF_ERROR(input.ReadAt(offset, stored));
  } else {
    const uint64_t end = RoundUp(offset + bytes, kPageBytes);
    DSCKPT_ASSIGN_OR_RETURN(const uint64_t there,
                            input.ReadDirect(begin, chunk.buffer_.bytes().first(end - begin)));
    if (there < offset - begin + bytes) {
      // The file shrank since it was opened; this says so.
      DSCKPT_RETURN_IF_ERROR(input.ReadAt(offset, stored));
    }
  }
  DSCKPT_ASSIGN_OR_RETURN(chunk.raw_,
                          RawChunk(item, key.chunk, stored, key.verified, chunk.scratch_));
  return Status();
}

/// Fresh memory costs page faults: that of chunks nobody holds any more is used again, the smallest
/// that has `bytes`.
ChunkCache::Entry ChunkCache::Take(uint64_t bytes) {
  Trim();
  const auto size = [](const Entry& entry) { return entry->buffer_.bytes().size(); };
  auto best = spare_.end();
  for (auto spare = spare_.begin(); spare != spare_.end(); ++spare) {
    if (spare->use_count() != 1 || size(*spare) < bytes) continue;
    if (best == spare_.end() || size(*spare) < size(*best)) best = spare;
  }
  if (best == spare_.end()) return std::make_shared<Chunk>();
  Entry entry = std::move(*best);
  spare_.erase(best);
  entry->ready_ = false;
  entry->status_ = Status();
  return entry;
}

/// The oldest go, but none that is still being read: those are no more than there are readers.
void ChunkCache::Trim() {
  for (auto key = order_.begin(); held_ > capacity_ && key != order_.end();) {
    const auto found = chunks_.find(*key);
    if (!found->second->ready_) {
      ++key;
      continue;
    }
    held_ -= found->second->held_;
    spare_.push_back(std::move(found->second));
    if (spare_.size() > kSpares) spare_.erase(spare_.begin());
    chunks_.erase(found);
    key = order_.erase(key);
  }
}

}  // namespace dsckpt::reader
