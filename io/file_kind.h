#ifndef DSCKPT_IO_FILE_KIND_H_
#define DSCKPT_IO_FILE_KIND_H_

// "a directory", for messages.

#include <sys/stat.h>

namespace dsckpt::io {

/// With its article, for messages: "a directory".
inline const char* FileKind(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "no regular file";
}

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_FILE_KIND_H_
