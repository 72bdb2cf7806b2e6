#ifndef DSCKPT_RUN_RUN_LOCK_H_
#define DSCKPT_RUN_RUN_LOCK_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dsckpt/status.h"
#include "io/lock_file.h"

// Who may change what in a run directory (spec/commit.md, "Locks").

namespace dsckpt::run {

/// Children of a killed job may hold its lock a little longer.
inline constexpr std::chrono::milliseconds kLockPatience{2000};

/// The lock of the one live rank 0 on a run directory. kFailedPrecondition: it has one.
Result<std::unique_ptr<io::LockFile>> LockRun(const std::string& run,
                                              std::chrono::milliseconds patience = kLockPatience);
/// The lock of whoever writes the one entry `name` without being the run's rank 0.
/// kFailedPrecondition: somebody does.
Result<std::unique_ptr<io::LockFile>> LockEntry(const std::string& run, const std::string& name);

/// Calls `act` unless the run directory has a live rank 0, of which none starts meanwhile. Where
/// there never was one, no lock is left behind.
Status WhileNoRank0(const std::string& run, const std::function<Status()>& act);
/// Whether somebody holds the lock of the entry.
bool IsEntryLocked(const std::string& run, const std::string& name);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_RUN_LOCK_H_
