#include "tools/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace dsckpt::tools {
namespace {

Status Unwritable(const std::string& path, const char* what, int error) {
  const StatusCode code = error == ENOSPC || error == EDQUOT ? StatusCode::kNoSpace
                          : error == ENOENT                  ? StatusCode::kNotFound
                                                             : StatusCode::kIoError;
  return Status(code, std::string("cannot ") + what + " " + path).WithErrno(error).WithPath(path);
}

}  // namespace

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return Unwritable(path, "create", errno);
  // As any other new file.
  const mode_t mask = umask(0);
  umask(mask);
  (void)fchmod(fd, 0666 & ~mask);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), fd));
}

OutputFile::~OutputFile() {
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::Failed(const char* what) const { return Unwritable(path_, what, errno); }

Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status OutputFile::Publish() {
  if (fsync(fd_) != 0) return Failed("sync");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("rename to");
  temporary_.clear();
  return {};
}

}  // namespace dsckpt::tools
