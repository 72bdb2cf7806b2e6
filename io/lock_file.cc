#include "io/lock_file.h"

#include <fcntl.h>

#include <cerrno>
#include <thread>

#include "io/error.h"
#include "io/syscalls.h"

namespace dsckpt::io {

Result<std::unique_ptr<LockFile>> LockFile::Take(const std::string& path,
                                                 std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const int fd = Sys().open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  std::unique_ptr<LockFile> lock(new LockFile(fd));
  while (true) {
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return lock;
    const bool held = errno == EAGAIN || errno == EACCES;
    if (!held && errno != EINTR) return lock;
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return Status(StatusCode::kFailedPrecondition, "'" + path + "' is locked by another process")
      .WithPath(path);
}

LockFile::~LockFile() { Sys().close(fd_); }

}  // namespace dsckpt::io
