#include "merge/checkpoint_health.h"

#include <set>
#include <utility>

#include "dsckpt/run_layout.h"
#include "io/directory.h"
#include "merge/paths.h"

namespace dsckpt::merge {

namespace {

std::vector<std::string> IgnoredEntries(const Checkpoint& checkpoint) {
  std::vector<std::string> ignored_entries;
  if (!checkpoint.has_manifest()) return ignored_entries;
  std::set<std::string, std::less<>> known{std::string(kManifestName)};
  for (uint32_t i = 0; i < checkpoint.manifest_parts(); ++i) known.insert(ManifestPartName(i));
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    known.insert(std::string(checkpoint.shard(i).name));
  }
  const auto names = io::ListDirectory(checkpoint.path());
  if (!names.ok()) return ignored_entries;
  for (const std::string& name : *names) {
    if (known.count(name) == 0) ignored_entries.push_back(name);
  }
  return ignored_entries;
}

}  // namespace

uint64_t PieceBytes(const LogicalTensorInfo& tensor, const OwnedPiece& piece) {
  uint64_t elements = 1;
  if (piece.form == Piece::Form::kFlat) {
    elements = static_cast<uint64_t>(piece.flat.end - piece.flat.begin);
  } else {
    for (const Range& range : piece.box) elements *= static_cast<uint64_t>(range.end - range.begin);
  }
  return elements / tensor.dtype.block_elements * tensor.dtype.block_bytes;
}

CheckpointHealth HealthOf(const Checkpoint& checkpoint) {
  CheckpointHealth health;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    CheckpointHealth::Shard shard;
    shard.info = checkpoint.shard(i);
    const auto file = checkpoint.OpenShard(i);
    shard.status = file.status();
    if (file.ok() && !file->verifiable()) shard.unknown_hash = file->hash_id();
    health.complete = health.complete && shard.status.ok();
    health.bytes += shard.info.file_bytes;
    health.shards.push_back(std::move(shard));
  }
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const LogicalTensorInfo info = checkpoint.tensor(i);
    for (const PieceLocation& location : checkpoint.Pieces(i)) {
      CheckpointHealth::Shard& shard = health.shards[location.shard];
      ++shard.pieces;
      shard.piece_bytes += PieceBytes(info, location.piece);
    }
    Status status = checkpoint.CheckCoverage(i);
    if (status.ok()) continue;
    health.complete = false;
    health.gaps.push_back({std::string(info.name), std::move(status)});
  }
  health.ignored_entries = IgnoredEntries(checkpoint);
  return health;
}

}  // namespace dsckpt::merge
