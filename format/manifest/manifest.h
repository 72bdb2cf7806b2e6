#ifndef DSCKPT_FORMAT_MANIFEST_MANIFEST_H_
#define DSCKPT_FORMAT_MANIFEST_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"
#include "format/columns/columns.h"
#include "format/file_names.h"
#include "format/pieces/pieces.h"

namespace dsckpt::format {

/// The commit record of a sharded checkpoint (spec/format.md, "Manifest"). A rank's report to its
/// group is a manifest too: of that rank's shards alone.
struct ManifestColumns {
  std::string attempt;
  int64_t step = 0;  // Negative: not known.
  uint32_t ranks = 0;
  uint64_t serial = 0;  // Among the saves of its run directory, from 1; 0: not known.
  uint64_t parent = 0;  // Serial of the save that training went on from; 0: none, or not known.
  std::vector<std::string> shard_names;
  std::vector<uint32_t> shard_rank;
  std::vector<uint64_t> shard_file_bytes, shard_index_bytes, shard_index_xxh3_64;
  std::vector<Hash128> shard_content;  // Of every shard, or empty.
  std::vector<DTypeRecord> dtypes;
  std::vector<uint8_t> logical_dtype;
  PieceColumns pieces;
  std::vector<uint32_t> piece_shard;
  std::vector<uint64_t> part_file_bytes, part_xxh3_64;  // Of the files that hold the pieces.
};

/// Borrows from the encoded bytes or the columns.
struct ManifestView {
  std::string_view attempt;
  int64_t step = 0;
  uint32_t ranks = 0;
  uint64_t serial = 0, parent = 0;
  std::vector<std::string_view> shard_names;
  std::span<const uint32_t> shard_rank;
  std::span<const uint64_t> shard_file_bytes, shard_index_bytes, shard_index_xxh3_64;
  std::span<const Hash128> shard_content;
  std::span<const DTypeRecord> dtypes;
  std::span<const uint8_t> logical_dtype;
  PieceView pieces;
  std::span<const uint32_t> piece_shard;
  std::span<const uint64_t> part_file_bytes, part_xxh3_64;

  uint32_t shard_count() const { return static_cast<uint32_t>(shard_names.size()); }
  /// Of the manifest's parts (format/manifest/parts.h); 0: it has none.
  uint32_t part_count() const { return static_cast<uint32_t>(part_file_bytes.size()); }
  /// Pieces of one logical tensor: positions [first, last).
  struct Span {
    uint32_t first = 0, last = 0;
  };
  Span PiecesOf(uint32_t logical_tensor) const;
};

ManifestView ViewOf(const ManifestColumns& columns);

/// One shard's identity, from its footer.
struct ShardIdentity {
  std::string_view name;  // bare file name
  uint32_t rank = 0;
  uint64_t file_bytes = 0, index_bytes = 0, index_xxh3_64 = 0;
};

/// The manifest of one shard. Stored tensors without pieces become whole pieces of logical tensors
/// of their own name; so do aliases of such. Two dtypes or shapes for one logical name: kMismatch.
/// `attempt`, `step`, `serial` and `parent` stay unset, `ranks` is what the shard's rank needs.
Result<ManifestColumns> ManifestOfShard(const ShardIdentity& shard, const IndexView& index);

/// All shards of all parts, ordered by rank and name. `attempt`, `step`, `serial` and `parent` stay
/// unset, `ranks` is the largest of the parts'. Parts are manifests that meet the rules. A shard
/// name twice: kAlreadyExists; a logical tensor with two dtypes or two shapes: kMismatch, naming
/// both shards. Digests of content are kept where all parts have them. Near-linear in the number of
/// pieces.
Result<ManifestColumns> MergeManifests(std::span<const ManifestView> parts);

/// The digest of the content of all shards, where the manifest has those of the shards
/// (spec/format.md, "Content" of a manifest).
std::optional<Hash128> ContentOf(const ManifestView& manifest);

/// FlatBuffer and trailer; equal columns give equal bytes. kLimitExceeded.
Result<std::vector<std::byte>> EncodeManifest(const ManifestColumns& columns);

/// How messages call what is wrong in a manifest.
inline constexpr std::string_view kManifestPart = "manifest";

/// The rules of spec/format.md, "Manifest", that are about shards and pieces, not about bytes.
/// kCorrupt. Near-linear time.
Status CheckManifest(const ManifestView& manifest);

/// Checks trailer, checksum, FlatBuffer and every rule of spec/format.md, "Manifest"; `bytes` must
/// be 8-aligned. kTruncated, kCorrupt, kUnsupported (later version), kNotCheckpoint (no manifest).
Result<ManifestView> ParseManifest(std::span<const std::byte> bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_MANIFEST_H_
