#ifndef DSCKPT_IO_TARGET_H_
#define DSCKPT_IO_TARGET_H_

// Where a new file is to appear: links, modes, its lock.

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "dsckpt/status.h"
#include "io/error.h"

namespace dsckpt::io {

/// Where a new file is to appear, symbolic links followed. Absolute, so that a chdir() between
/// creation and publication changes nothing.
struct Target {
  std::string shown;  ///< As the caller wrote it, for messages.
  std::string directory;
  std::string base;
  std::optional<mode_t> mode;  ///< Permission bits of the regular file that stands there.

  std::string path() const { return directory + "/" + base; }
};

/// Errors: an empty path, a directory or anything else but a regular file there
/// (kInvalidArgument), a missing directory (kNotFound), a loop of links.
Result<Target> ResolveTarget(const std::string& path);

/// A fresh file beside its target, locked (flock) for as long as `fd` or a duplicate is open.
struct Temporary {
  std::string path;
  int fd = -1;
  bool direct = false;
};

/// `direct`: as asked, or false with a warning where the file system refuses O_DIRECT.
Result<Temporary> CreateTemporary(const Target& target, bool direct, const Warn& warn);

/// Removes temporaries of the same target that nobody holds locked. Best effort.
void RemoveOrphans(const Target& target);

/// The temporary of a save to the same target that a process, this one or another, is at work on.
std::optional<std::string> FindSaveUnderWay(const Target& target);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_TARGET_H_
