#ifndef DSCKPT_FORMAT_FILE_NAMES_H_
#define DSCKPT_FORMAT_FILE_NAMES_H_

#include <cstddef>
#include <string_view>

// Names of files that a manifest may hold; spec/format.md, "Shard names".

namespace dsckpt::format {

/// The manifest's file name inside a checkpoint directory.
inline constexpr std::string_view kManifestName = "dsckpt.manifest";

/// The file in a run directory that names a checkpoint.
inline constexpr std::string_view kLatestName = "latest";

/// What a commit puts behind the name of what it has not finished, is removing, or has put aside,
/// with the attempt's id behind it (spec/commit.md, "Files").
inline constexpr std::string_view kCommitMarks[] = {".incomplete-", ".removed-", ".replaced-"};

/// As long as a file name can be, in bytes.
inline constexpr size_t kMaxFileName = 255;

/// 1 to 255 bytes of UTF-8 without '/' and NUL, neither "." nor "..".
bool IsBareFileName(std::string_view name);

/// Does the name hold one of kCommitMarks, with or without an id behind it?
bool HasCommitMark(std::string_view name);

/// May a shard be called so? A bare file name that is not hidden (a leading dot), has no commit
/// mark and is neither `latest` nor `dsckpt.manifest`.
bool IsShardName(std::string_view name);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FILE_NAMES_H_
