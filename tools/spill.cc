#include "tools/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

namespace dsckpt::tools {
namespace {

Status Failed(int error_number, const std::string& directory) {
  const StatusCode code = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG
                              ? StatusCode::kNoSpace
                              : StatusCode::kIoError;
  return Status(code, "no room in " + directory + " to decode compressed tensors")
      .WithErrno(error_number)
      .WithPath(directory);
}

// Not every file system has O_TMPFILE (overlay in old kernels, NFS).
int OpenNameless(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string pattern = directory + "/.dsckpt-export-XXXXXX";
  const int named = mkostemp(pattern.data(), O_CLOEXEC);
  if (named >= 0) unlink(pattern.c_str());
  return named;
}

}  // namespace

Result<std::unique_ptr<Spill>> Spill::Create(const std::string& output, uint64_t bytes) {
  std::string directory = std::filesystem::path(output).parent_path().string();
  if (directory.empty()) directory = ".";
  const int fd = OpenNameless(directory);
  if (fd < 0) return Failed(errno, directory);
  const size_t size = bytes == 0 ? 1 : static_cast<size_t>(bytes);
  int error_number = posix_fallocate(fd, 0, static_cast<off_t>(size));
  void* data = MAP_FAILED;
  if (error_number == 0) {
    data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) error_number = errno;
  }
  close(fd);
  if (error_number != 0) return Failed(error_number, directory);
  return std::unique_ptr<Spill>(new Spill(static_cast<std::byte*>(data), size));
}

Spill::~Spill() { munmap(data_, bytes_); }

}  // namespace dsckpt::tools
