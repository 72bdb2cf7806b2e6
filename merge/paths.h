#ifndef DSCKPT_MERGE_PATHS_H_
#define DSCKPT_MERGE_PATHS_H_

#include <chrono>
#include <string>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "io/path.h"

// Paths as a caller gives them, and what stands there.

namespace dsckpt::merge {

/// How checkpoints are opened here: nobody waits for a file system that lags.
inline const CheckpointOptions kAtOnce{.file = {.map = false},
                                       .retry = std::chrono::milliseconds(0)};
/// Likewise, by their indexes alone: OpenOptions::ignore_header.
inline const CheckpointOptions kWithoutHeaders{.file = {.map = false, .ignore_header = true},
                                               .retry = std::chrono::milliseconds(0)};

using io::IsDirectory;
/// Anything of that name, a directory too; links are followed.
bool FileExists(const std::string& path);
/// A directory with a manifest; other directories are taken for run directories.
bool IsCheckpointDirectory(const std::string& path);

/// `path` from the root on, without ".", ".." and a slash behind it; links are not looked at.
/// kIoError: there is no current directory.
Result<std::string> AbsolutePath(const std::string& path);
/// `path` where its links lead; empty where nothing stands.
std::string CanonicalPath(const std::string& path);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_PATHS_H_
