#include "run/run_lock.h"

#include "io/directory.h"
#include "run/run_layout.h"

namespace dsckpt::run {
namespace {

using AtEnd = io::LockFile::AtEnd;

std::string RunLock(const std::string& run) { return run + "/" + std::string(kLockName); }

std::string EntryLock(const std::string& run, const std::string& name) {
  return run + "/" + NameLock(name);
}

/// Looks without making a lock file where there is none.
bool IsHeld(const std::string& path, AtEnd at_end) {
  const auto kind = io::KindOf(path);
  if (!kind.ok() || *kind == io::PathKind::kNone) return false;
  const auto lock = io::LockFile::Take(path, std::chrono::milliseconds(0), at_end);
  return lock.status().code() == StatusCode::kFailedPrecondition;
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

bool IsRunLocked(const std::string& run) { return IsHeld(RunLock(run), AtEnd::kStays); }

bool IsEntryLocked(const std::string& run, const std::string& name) {
  return IsHeld(EntryLock(run, name), AtEnd::kRemoved);
}

}  // namespace dsckpt::run
