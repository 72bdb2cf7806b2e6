#include "writer/checkpoint_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dsckpt/limits.h"
#include "io/directory.h"
#include "io/syscalls.h"
#include "writer/checkpoint_paths.h"

namespace dsckpt {
namespace {

std::string ManifestPath(const std::string& directory) {
  return directory + "/" + std::string(format::kManifestName);
}

/// Nothing where `latest` is missing or holds no bare name: it is a pointer, not a record.
std::string ReadLatest(const std::string& run) {
  constexpr uint64_t kMaxBytes = 4096;
  const auto bytes = io::ReadSmallFile(run + "/latest", kMaxBytes);
  if (!bytes.ok()) return {};
  std::string name(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (name.ends_with('\n')) name.pop_back();
  return CheckCheckpointName(name, "").ok() ? name : std::string();
}

/// Removes a checkpoint so that a crash leaves nothing half-removed under its name: the directory
/// goes away as a whole; where other files stand in it, the manifest goes first.
Status RemoveCheckpoint(const std::string& run, const CompleteCheckpoint& checkpoint,
                        const std::string& attempt) {
  const std::string directory = run + "/" + checkpoint.name;
  DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(directory));
  const bool shared = std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
    return entry != format::kManifestName && !entry.starts_with(".dsckpt-") &&
           std::find(checkpoint.shards.begin(), checkpoint.shards.end(), entry) ==
               checkpoint.shards.end();
  });
  if (!shared) {
    const std::string removed = directory + ".removed-" + attempt;
    DSCKPT_RETURN_IF_ERROR(io::RenameNoReplace(directory, removed));
    return io::RemoveAll(removed);
  }
  DSCKPT_RETURN_IF_ERROR(io::RemoveAll(ManifestPath(directory)));
  DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(directory));
  for (const std::string& shard : checkpoint.shards) {
    DSCKPT_RETURN_IF_ERROR(io::RemoveAll(directory + "/" + shard));
  }
  return Status();
}

/// Newest first.
Result<std::vector<CompleteCheckpoint>> CompleteCheckpoints(const std::string& run) {
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(run));
  std::vector<CompleteCheckpoint> complete;
  for (const std::string& name : names) {
    if (!CheckCheckpointName(name, "").ok()) continue;
    auto checkpoint = ReadComplete(run, name);
    if (checkpoint.ok()) complete.push_back(std::move(checkpoint).value());
  }
  std::stable_sort(complete.begin(), complete.end(),
                   [](const auto& a, const auto& b) { return a.step > b.step; });
  return complete;
}

}  // namespace

Result<StoredManifest> ReadManifest(const std::string& directory) {
  StoredManifest manifest;
  DSCKPT_ASSIGN_OR_RETURN(manifest.bytes,
                          io::ReadSmallFile(ManifestPath(directory), kMaxManifestBytes));
  DSCKPT_ASSIGN_OR_RETURN(manifest.view, format::ParseManifest(manifest.bytes));
  return manifest;
}

Result<CompleteCheckpoint> ReadComplete(const std::string& run, const std::string& name) {
  const std::string directory = run + "/" + name;
  DSCKPT_ASSIGN_OR_RETURN(const StoredManifest manifest, ReadManifest(directory));
  CompleteCheckpoint checkpoint{.name = name,
                                .attempt = std::string(manifest.view.attempt),
                                .step = manifest.view.step,
                                .shards = {}};
  for (uint32_t i = 0; i < manifest.view.shard_count(); ++i) {
    checkpoint.shards.emplace_back(manifest.view.shard_names[i]);
    const std::string path = directory + "/" + checkpoint.shards.back();
    const auto bytes = io::FileBytes(path);
    if (bytes.ok() && *bytes == manifest.view.shard_file_bytes[i]) continue;
    return Status(StatusCode::kIncomplete,
                  "'" + path + "' is missing or has another size than its manifest says")
        .WithPath(path);
  }
  return checkpoint;
}

Status MoveLatest(const std::string& run, const std::string& name, int64_t step) {
  const std::string current = ReadLatest(run);
  if (current == name) return Status();
  if (!current.empty()) {
    const auto newest = ReadComplete(run, current);
    if (newest.ok() && newest->step > step) return Status();
  }
  const std::string text = name + "\n";
  return io::WriteSmallFile(run + "/latest", std::as_bytes(std::span(text)));
}

Status ApplyRetention(const std::string& run, const Retention& retention,
                      const std::string& attempt) {
  if (retention.keep_last <= 0) return Status();
  DSCKPT_ASSIGN_OR_RETURN(const auto complete, CompleteCheckpoints(run));
  const std::string latest = ReadLatest(run);
  Status first;
  for (size_t i = static_cast<size_t>(retention.keep_last); i < complete.size(); ++i) {
    const CompleteCheckpoint& old = complete[i];
    const bool every = retention.keep_every > 0 && old.step % retention.keep_every == 0;
    const bool listed =
        std::find(retention.keep.begin(), retention.keep.end(), old.step) != retention.keep.end();
    if (every || listed || old.name == latest) continue;
    Status removed = RemoveCheckpoint(run, old, attempt);
    if (first.ok()) first = std::move(removed);
  }
  return first;
}

}  // namespace dsckpt
