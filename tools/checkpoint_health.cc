#include "tools/checkpoint_health.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace dsckpt::tools {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> Strays(const Checkpoint& checkpoint) {
  std::vector<std::string> ignored_entries;
  if (!checkpoint.has_manifest()) return ignored_entries;
  std::set<std::string, std::less<>> known{kManifestName};
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    known.insert(std::string(checkpoint.shard(i).name));
  }
  const auto names = EntriesOf(checkpoint.path());
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

bool IsDirectory(const std::string& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown);
}

Result<std::vector<std::string>> EntriesOf(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    const bool denied = error == std::errc::permission_denied;
    return Status(denied ? StatusCode::kPermissionDenied : StatusCode::kIoError,
                  "cannot list the directory " + directory)
        .WithErrno(error.value())
        .WithPath(directory);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool FileExists(const std::string& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

bool IsCheckpointDirectory(const std::string& path) {
  std::error_code unknown;
  return IsDirectory(path) && fs::exists(fs::path(path) / kManifestName, unknown);
}

CheckpointHealth MakeSurvey(const Checkpoint& checkpoint) {
  CheckpointHealth survey;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    CheckpointHealth::Shard shard;
    shard.info = checkpoint.shard(i);
    shard.status = checkpoint.OpenShard(i).status();
    survey.complete = survey.complete && shard.status.ok();
    survey.bytes += shard.info.file_bytes;
    survey.shards.push_back(std::move(shard));
  }
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const LogicalTensorInfo info = checkpoint.tensor(i);
    for (const PieceLocation& location : checkpoint.Pieces(i)) {
      CheckpointHealth::Shard& shard = survey.shards[location.shard];
      ++shard.pieces;
      shard.piece_bytes += PieceBytes(info, location.piece);
    }
    Status status = checkpoint.CheckCoverage(i);
    if (status.ok()) continue;
    survey.complete = false;
    survey.gaps.push_back({std::string(info.name), std::move(status)});
  }
  survey.ignored_entries = Strays(checkpoint);
  return survey;
}

}  // namespace dsckpt::tools
