#ifndef DSCKPT_MERGE_PATHS_H_
#define DSCKPT_MERGE_PATHS_H_

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"

// Paths as a caller gives them, and what stands there.

namespace dsckpt::merge {

/// How checkpoints are opened here: nobody waits for a file system that lags.
inline const CheckpointOptions kAtOnce{.file = {.map = false},
                                       .retry = std::chrono::milliseconds(0)};

/// The file that makes a directory a checkpoint.
inline constexpr const char* kManifestName = "dsckpt.manifest";

bool IsDirectory(const std::string& path);
/// Anything of that name, a directory too; links are followed.
bool FileExists(const std::string& path);
/// A directory with a manifest; other directories are taken for run directories.
bool IsCheckpointDirectory(const std::string& path);
/// The names in a directory, in byte order. Whatever keeps it from being read is an error.
Result<std::vector<std::string>> EntriesOf(const std::string& directory);

/// `path` from the root on, without ".", ".." and a slash behind it; links are not looked at.
/// kIoError: there is no current directory.
Result<std::string> AbsolutePath(const std::string& path);
/// The last name of a path that AbsolutePath() made; empty of the root.
std::string LastName(const std::string& path);
/// `path` where its links lead; empty where nothing stands.
std::string CanonicalPath(const std::string& path);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_PATHS_H_
