#include "writer/group/publish.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "io/directory.h"
#include "run/complete.h"
#include "run/manifest_file.h"

namespace dsckpt {
namespace {

std::atomic<CheckpointStepHook> step_hook{nullptr};
std::atomic<uint64_t> manifest_limit{kMaxManifestBytes};

/// Attribute caches of network file systems hide what others did for a while.
constexpr std::chrono::seconds kListPatience{30};
constexpr std::chrono::seconds kLookPatience{1};

Status GivenUp(const AttemptPaths& paths) {
  return Status(StatusCode::kTimedOut, "another rank gave up the checkpoint '" + paths.Final() +
                                           "' while it was being committed: nothing was published")
      .WithPath(paths.Final());
}

Status Unsynced(const AttemptPaths& paths, const Status& why) {
  return Status(StatusCode::kDurabilityUnknown,
                "published '" + paths.Final() + "', but a power cut may undo it: " + why.message())
      .WithErrno(why.error_number())
      .WithPath(paths.Final());
}

bool IsPublished(const AttemptPaths& paths) {
  const auto manifest = run::ReadManifestAlone(paths.Final());
  return manifest.ok() && manifest->view.attempt == paths.attempt;
}

/// What every rank saw of its own shards must be what this one sees: the directory is shared.
Status FindShards(const AttemptPaths& paths, const std::vector<std::string>& shards,
                  Coordinator::Clock::time_point deadline) {
  for (Backoff backoff(std::min(deadline, Coordinator::Clock::now() + kListPatience));;) {
    if (io::Stands(paths.Tombstone())) return GivenUp(paths);
    DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(paths.Directory()));
    const auto missing = std::find_if(shards.begin(), shards.end(), [&](const std::string& shard) {
      return !std::binary_search(entries.begin(), entries.end(), shard);
    });
    if (missing == shards.end()) return Status();
    if (backoff.Wait()) continue;
    return Status(StatusCode::kIncomplete, "rank 0 does not see shard '" + *missing + "' in '" +
                                               paths.Directory() +
                                               "': the run directory must be one that all ranks "
                                               "share")
        .WithPath(paths.Directory());
  }
}

Status SyncPublished(const AttemptPaths& paths) {
  Status synced = paths.in_place ? io::SyncDirectory(paths.Final()) : Status();
  if (synced.ok()) synced = io::SyncDirectory(paths.run);
  return synced.ok() ? Status() : Unsynced(paths, synced);
}

void WarnOf(Status status, const io::Warn& warn) {
  if (!status.ok() && warn) warn(std::move(status));
}

/// `replaces`: what stands at the name gives way. Else nothing does, not even what came there since
/// somebody looked. Until the end the old checkpoint is in the attempt's directory or put aside; a
/// rank that gives up may take that directory away, which does no harm.
Status MoveDirectory(const AttemptPaths& paths, bool replaces, const io::Warn& warn) {
  std::string old;
  Status moved;
  if (replaces && io::Stands(paths.Final())) {
    const auto replaced = io::ReplaceDirectory(paths.Directory(), paths.Final(), paths.Replaced(),
                                               [] { CheckpointStep("replaced"); });
    moved = replaced.status();
    if (replaced.ok()) old = *replaced;
  } else {
    moved = io::RenameNoReplace(paths.Directory(), paths.Final());
  }
  if (!moved.ok()) return moved.code() == StatusCode::kNotFound ? GivenUp(paths) : moved;
  CheckpointStep("renamed");
  DSCKPT_RETURN_IF_ERROR(SyncPublished(paths));
  CheckpointStep("synced");
  if (!old.empty()) WarnOf(io::RemoveAll(old), warn);
  return Status();
}

/// The files that go before a manifest: its shards and its parts.
std::vector<std::string> FilesOf(const std::vector<std::string>& shards, uint32_t parts) {
  std::vector<std::string> files = shards;
  for (uint32_t i = 0; i < parts; ++i) files.push_back(ManifestPartName(i));
  return files;
}

/// Moves shards, parts and manifest of an attempt one by one. Those that a crash stopped may have
/// some of them in place already.
class InPlaceMove {
 public:
  InPlaceMove(const AttemptPaths& paths, const std::vector<std::string>& files)
      : paths_(paths), files_(files) {}

