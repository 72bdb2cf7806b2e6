#ifndef DSCKPT_RUN_LAYOUT_H_
#define DSCKPT_RUN_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The names in a run directory and in a checkpoint's directory (spec/commit.md, "Files"). Nothing
// here touches a file.

namespace dsckpt {

/// A step that nothing says: of files that were imported.
inline constexpr int64_t kUnknownStep = -1;

/// The file that makes a directory a checkpoint, once it holds it.
inline constexpr std::string_view kManifestName = "dsckpt.manifest";
/// The file of a run directory that names the checkpoint to resume from.
inline constexpr std::string_view kLatestName = "latest";

/// "step-" and the step in at least ten digits, so that names sort as steps do.
std::string DefaultCheckpointName(int64_t step);
/// "shard-", the rank in at least five digits, ".dsckpt".
std::string DefaultShardName(int rank);
/// Whether DefaultShardName() makes this name for some rank.
bool IsDefaultShardName(std::string_view name);

/// What the text of `latest` names: the text without white space at either end, where that is a
/// name that a checkpoint may have; else nothing. What it names need not stand.
std::optional<std::string> ParseLatest(std::string_view text);
/// The text of `latest` that names a checkpoint: the name and a newline.
std::string LatestText(std::string_view name);

/// Whether an entry of a run directory is never taken for a checkpoint, whatever it holds: its name
/// begins with a dot, is `latest`, or holds one of the marks that only a commit makes. Writers
/// refuse such names.
bool IsHiddenRunEntry(std::string_view entry);

/// The step that a name says: the digits behind the last "step", "step-", "step_", "checkpoint-" or
/// "iter_" that no letter or digit precedes, where no letter or digit follows them.
std::optional<int64_t> StepInName(std::string_view name);

}  // namespace dsckpt

#endif  // DSCKPT_RUN_LAYOUT_H_
