#ifndef DSCKPT_FORMAT_MANIFEST_SHARD_MATCH_H_
#define DSCKPT_FORMAT_MANIFEST_SHARD_MATCH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dsckpt/status.h"
#include "format/columns/columns.h"
#include "format/manifest/manifest.h"

// Does a manifest say of a shard what the shard's own index says? spec/format.md, rules S.

namespace dsckpt::format {

/// A manifest's pieces by shard, in the manifest's order each: positions in its columns.
class PiecesByShard {
 public:
  /// Linear time; 4 bytes a piece and a shard.
  explicit PiecesByShard(const ManifestView& manifest);
  std::span<const uint32_t> Of(uint32_t shard) const;

 private:
  std::vector<uint32_t> positions_, end_;
};

/// The attribute `step` of a shard, where it has one of kind int.
std::optional<int64_t> RecordedStep(const TreeView& attributes);

/// Rules S3 to S7: `pieces`, which are those of `shard`, are exactly what ManifestOfShard() makes
/// of the index, with its dtypes and logical shapes; a recorded step is the manifest's, and so is a
/// digest of content. kMismatch names shard and piece. Both have passed their own rules.
/// Near-linear in what the shard holds.
Status CheckShardAgainst(const ManifestView& manifest, uint32_t shard,
                         std::span<const uint32_t> pieces, const IndexView& index);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_SHARD_MATCH_H_
