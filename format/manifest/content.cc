// The digest of what a checkpoint holds, from those of its shards.

#include "base/little_endian.h"
#include "format/checksum.h"
#include "format/manifest/manifest.h"

namespace dsckpt::format {

std::optional<Hash128> ContentOf(const ManifestView& manifest) {
  if (manifest.shard_content.empty()) return std::nullopt;
  ChunkHasher hasher;
  const auto add = [&hasher](auto value) {
    std::byte bytes[sizeof value];
    StoreLittleEndian(bytes, value);
    hasher.Update(bytes);
  };
  add(manifest.shard_count());
  for (uint32_t i = 0; i < manifest.shard_count(); ++i) {
    add(manifest.shard_rank[i]);
    add(manifest.shard_content[i].low);
    add(manifest.shard_content[i].high);
  }
  return hasher.Digest();
}

}  // namespace dsckpt::format
