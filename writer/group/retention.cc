#include "writer/group/retention.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "io/directory.h"
#include "run/complete.h"
#include "run/manifest_file.h"
#include "run/run_layout.h"

namespace dsckpt {
namespace {

/// Removes a checkpoint so that a crash leaves nothing half-removed under its name: the directory
/// goes away as a whole, and durably, before anything in it does; where other files stand in it,
/// the manifest goes first.
Status RemoveCheckpoint(const std::string& run, const run::CompleteCheckpoint& checkpoint,
                        const std::string& attempt) {
  const std::string directory = run + "/" + checkpoint.name;
  DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(directory));
  std::vector<std::string> shards = checkpoint.shards;
  std::sort(shards.begin(), shards.end());
  const bool shared = std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
    const run::EntryKind kind = run::ParseEntry(entry).kind;
    return kind != run::EntryKind::kManifest && kind != run::EntryKind::kTemporary &&
           !std::binary_search(shards.begin(), shards.end(), entry);
  });
  if (!shared) {
    const std::string removed = run::AttemptPaths{run, checkpoint.name, attempt}.Tombstone();
    DSCKPT_RETURN_IF_ERROR(io::RenameNoReplace(directory, removed));
    DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(run));
    return io::RemoveAll(removed);
  }
  DSCKPT_RETURN_IF_ERROR(io::RemoveAll(run::ManifestPath(directory)));
  DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(directory));
  for (const std::string& shard : checkpoint.shards) {
    DSCKPT_RETURN_IF_ERROR(io::RemoveAll(directory + "/" + shard));
  }
  for (uint32_t i = 0; i < checkpoint.parts; ++i) {
    DSCKPT_RETURN_IF_ERROR(io::RemoveAll(directory + "/" + ManifestPartName(i)));
  }
  return Status();
}

}  // namespace

Status ApplyRetention(const std::string& run, const Retention& retention,
                      const std::string& published, const std::string& attempt) {
  if (retention.keep_last <= 0) return Status();
  DSCKPT_ASSIGN_OR_RETURN(const auto complete, run::CompleteCheckpoints(run));
  const auto latest = run::ReadLatest(run);
  Status first;
  const size_t kept = std::min(complete.size(), static_cast<size_t>(retention.keep_last));
  for (size_t i = 0; i < complete.size() - kept; ++i) {
    const run::CompleteCheckpoint& old = complete[i];
    const bool every =
        retention.keep_every > 0 && old.step && *old.step % retention.keep_every == 0;
    const bool listed = old.step && std::find(retention.keep.begin(), retention.keep.end(),
                                              *old.step) != retention.keep.end();
    if (every || listed || old.name == published || old.name == latest) continue;
    Status removed = RemoveCheckpoint(run, old, attempt);
    if (first.ok()) first = std::move(removed);
  }
  return first;
}

Status MoveLatestBack(const std::string& run, const std::string& name) {
  if (!run::IsCheckpointName(name)) return run::CheckCheckpointName(name, "");
  const auto complete = run::ReadComplete(run, name);
  if (!complete.ok()) {
    return Status(complete.status().code(),
                  "cannot roll back to '" + Printable(name) + "': " + complete.status().message())
        .WithErrno(complete.status().error_number())
        .WithPath(complete.status().path());
  }
  return run::WriteLatest(run, name);
}

Status MoveLatestBack(const std::string& run, int64_t step) {
  DSCKPT_ASSIGN_OR_RETURN(const auto complete, run::CompleteCheckpoints(run));
  for (auto save = complete.rbegin(); save != complete.rend(); ++save) {
    if (save->step == step) return run::WriteLatest(run, save->name);
  }
  return Status(StatusCode::kNotFound, "cannot roll back: '" + run +
                                           "' holds no complete checkpoint of step " +
                                           std::to_string(step) + " ('dsckpt ls' lists it)")
      .WithPath(run);
}

}  // namespace dsckpt
