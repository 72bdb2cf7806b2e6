#ifndef DSCKPT_IO_ERROR_H_
#define DSCKPT_IO_ERROR_H_

// Errors of system calls as statuses, and the words for what stands at a path.

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "dsckpt/status.h"

namespace dsckpt::io {

/// The status for a failed system call: "cannot <doing> '<path>': <errno text>", with code by errno
/// (ENOENT kNotFound; EACCES, EPERM, EROFS kPermissionDenied; ENOSPC, EDQUOT, EFBIG kNoSpace;
/// ENOMEM kOutOfMemory; else kIoError).
Status ErrnoStatus(int error_number, std::string_view doing, std::string_view path);

/// What stands at a path, with its article: "a directory".
const char* FileKind(mode_t mode);

/// Receives one-time warnings about fall-backs (ring, registration, O_DIRECT). May be empty. Called
/// from any thread.
using Warn = std::function<void(Status)>;

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_ERROR_H_
