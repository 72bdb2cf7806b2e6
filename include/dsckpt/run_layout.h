#ifndef DSCKPT_RUN_LAYOUT_H_
#define DSCKPT_RUN_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/export.h"

// The names in a run directory and in a checkpoint's directory (spec/commit.md, "Files"). Nothing
// here touches a file.

namespace DSCKPT_EXPORT dsckpt {

/// A step that nothing says: of files that were imported.
inline constexpr int64_t kUnknownStep = -1;

/// "step-" and the step in at least ten digits, so that names sort as steps do.
std::string DefaultCheckpointName(int64_t step);
/// "shard-", the rank in at least five digits, ".dsckpt".
std::string DefaultShardName(int rank);
/// Whether DefaultShardName() makes this name for some rank.
bool IsDefaultShardName(std::string_view name);

/// Whether an entry of a run directory is never taken for a checkpoint, whatever it holds: its name
/// begins with a dot, is `latest`, or holds one of the marks that only a commit makes. Writers
/// refuse such names.
bool IsHiddenRunEntry(std::string_view entry);

/// The step that a name says: the digits behind the last "step", "step-", "step_", "checkpoint-" or
/// "iter_" that no letter or digit precedes, where no letter or digit follows them.
std::optional<int64_t> StepInName(std::string_view name);

}  // namespace dsckpt

#endif  // DSCKPT_RUN_LAYOUT_H_
