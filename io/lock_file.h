#ifndef DSCKPT_IO_LOCK_FILE_H_
#define DSCKPT_IO_LOCK_FILE_H_

// One holder at a time, on all machines.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "dsckpt/status.h"

namespace dsckpt::io {

/// Holds a file locked against every other holder, in this process and on other machines alike
/// (an open-file-description lock), until it is destroyed or the process ends, however that ends.
/// A child made by fork() shares the lock while it lives.
class LockFile {
 public:
  enum class AtEnd { kStays, kRemoved };

  /// Makes the file where it is missing. `at_end`: whether the file stays or its holder removes it
  /// when it is destroyed; all who take a lock say the same. Tries for `patience`, because the
  /// children of a holder that was killed may outlive it a little; then kFailedPrecondition. A file
  /// system without locks gives a holder that protects nothing.
  static Result<std::unique_ptr<LockFile>> Take(const std::string& path,
                                                std::chrono::milliseconds patience,
                                                AtEnd at_end = AtEnd::kStays);
  /// Whether somebody holds `path` locked, or may: it cannot be looked at. Leaves no trace.
  static bool IsHeld(const std::string& path);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  LockFile(int fd, std::string path, AtEnd at_end);
  int fd_;
  const std::string path_;
  const AtEnd at_end_;
  const pid_t owner_;
};

/// Whether `path` still names the open file `fd`: another may have removed or replaced it.
bool StillNames(const std::string& path, int fd);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_LOCK_FILE_H_
