#ifndef DSCKPT_FORMAT_FILE_NAMES_H_
#define DSCKPT_FORMAT_FILE_NAMES_H_

// Which names a shard may have: a manifest that holds others is refused (spec/format.md, "Shard
// names"). Writers ask the same function (run/run_layout.h).

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/run_layout.h"

namespace dsckpt::format {

/// What a commit puts behind the name of what it has not finished, is removing, or has put aside,
/// with the attempt's id behind it (spec/commit.md, "Files").
inline constexpr std::string_view kCommitMarks[] = {".incomplete-", ".removed-", ".replaced-"};

/// As long as a file name can be, in bytes.
inline constexpr size_t kMaxFileName = 255;

/// `name` with 'a' to 'z' for 'A' to 'Z': names that are equal so are one file on some systems.
std::string FoldCase(std::string_view name);
/// A name, in lower case, that two of `names` have so.
std::optional<std::string> FindSameFile(std::span<const std::string_view> names);

/// Why nothing that a commit wrote can be called so, as the end of a sentence that begins with the
/// name; null where it can: 1 to 255 bytes of UTF-8 that do not begin with a dot and are none of
/// the names that a commit uses. What stands in a run is held to this.
const char* WhyNoEntryName(std::string_view name);

/// Why no shard may be called so, as the end of a sentence that begins with the name: "is empty".
/// Null where one may: 1 to 255 bytes of UTF-8 that do not begin with a dot, are none of the names
/// that a commit uses, whatever their case, and mean a file of this directory on every system.
const char* WhyNoShardName(std::string_view name);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FILE_NAMES_H_
