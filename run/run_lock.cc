#include "run/run_lock.h"

#include "io/directory.h"
#include "run/run_layout.h"

namespace dsckpt::run {
namespace {

using AtEnd = io::LockFile::AtEnd;

std::string RunLock(const std::string& run) { return run + "/" + std::string(kRunLockName); }

std::string EntryLock(const std::string& run, const std::string& name) {
  return run + "/" + EntryLockName(name);
}

}  // namespace

Result<std::unique_ptr<io::LockFile>> LockRun(const std::string& run,
                                              std::chrono::milliseconds patience) {
  auto taken = io::LockFile::Take(RunLock(run), patience);
  if (taken.status().code() != StatusCode::kFailedPrecondition) return taken;
  return Status(StatusCode::kFailedPrecondition,
                "another job, or another writer of this one, writes checkpoints to '" + run +
                    "': wait until it has ended, or close it")
      .WithPath(run);
}

Result<std::unique_ptr<io::LockFile>> LockEntry(const std::string& run, const std::string& name) {
  auto taken = io::LockFile::Take(EntryLock(run, name), kLockPatience, AtEnd::kRemoved);
  if (taken.status().code() != StatusCode::kFailedPrecondition) return taken;
  const std::string path = run + "/" + name;
  return Status(StatusCode::kFailedPrecondition,
                "another process is writing '" + path + "': wait until it has ended")
      .WithPath(path);
}

Status WhileNoRank0(const std::string& run, const std::function<Status()>& act) {
  DSCKPT_ASSIGN_OR_RETURN(const auto kind, io::KindOf(RunLock(run)));
  if (kind == io::PathKind::kNone) return act();
  const auto lock = LockRun(run, std::chrono::milliseconds(0));
  return lock.ok() ? act() : Status();
}

bool IsEntryLocked(const std::string& run, const std::string& name) {
  return io::LockFile::IsHeld(EntryLock(run, name));
}

}  // namespace dsckpt::run
