#ifndef DSCKPT_FORMAT_FILE_NAMES_H_
#define DSCKPT_FORMAT_FILE_NAMES_H_

#include <cstddef>
#include <string_view>

// Names of files that a manifest may hold; spec/format.md, "Shard names".

namespace dsckpt::format {

/// The manifest's file name inside a checkpoint directory.
inline constexpr std::string_view kManifestName = "dsckpt.manifest";

/// As long as a file name can be, in bytes.
inline constexpr size_t kMaxFileName = 255;

/// 1 to 255 bytes of UTF-8 without '/' and NUL, neither "." nor "..".
bool IsBareFileName(std::string_view name);

/// Does the name hold ".incomplete-", ".removed-" or ".replaced-", with or without an id behind it?
/// So a commit calls what it has not finished or leaves behind (spec/commit.md, "Files").
bool HasCommitMark(std::string_view name);

/// May a shard be called so? A bare file name that is not hidden (a leading dot), has no commit
/// mark and is neither `latest` nor `dsckpt.manifest`.
bool IsShardName(std::string_view name);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FILE_NAMES_H_
