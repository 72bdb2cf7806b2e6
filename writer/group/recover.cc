#include "writer/group/recover.h"

#include <utility>

#include "io/directory.h"
#include "run/complete.h"
#include "run/manifest_file.h"
#include "run/run_layout.h"
#include "run/run_lock.h"
#include "writer/group/publish.h"

namespace dsckpt {
namespace {

using run::AttemptPaths;
using run::EntryName;
using run::Mark;

class Recovery {
 public:
  Recovery(const std::string& run, const std::string& session, const io::Warn& warn,
           const std::optional<std::string>& only)
      : run_(run), session_(session), warn_(warn), only_(only) {}

  Status Run() {
    DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(run_));
    std::vector<std::pair<std::string, EntryName>> left;
    for (const std::string& entry : entries) {
      auto marked = run::ParseMarkedEntry(entry);
      if (marked && IsOurs(*marked)) left.emplace_back(entry, *std::move(marked));
    }
    if (!left.empty()) {
      // A rename that put them aside may not be on storage yet, and what is removed in them must
      // not be missing under the old name after a power cut.
      const Status synced = io::SyncDirectory(run_);
      if (!synced.ok()) left.clear();
      Try(synced);
    }
    // Replacements first: they may still need their incomplete directory.
    for (const auto& [entry, marked] : left) {
      if (marked.mark == Mark::kReplaced) Try(EndReplacement(entry, marked));
    }
    for (const auto& [entry, marked] : left) {
      if (marked.mark != Mark::kReplaced) Try(io::RemoveAll(run_ + "/" + entry));
    }
    for (const std::string& entry : entries) {
      const bool wanted = !only_ || entry == *only_;
      if (wanted && run::IsCheckpointName(entry)) Try(EndInPlace(entry));
    }
    return Status();
  }

 private:
  /// Problems with one left-over do not keep a job from starting.
  void Try(Status status) {
    if (!status.ok() && warn_) warn_(std::move(status));
  }

  /// Nobody else's files, nor those of somebody who is alive.
  bool IsOurs(const EntryName& left) const {
    if (only_) return left.name == *only_ && !run::IsAttemptOf(left.attempt, session_);
    // An old checkpoint that was put aside is whole, and no rank writes to it.
    const bool idle = left.mark == Mark::kReplaced || !run::IsAttemptOf(left.attempt, session_);
    return idle && run::IsCheckpointName(left.name) && !run::IsEntryLocked(run_, left.name);
  }

  bool HoldsAttempt(const AttemptPaths& paths) const {
    const auto complete = run::ReadComplete(run_, paths.Directory().substr(run_.size() + 1));
    return complete.ok() && complete->attempt == paths.attempt;
  }

  /// The old checkpoint stepped aside for a new one. Only what has a manifest did.
  Status EndReplacement(const std::string& entry, const EntryName& left) {
    const std::string old = run_ + "/" + entry;
    DSCKPT_ASSIGN_OR_RETURN(const auto manifest, io::KindOf(run::ManifestPath(old)));
    if (manifest != io::PathKind::kFile) return Status();
    const AttemptPaths paths{run_, left.name, left.attempt, false};
    DSCKPT_ASSIGN_OR_RETURN(const auto final_kind, io::KindOf(paths.Final()));
    if (final_kind == io::PathKind::kNone) {
      if (!HoldsAttempt(paths)) {
        DSCKPT_RETURN_IF_ERROR(io::RenameNoReplace(old, paths.Final()));
        return io::SyncDirectory(run_);
      }
      DSCKPT_RETURN_IF_ERROR(io::RenameNoReplace(paths.Directory(), paths.Final()));
      DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(run_));
    }
    // Under the name stands the new checkpoint, or one that came later still.
    return io::RemoveAll(old);
  }

  /// Attempts inside a directory that another program owns too.
  Status EndInPlace(const std::string& name) {
    const std::string directory = run_ + "/" + name;
    DSCKPT_ASSIGN_OR_RETURN(const auto kind, io::KindOf(directory));
    if (kind != io::PathKind::kDirectory) return Status();
    DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(directory));
    for (const std::string& entry : entries) {
      const auto left = run::ParseMarkedEntry(entry);
      const bool ours = left && left->name.empty() && left->mark != Mark::kReplaced;
      if (!ours || run::IsAttemptOf(left->attempt, session_)) continue;
      if (!only_ && run::IsEntryLocked(run_, name)) return Status();  // Of somebody alive.
      if (left->mark == Mark::kIncomplete) {
        DSCKPT_RETURN_IF_ERROR(FinishInPlace({run_, name, left->attempt, true}));
      }
      DSCKPT_RETURN_IF_ERROR(io::RemoveAll(directory + "/" + entry));
    }
    return Status();
  }

  const std::string& run_;
  const std::string session_;
  const io::Warn& warn_;
  const std::optional<std::string>& only_;
};

}  // namespace

Status Recover(const std::string& run, const std::string& session, const io::Warn& warn,
               const std::optional<std::string>& only) {
  return Recovery(run, session, warn, only).Run();
}

}  // namespace dsckpt
