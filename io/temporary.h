#ifndef DSCKPT_IO_TEMPORARY_H_
#define DSCKPT_IO_TEMPORARY_H_

// Files that have not got their name yet: created beside it, locked while somebody writes them, and
// cleared away when nobody does.

#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/status.h"
#include "io/error.h"
#include "io/target.h"

namespace dsckpt::io {

/// Whether `name` is that of a temporary which OutputFile, WriteSmallFile() or WriteValueFile() has
/// made: ".dsckpt-<16 hex: hash of the final base name>-<16 hex: random>.tmp". It is short enough
/// for any final name, and tells of which one it is without being opened.
bool IsTemporaryName(std::string_view name);

/// A fresh file beside its target, locked (flock) for as long as `fd` or a duplicate is open.
struct Temporary {
  std::string path;
  int fd = -1;
  bool direct = false;
};

/// `direct`: as asked, or false with a warning where the file system refuses O_DIRECT.
Result<Temporary> CreateTemporary(const OutputTarget& target, bool direct, const Warn& warn);

/// Removes temporaries of the same target that nobody holds locked. Best effort.
void RemoveOrphans(const OutputTarget& target);

/// The temporary of a save to the same target that a process, this one or another, is at work on.
std::optional<std::string> FindSaveUnderWay(const OutputTarget& target);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_TEMPORARY_H_
