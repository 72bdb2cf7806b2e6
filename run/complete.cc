#include "run/complete.h"

#include <algorithm>
#include <utility>

#include "io/directory.h"
#include "run/manifest_file.h"
#include "run/run_layout.h"

namespace dsckpt::run {

Status CheckShards(std::initializer_list<std::string> directories,
                   const format::ManifestView& manifest) {
  for (uint32_t i = 0; i < manifest.shard_count(); ++i) {
    std::string path;
    Result<uint64_t> bytes = Status(StatusCode::kNotFound, "");
    for (const std::string& directory : directories) {
      path = directory + "/" + std::string(manifest.shard_names[i]);
      bytes = io::FileBytes(path);
      if (bytes.status().code() != StatusCode::kNotFound) break;
    }
    if (bytes.ok() && *bytes == manifest.shard_file_bytes[i]) continue;
    std::string why = "the shard of rank " + std::to_string(manifest.shard_rank[i]);
    if (bytes.ok()) {
      why += " should have " + std::to_string(manifest.shard_file_bytes[i]) + " bytes but has " +
             std::to_string(*bytes);
    } else {
      why += bytes.status().code() == StatusCode::kNotFound ? " is missing"
                                                            : ": " + bytes.status().message();
    }
    return Status(StatusCode::kIncomplete, why).WithPath(path);
  }
  return Status();
}

Result<CompleteCheckpoint> ReadComplete(const std::string& run, const std::string& name) {
  const std::string directory = run + "/" + name;
  DSCKPT_ASSIGN_OR_RETURN(const StoredManifest manifest, ReadManifestAlone(directory));
  DSCKPT_RETURN_IF_ERROR(CheckParts({directory}, manifest.view));
  DSCKPT_RETURN_IF_ERROR(CheckShards({directory}, manifest.view));
  CompleteCheckpoint checkpoint;
  checkpoint.name = name;
  if (manifest.view.step >= 0) checkpoint.step = manifest.view.step;
  checkpoint.serial = manifest.view.serial;
  checkpoint.parent = manifest.view.parent;
  checkpoint.attempt = manifest.view.attempt;
  checkpoint.shards.assign(manifest.view.shard_names.begin(), manifest.view.shard_names.end());
  checkpoint.parts = manifest.view.part_count();
  return checkpoint;
}

Result<std::vector<CompleteCheckpoint>> CompleteCheckpoints(const std::string& run) {
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(run));
  std::vector<CompleteCheckpoint> complete;
  for (const std::string& name : names) {
    if (IsHiddenRunEntry(name)) continue;
    auto checkpoint = ReadComplete(run, name);
    if (checkpoint.ok()) complete.push_back(std::move(checkpoint).value());
  }
  std::sort(complete.begin(), complete.end(), SavedBefore);
  return complete;
}

bool IsAbandoned(const std::string& run, const std::string& name) {
  const auto complete = CompleteCheckpoints(run);
  if (!complete.ok()) return false;
  const std::vector<SaveRecord> saves(complete->begin(), complete->end());
  const std::vector<bool> abandoned = FindAbandoned(saves, ReadLatest(run));
  for (size_t i = 0; i < saves.size(); ++i) {
    if (saves[i].name == name) return abandoned[i];
  }
  return false;
}

}  // namespace dsckpt::run
