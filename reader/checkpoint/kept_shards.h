#ifndef DSCKPT_READER_CHECKPOINT_KEPT_SHARDS_H_
#define DSCKPT_READER_CHECKPOINT_KEPT_SHARDS_H_

// What an open checkpoint remembers of its shards.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lru.h"
#include "base/mutex.h"
#include "dsckpt/file.h"
#include "format/manifest/shard_match.h"

namespace dsckpt::reader {

/// The shards that were used last stay open; of each shard it is known whether it was ever opened,
/// and whether it was compared with the manifest. Thread-safe.
class KeptShards {
 public:
  /// To be called once, before all else.
  void Resize(uint32_t shards) {
    MutexLock lock(mutex_);
    opened_.resize(shards);
    compared_.resize(shards);
  }

  std::optional<File> Find(uint32_t shard) {
    MutexLock lock(mutex_);
    const File* const file = files_.Find(shard);
    return file != nullptr ? std::optional<File>(*file) : std::nullopt;
  }
  void Put(uint32_t shard, const File& file) {
    MutexLock lock(mutex_);
    files_.Put(shard, file);
    opened_[shard] = true;
  }
  bool IsOpen(uint32_t shard) const {
    MutexLock lock(mutex_);
    return files_.Has(shard);
  }
  /// How many were opened at some time.
  uint32_t opened() const {
    MutexLock lock(mutex_);
    uint32_t count = 0;
    for (const bool opened : opened_) count += opened ? 1 : 0;
    return count;
  }

  /// The manifest's pieces of a shard that was not yet compared with it; nothing for one that was.
  std::optional<std::span<const uint32_t>> PiecesToCompare(uint32_t shard,
                                                           const format::ManifestView& manifest) {
    MutexLock lock(mutex_);
    if (compared_[shard]) return std::nullopt;
    if (!by_shard_) by_shard_ = std::make_unique<const format::PiecesByShard>(manifest);
    return by_shard_->Of(shard);
  }
  void MarkCompared(uint32_t shard) {
    MutexLock lock(mutex_);
    compared_[shard] = true;
  }

 private:
  /// A checkpoint may have more shards than a process may have descriptors (256 is a common limit).
  static constexpr size_t kOpen = 64;

  mutable Mutex mutex_;
  LruCache<uint32_t, File> files_ DSCKPT_GUARDED_BY(mutex_){kOpen};
  std::vector<bool> opened_ DSCKPT_GUARDED_BY(mutex_);
  std::vector<bool> compared_ DSCKPT_GUARDED_BY(mutex_);
  /// Made for the first shard that is compared; what it holds does not change.
  std::unique_ptr<const format::PiecesByShard> by_shard_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_KEPT_SHARDS_H_
