#ifndef DSCKPT_RUN_LAYOUT_H_
#define DSCKPT_RUN_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/export.h"

// The names in a run directory and in a checkpoint's directory (spec/commit.md, "Files"). These
// functions make and parse names. They touch no file and are thread-safe.

namespace DSCKPT_EXPORT dsckpt {

/// The step of a checkpoint of which nothing says the step, such as an imported file.
inline constexpr int64_t kUnknownStep = -1;

/// The file that makes a directory a checkpoint, once the directory holds it.
inline constexpr std::string_view kManifestName = "dsckpt.manifest";
/// Returns the name of part `part`, from 0, of a manifest whose pieces are in several files:
/// kManifestName, a dot, and the number in five digits. REQUIRES: part < kMaxManifestParts.
std::string ManifestPartName(uint32_t part);
/// Returns whether a file in a checkpoint's directory can be a part of a manifest by its name:
/// whether it is ManifestPartName() of some part.
bool IsManifestPartName(std::string_view name);
/// The file of a run directory that names the checkpoint to resume from.
inline constexpr std::string_view kLatestName = "latest";

/// Returns the default name of a checkpoint's directory: "step-" and the step in at least ten
/// digits, so that names sort as steps do.
std::string DefaultCheckpointName(int64_t step);
/// Returns the default name of a rank's shard: "shard-", the rank in at least five digits, and
/// ".dsckpt".
std::string DefaultShardName(int rank);
/// Returns whether DefaultShardName() makes this name for some rank.
bool IsDefaultShardName(std::string_view name);

/// Returns the checkpoint that the text of `latest` names: the text without white space at either
/// end. Returns nothing where that is no name that a checkpoint may have. What it names need not
/// exist.
std::optional<std::string> ParseLatest(std::string_view text);
/// Returns the text of `latest` that names a checkpoint: the name and a newline.
std::string LatestText(std::string_view name);

/// Returns whether an entry of a run directory is never taken for a checkpoint, whatever it holds:
/// its name is empty, begins with a dot, is `latest`, or contains one of the marks that only a
/// commit makes (".incomplete-", ".removed-", ".replaced-"). Writers refuse such names, in any case
/// of letters, and those that mean something else on another system.
bool IsHiddenRunEntry(std::string_view entry);

/// Returns the step that the name of a checkpoint says: the last run of digits that follows "step",
/// "step-", "step_", "checkpoint-" or "iter_". No letter or digit may stand directly before that
/// word or directly behind the digits. Returns nothing where the name says no step.
std::optional<int64_t> StepInName(std::string_view name);

}  // namespace dsckpt

#endif  // DSCKPT_RUN_LAYOUT_H_
