#include "io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "io/directory.h"
#include "io/error.h"
#include "io/syscalls.h"

namespace dsckpt::io {

Result<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path) {
  constexpr std::chrono::seconds kPatience(30);
  DSCKPT_ASSIGN_OR_RETURN(auto lock, LockFile::Take(path, kPatience));
  const int fd = Sys().open(path.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const Status status = ErrnoStatus(errno, "look at", path);
    Sys().close(fd);
    return status;
  }
  std::unique_ptr<AppendFile> file(
      new AppendFile(path, std::move(lock), fd, static_cast<uint64_t>(info.st_size)));
  DSCKPT_RETURN_IF_ERROR(file->EndLastLine());
  return file;
}

AppendFile::~AppendFile() {
  if (size_ != kept_) (void)Sys().ftruncate(fd_, static_cast<off_t>(kept_));
  Sys().close(fd_);
}

Status AppendFile::EndLastLine() {
  if (size_ == 0) return {};
  char last = 0;
  if (Sys().pread(fd_, &last, 1, static_cast<off_t>(size_ - 1)) < 0) {
    return ErrnoStatus(errno, "read", path_);
  }
  return last == '\n' ? Status() : Write("\n");
}

Status AppendFile::Write(std::string_view lines) {
  while (!lines.empty()) {
    const ssize_t n = Sys().pwrite(fd_, lines.data(), lines.size(), static_cast<off_t>(size_));
    if (n < 0) return ErrnoStatus(errno, "write", path_);
    size_ += static_cast<uint64_t>(n);
    lines.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status AppendFile::Finish() {
  if (Sys().fsync(fd_) != 0) return ErrnoStatus(errno, "sync", path_);
  kept_ = size_;
  return SyncDirectory(ParentOf(path_));
}

}  // namespace dsckpt::io