  Status Run(const io::Warn& warn) {
    const std::vector<std::string> old = OldFiles();
    Status moved = Move();
    if (!moved.ok()) {
      for (const std::string& path : moved_) WarnOf(io::RemoveAll(path), warn);
      return moved;
    }
    CheckpointStep("renamed");
    DSCKPT_RETURN_IF_ERROR(SyncPublished(paths_));
    CheckpointStep("synced");
    WarnOf(io::RemoveAll(paths_.Directory()), warn);
    for (const std::string& file : old) {
      if (std::find(files_.begin(), files_.end(), file) != files_.end()) continue;
      WarnOf(io::RemoveAll(paths_.Final() + "/" + file), warn);
    }
    return Status();
  }

 private:
  /// The shards of the manifest that stands there, and all parts of any: those of an attempt that
  /// was given up halfway have no manifest.
  std::vector<std::string> OldFiles() const {
    std::vector<std::string> files;
    if (const auto old = run::ReadManifestAlone(paths_.Final()); old.ok()) {
      files.assign(old->view.shard_names.begin(), old->view.shard_names.end());
    }
    if (const auto entries = io::ListDirectory(paths_.Final()); entries.ok()) {
      std::copy_if(entries->begin(), entries->end(), std::back_inserter(files), IsManifestPartName);
    }
    return files;
  }

  Status Move() {
    if (io::Stands(run::ManifestPath(paths_.Final()))) {
      // Before the first of its shards changes.
      DSCKPT_RETURN_IF_ERROR(io::RemoveAll(run::ManifestPath(paths_.Final())));
      DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(paths_.Final()));
      CheckpointStep("replaced");
    }
    for (const std::string& file : files_) {
      DSCKPT_RETURN_IF_ERROR(MoveFile(file));
      CheckpointStep("moved");
    }
    DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(paths_.Final()));
    return Checked(io::RenameNoReplace(run::ManifestPath(paths_.Directory()),
                                       run::ManifestPath(paths_.Final())));
  }

  Status MoveFile(const std::string& file) {
    const std::string to = paths_.Final() + "/" + file;
    const std::string from = paths_.Directory() + "/" + file;
    if (!io::Stands(from) && io::Stands(paths_.Directory()) && io::Stands(to)) return Status();
    DSCKPT_RETURN_IF_ERROR(Checked(io::RenameFile(from, to)));
    moved_.push_back(to);
    return Status();
  }

  Status Checked(Status status) const {
    return status.code() == StatusCode::kNotFound ? GivenUp(paths_) : status;
  }

  const AttemptPaths& paths_;
  const std::vector<std::string>& files_;
  std::vector<std::string> moved_;
};

/// The tombstone stays, since others may still look for it. It is durable before it is emptied: a
/// power cut must not bring back its old name with only some of its files.
void EmptyTombstone(const AttemptPaths& paths) {
  const std::string path = paths.Tombstone();
  const auto entries = io::ListDirectory(path);
  if (!entries.ok() || !io::SyncDirectory(paths.Parent()).ok()) return;
  for (const std::string& entry : *entries) {
    static_cast<void>(io::RemoveAll(path + "/" + entry).ok());  // Rank 0 clears it at its start.
  }
}

/// Whether the directory was taken away here and now.
Status TakeAway(const AttemptPaths& paths) {
  Status taken = io::RenameNoReplace(paths.Directory(), paths.Tombstone());
  // Given up before, and made again by a rank that came late.
  if (taken.code() == StatusCode::kAlreadyExists) taken = io::RemoveAll(paths.Directory());
  return taken;
}

/// Rank 0 may be slow, not dead.
Status AwaitLatest(const AttemptPaths& paths) {
  for (Backoff backoff(kLookPatience);;) {
    if (run::ReadLatest(paths.run) == paths.name) {
      const Status synced = io::SyncDirectory(paths.run);
      return synced.ok() ? Status() : LatestUnknown(paths, synced);
    }
    if (backoff.Wait()) continue;
    return LatestUnknown(paths, Status(StatusCode::kTimedOut, "rank 0 did not say in time"));
  }
}

}  // namespace

void SetCheckpointStepHook(CheckpointStepHook hook) { step_hook = hook; }

void SetManifestLimit(uint64_t max_bytes) { manifest_limit = max_bytes; }

void CheckpointStep(const char* step) {
  if (const CheckpointStepHook hook = step_hook.load(); hook != nullptr) hook(step);
}

