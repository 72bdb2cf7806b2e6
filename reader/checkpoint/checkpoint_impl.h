#ifndef DSCKPT_READER_CHECKPOINT_CHECKPOINT_IMPL_H_
#define DSCKPT_READER_CHECKPOINT_CHECKPOINT_IMPL_H_

// What an open checkpoint holds: the manifest, and the shards and part maps it keeps at hand.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/lru.h"
#include "base/mutex.h"
#include "dsckpt/checkpoint.h"
#include "dsckpt/limits.h"
#include "format/manifest/manifest.h"
#include "format/manifest/shard_match.h"
#include "reader/checkpoint/kept_shards.h"
#include "reader/checkpoint/part_map.h"
#include "reader/chunk/cache.h"

namespace dsckpt {

namespace reader {

/// The step of a checkpoint, and who says so.
struct KnownStep {
  int64_t step = kUnknownStep;
  StepSource source = StepSource::kUnknown;
};

}  // namespace reader

/// An open checkpoint. Immutable but for the shards and part maps it keeps at hand.
struct DSCKPT_HIDDEN Checkpoint::Impl {
  static constexpr size_t kPartMaps = 64;
  static constexpr uint64_t kCachedChunkBytes = 64 * kMiB;

  std::string path;
  CheckpointOptions options;
  bool has_manifest = false;
  std::vector<std::byte> manifest_bytes;             // with a manifest: what it borrows from
  std::unique_ptr<format::ManifestColumns> columns;  // without one, or with parts: likewise
  format::ManifestView manifest;
  std::vector<DTypeInfo> dtypes;         // by position in manifest.dtypes
  std::vector<std::string> shard_paths;  // by shard

  mutable reader::KeptShards shards;
  mutable reader::ChunkCache chunks{kCachedChunkBytes};
  mutable Mutex mutex;
  mutable LruCache<uint32_t, std::shared_ptr<const reader::PartMap>> part_maps
      DSCKPT_GUARDED_BY(mutex){kPartMaps};
  mutable std::optional<reader::KnownStep> step DSCKPT_GUARDED_BY(mutex);  // once it was looked for

  /// Where no manifest says it, a file has to be read for it: not before somebody asks.
  reader::KnownStep Step() const;
  ShardInfo Shard(uint32_t i) const;
  Result<File> OpenShard(uint32_t shard) const;
  bool IsOpen(uint32_t shard) const { return shards.IsOpen(shard); }
  /// kLimitExceeded: PartMap::status().
  Result<std::shared_ptr<const reader::PartMap>> Parts(uint32_t tensor) const;
  /// PartMap::Gap(), its error with the tensor's name.
  Result<std::optional<reader::Box>> Gap(uint32_t tensor, const reader::PartMap& parts,
                                         const reader::Box& box) const;
  Result<uint32_t> TensorOrdinal(std::string_view name) const;
  LogicalTensorInfo Info(uint32_t tensor) const;
  /// "tensor 'name'".
  std::string Title(uint32_t tensor) const;

 private:
  Result<File> OpenOnce(uint32_t shard) const;
  /// Rules S3 to S5, once a shard: then its index checksum stands for all of it.
  Status Match(const File& file, uint32_t shard) const;
};

}  // namespace dsckpt

#endif  // DSCKPT_READER_CHECKPOINT_CHECKPOINT_IMPL_H_
