#ifndef DSCKPT_IO_LOCK_FILE_H_
#define DSCKPT_IO_LOCK_FILE_H_

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
  /// Makes the file where it is missing; it is never removed, since that could lock two files of
  /// one name. Tries for `patience`, because the children of a holder that was killed may outlive
  /// it a little; then kFailedPrecondition. A file system without locks gives a holder that
  /// protects nothing.
  static Result<std::unique_ptr<LockFile>> Take(const std::string& path,
                                                std::chrono::milliseconds patience);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  explicit LockFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_LOCK_FILE_H_
