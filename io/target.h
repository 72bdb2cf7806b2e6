#ifndef DSCKPT_IO_TARGET_H_
#define DSCKPT_IO_TARGET_H_

// Where a new file is to appear: links are followed, the mode of what stands there is kept.

#include <sys/types.h>

#include <optional>
#include <string>

#include "dsckpt/status.h"

namespace dsckpt::io {

/// Where a new file is to appear, symbolic links followed. Absolute, so that a chdir() between
/// creation and publication changes nothing.
struct OutputTarget {
  std::string shown;  ///< As the caller wrote it, for messages.
  std::string directory;
  std::string base;
  std::optional<mode_t> mode;  ///< Permission bits of the regular file that stands there.

  std::string path() const { return directory + "/" + base; }
};

/// Errors: an empty path, a directory or anything else but a regular file there
/// (kInvalidArgument), a missing directory (kNotFound), a loop of links.
Result<OutputTarget> ResolveTarget(const std::string& path);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_TARGET_H_