Result<bool> CheckTarget(const AttemptPaths& paths, bool replace, bool run) {
  DSCKPT_ASSIGN_OR_RETURN(const auto kind, io::KindOf(paths.Final()));
  if (kind == io::PathKind::kNone) return false;
  DSCKPT_ASSIGN_OR_RETURN(const auto manifest, io::KindOf(run::ManifestPath(paths.Final())));
  const bool checkpoint = manifest == io::PathKind::kFile;
  if (checkpoint ? replace : paths.in_place && kind == io::PathKind::kDirectory) return true;
  if (checkpoint && run && run::IsAbandoned(paths.run, paths.name)) return true;
  return Status(StatusCode::kAlreadyExists,
                checkpoint ? "checkpoint '" + paths.Final() +
                                 "' stands already: give another name, ask to replace it, or, "
                                 "where training goes on from an earlier one, roll the run back "
                                 "to that first (RollBack(), Run.roll_back() in Python)"
                           : "'" + paths.Final() +
                                 "' stands and is no checkpoint: remove it, or give another name")
      .WithPath(paths.Final());
}

Status PublishAttempt(const AttemptPaths& paths, const format::ManifestColumns& manifest,
                      bool replaces, Coordinator::Clock::time_point deadline,
                      const io::Warn& warn) {
  DSCKPT_RETURN_IF_ERROR(FindShards(paths, manifest.shard_names, deadline));
  const auto parts = run::WriteManifest(paths.Directory(), manifest, manifest_limit.load());
  if (parts.status().code() == StatusCode::kNotFound) return GivenUp(paths);
  DSCKPT_RETURN_IF_ERROR(parts.status());
  CheckpointStep("manifest");
  if (!paths.in_place) return MoveDirectory(paths, replaces, warn);
  return InPlaceMove(paths, FilesOf(manifest.shard_names, *parts)).Run(warn);
}

Status FinishInPlace(const AttemptPaths& paths) {
  const auto manifest = run::ReadManifestAlone(paths.Directory());
  if (!manifest.ok() || manifest->view.attempt != paths.attempt) return Status();
  if (io::Stands(run::ManifestPath(paths.Final()))) return Status();
  if (!run::CheckParts({paths.Directory(), paths.Final()}, manifest->view).ok() ||
      !run::CheckShards({paths.Directory(), paths.Final()}, manifest->view).ok()) {
    return Status();
  }
  const std::vector<std::string> shards(manifest->view.shard_names.begin(),
                                        manifest->view.shard_names.end());
  return InPlaceMove(paths, FilesOf(shards, manifest->view.part_count())).Run({});
}

void DiscardAttempt(const AttemptPaths& paths) {
  // Best effort: rank 0 clears at its next start what stays.
  if (TakeAway(paths).ok()) static_cast<void>(io::SyncDirectory(paths.Parent()).ok());
  static_cast<void>(io::RemoveAll(paths.Tombstone()).ok());
  if (paths.in_place) ::rmdir(paths.Final().c_str());  // Where it was made for this.
}

Status LatestUnknown(const AttemptPaths& paths, const Status& why) {
  return Status(StatusCode::kDurabilityUnknown,
                "published '" + paths.Final() +
                    "', but 'latest' may still name the checkpoint before it: " + why.message() +
                    "; save again, or roll the run to it")
      .WithErrno(why.error_number())
      .WithPath(paths.Final());
}

Status GiveUpAttempt(const AttemptPaths& paths, bool moves_latest) {
  const Status taken = TakeAway(paths);
  if (taken.ok()) EmptyTombstone(paths);
  bool published = false;
  for (Backoff backoff(kLookPatience);;) {
    published = IsPublished(paths);
    if (published || taken.ok() || io::Stands(paths.Tombstone()) || !backoff.Wait()) break;
  }
  if (published) {
    DSCKPT_RETURN_IF_ERROR(SyncPublished(paths));
    return moves_latest ? AwaitLatest(paths) : Status();
  }
  if (taken.ok() || taken.code() == StatusCode::kNotFound) {
    return Status(StatusCode::kTimedOut,
                  "checkpoint '" + paths.Final() +
                      "' was given up: rank 0 did not say in time what became of it")
        .WithPath(paths.Final());
  }
  return Status(StatusCode::kDurabilityUnknown,
                "rank 0 did not say in time what became of checkpoint '" + paths.Final() +
                    "', and it cannot be taken back: " + taken.message())
      .WithErrno(taken.error_number())
      .WithPath(paths.Final());
}

}  // namespace dsckpt
