#ifndef DSCKPT_READER_CHUNK_CACHE_H_
#define DSCKPT_READER_CHUNK_CACHE_H_

// Checked chunks for readers that go in steps.

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/status.h"
#include "io/aligned_buffer.h"
#include "io/input_file.h"
#include "reader/chunk/reader.h"
#include "reader/chunk/stored_item.h"

namespace dsckpt::reader {

/// Checked chunks for readers that walk along tensors in steps of their own: what one step leaves
/// of a chunk the next one needs. Thread-safe; a chunk that several threads want is read once.
class ChunkCache {
 public:
  struct Key {
    uint32_t shard = 0, tensor = 0, chunk = 0;
    /// Who wants it checked must not get what somebody else did not want checked.
    bool verified = true;
    auto operator<=>(const Key&) const = default;
  };
  /// Raw bytes of one chunk; valid as long as the pointer is held.
  class Chunk {
   public:
    std::span<const std::byte> raw() const { return raw_; }

   private:
    friend class ChunkCache;
    io::AlignedBuffer buffer_;
    Scratch scratch_;
    std::span<const std::byte> raw_;
    Status status_;
    bool ready_ = false;
    uint64_t held_ = 0;  // bytes that count while it is in the cache
  };

  /// Holds chunks in `bytes` of memory besides those in use: few large ones, or many small ones.
  explicit ChunkCache(uint64_t bytes) : capacity_(bytes) {}

  /// Chunk `key.chunk` of `item`, which lies at `offset` in `input`.
  Result<std::shared_ptr<const Chunk>> Get(const Key& key, const io::InputFile& input,
                                           const StoredItem& item, uint64_t offset);

 private:
  using Entry = std::shared_ptr<Chunk>;

  static Status Fill(Chunk& chunk, const io::InputFile& input, const StoredItem& item,
                     uint64_t offset, const Key& key);
  Entry Take(uint64_t bytes) DSCKPT_REQUIRES(mutex_);
  void Trim() DSCKPT_REQUIRES(mutex_);

  const uint64_t capacity_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t held_ DSCKPT_GUARDED_BY(mutex_) = 0;
  std::map<Key, Entry> chunks_ DSCKPT_GUARDED_BY(mutex_);
  std::list<Key> order_ DSCKPT_GUARDED_BY(mutex_);  // Oldest first.
  std::vector<Entry> spare_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHUNK_CACHE_H_
