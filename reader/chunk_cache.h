#ifndef DSCKPT_READER_CHUNK_CACHE_H_
#define DSCKPT_READER_CHUNK_CACHE_H_

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dsckpt/status.h"
#include "io/input_file.h"
#include "reader/aligned_buffer.h"
#include "reader/chunk_reader.h"
#include "reader/stored_item.h"

namespace dsckpt::reader {

/// Checked chunks for readers that walk along tensors in steps of their own: what one step leaves
/// of a chunk the next one needs. Thread-safe; a chunk that several threads want is read once.
class ChunkCache {
 public:
  struct Key {
    uint32_t shard = 0, tensor = 0, chunk = 0;
    auto operator<=>(const Key&) const = default;
  };
  /// Raw bytes of one chunk; valid as long as the pointer is held.
  class Chunk {
   public:
    std::span<const std::byte> raw() const { return raw_; }

   private:
    friend class ChunkCache;
    AlignedBuffer buffer_;
    Scratch scratch_;
    std::span<const std::byte> raw_;
    Status status_;
    bool ready_ = false;
  };

  /// Holds `chunks` of them besides those in use.
  explicit ChunkCache(size_t chunks) : capacity_(chunks) {}

  /// Chunk `key.chunk` of `item`, which lies at `offset` in `input`.
  Result<std::shared_ptr<const Chunk>> Get(const Key& key, const io::InputFile& input,
                                           const StoredItem& item, uint64_t offset, bool verify);

 private:
  using Entry = std::shared_ptr<Chunk>;

  static Status Fill(Chunk& chunk, const io::InputFile& input, const StoredItem& item,
                     uint64_t offset, uint32_t index, bool verify);
  Entry Take();
  void Trim();

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Entry> chunks_;
  std::list<Key> order_;  // Oldest first.
  std::vector<Entry> spare_;
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHUNK_CACHE_H_
