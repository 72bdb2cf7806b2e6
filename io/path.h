#ifndef DSCKPT_IO_PATH_H_
#define DSCKPT_IO_PATH_H_

// Paths. The library does without <filesystem>, which takes longer to compile than most of its
// files.

#include <string>
#include <string_view>

#include "dsckpt/status.h"

namespace dsckpt::io {

/// `path` from the root, so that a later chdir() changes nothing; otherwise as it is.
/// kInvalidArgument: an empty path, or the current directory is gone.
Result<std::string> AbsolutePath(const std::string& path);
/// What follows the last slash.
std::string_view BaseName(std::string_view path);
/// Without the slashes and "/." at its end.
std::string_view WithoutTrailingSlashes(std::string_view path);
/// Whether it names a directory, links followed. False where that cannot be told.
bool IsDirectory(const std::string& path);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_PATH_H_
