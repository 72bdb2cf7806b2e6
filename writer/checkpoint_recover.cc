// What rank 0 does with the left-overs of crashed groups (spec/commit.md, "Recovery").

#include <utility>

#include "io/directory.h"
#include "writer/checkpoint_paths.h"
#include "writer/checkpoint_publish.h"
#include "writer/checkpoint_run.h"

namespace dsckpt {
namespace {

class Recovery {
 public:
  Recovery(const std::string& run, const std::string& session, const io::Warn& warn)
      : run_(run), session_(session + "-"), warn_(warn) {}

  Status Run() {
    DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(run_));
    // Replacements first: they may still need their incomplete directory.
    for (const std::string& entry : entries) {
      const auto left = ParseLeftOver(entry);
      if (left && left->kind == LeftOver::Kind::kReplaced) Try(EndReplacement(entry, *left));
    }
    for (const std::string& entry : entries) {
      const auto left = ParseLeftOver(entry);
      if (!left) {
        if (CheckCheckpointName(entry, "").ok()) Try(EndInPlace(entry));
      } else if (left->kind != LeftOver::Kind::kReplaced && IsOurs(*left) &&
                 !left->attempt.starts_with(session_)) {
        Try(io::RemoveAll(run_ + "/" + entry));
      }
    }
    return Status();
  }

 private:
  /// Problems with one left-over do not keep a job from starting.
  void Try(Status status) {
    if (!status.ok() && warn_) warn_(std::move(status));
  }

  static bool IsOurs(const LeftOver& left) { return CheckCheckpointName(left.name, "").ok(); }

  bool HoldsAttempt(const AttemptPaths& paths) const {
    const auto complete = ReadComplete(run_, paths.Directory().substr(run_.size() + 1));
    return complete.ok() && complete->attempt == paths.attempt;
  }

  /// The old checkpoint stepped aside for a new one. Only what has a manifest did.
  Status EndReplacement(const std::string& entry, const LeftOver& left) {
    const std::string old = run_ + "/" + entry;
    DSCKPT_ASSIGN_OR_RETURN(const auto manifest,
                            io::KindOf(old + "/" + std::string(format::kManifestName)));
    if (!IsOurs(left) || manifest != io::PathKind::kFile) return Status();
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
      const auto left = ParseLeftOver(entry);
      const bool ours = left && left->name.empty() && left->kind != LeftOver::Kind::kReplaced;
      if (!ours || left->attempt.starts_with(session_)) continue;
      if (left->kind == LeftOver::Kind::kIncomplete) {
        DSCKPT_RETURN_IF_ERROR(FinishInPlace({run_, name, left->attempt, true}));
      }
      DSCKPT_RETURN_IF_ERROR(io::RemoveAll(directory + "/" + entry));
    }
    return Status();
  }

  const std::string& run_;
  const std::string session_;
  const io::Warn& warn_;
};

}  // namespace

Status Recover(const std::string& run, const std::string& session, const io::Warn& warn) {
  return Recovery(run, session, warn).Run();
}

}  // namespace dsckpt
