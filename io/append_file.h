#ifndef DSCKPT_IO_APPEND_FILE_H_
#define DSCKPT_IO_APPEND_FILE_H_

// Text files that grow by whole lines.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dsckpt/status.h"
#include "io/lock_file.h"

namespace dsckpt::io {

/// Adds lines behind what a text file holds. One process at a time does; others wait.
class AppendFile {
 public:
  /// Makes the file where it is missing, and ends its last line where nothing ends it.
  /// kFailedPrecondition: others append for half a minute.
  static Result<std::unique_ptr<AppendFile>> Open(const std::string& path);
  /// What Finish() has not kept is taken away again.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  Status Write(std::string_view lines);
  /// What has been written is durable, and the file is.
  Status Finish();

 private:
  AppendFile(std::string path, std::unique_ptr<LockFile> lock, int fd, uint64_t size)
      : path_(std::move(path)), lock_(std::move(lock)), fd_(fd), kept_(size), size_(size) {}
  Status EndLastLine();

  const std::string path_;
  const std::unique_ptr<LockFile> lock_;
  const int fd_;
  uint64_t kept_, size_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_APPEND_FILE_H_
