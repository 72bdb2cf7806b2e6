#include "io/error.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace dsckpt::io {
namespace {

StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOENT:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return StatusCode::kNoSpace;
    case ENOMEM:
      return StatusCode::kOutOfMemory;
    default:
      return StatusCode::kIoError;
  }
}

}  // namespace

Status ErrnoStatus(int error_number, std::string_view doing, std::string_view path) {
  std::string message = "cannot ";
  message.append(doing).append(" '").append(path).append("': ");
  message += std::generic_category().message(error_number);
  return Status(CodeOf(error_number), std::move(message)).WithErrno(error_number).WithPath(path);
}

const char* FileKind(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "no regular file";
}

}  // namespace dsckpt::io
