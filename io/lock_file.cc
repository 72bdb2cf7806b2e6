#include "io/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/backoff.h"
#include "io/error.h"
#include "io/syscalls.h"

namespace dsckpt::io {
namespace {

enum class Outcome { kLocked, kHeld, kRemoved };

Outcome TryLock(int fd, const std::string& path) {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  int result = fcntl(fd, F_OFD_SETLK, &whole);
  while (result != 0 && errno == EINTR) result = fcntl(fd, F_OFD_SETLK, &whole);
  if (result != 0 && (errno == EAGAIN || errno == EACCES)) return Outcome::kHeld;
  // Any other error: a file system without locks. A file that its holder has removed meanwhile
  // would keep nobody out.
  return result != 0 || StillNames(path, fd) ? Outcome::kLocked : Outcome::kRemoved;
}

}  // namespace

bool StillNames(const std::string& path, int fd) {
  struct stat by_path, by_fd;
  return lstat(path.c_str(), &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
         by_path.st_ino == by_fd.st_ino && by_path.st_dev == by_fd.st_dev;
}

LockFile::LockFile(int fd, std::string path, AtEnd at_end)
    : fd_(fd), path_(std::move(path)), at_end_(at_end), owner_(getpid()) {}

Result<std::unique_ptr<LockFile>> LockFile::Take(const std::string& path,
                                                 std::chrono::milliseconds patience, AtEnd at_end) {
  for (Backoff backoff(patience);;) {
    const int fd = Sys().open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return ErrnoStatus(errno, "open", path);
    const Outcome outcome = TryLock(fd, path);
    if (outcome == Outcome::kLocked) {
      return std::unique_ptr<LockFile>(new LockFile(fd, path, at_end));
    }
    Sys().close(fd);
    if (!backoff.Wait()) break;
  }
  return Status(StatusCode::kFailedPrecondition, "'" + path + "' is locked by another process")
      .WithPath(path);
}

bool LockFile::IsHeld(const std::string& path) {
  const int fd = Sys().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return errno != ENOENT;
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  // An error: a file system without locks, where nobody holds one.
  const bool held = fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
  Sys().close(fd);
  return held;
}

LockFile::~LockFile() {
  // While it is locked: later the name may be somebody else's. A forked child has no say.
  if (at_end_ == AtEnd::kRemoved && getpid() == owner_) Sys().unlink(path_.c_str());
  Sys().close(fd_);
}

}  // namespace dsckpt::io
