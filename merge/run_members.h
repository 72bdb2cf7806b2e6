#ifndef DSCKPT_MERGE_RUN_MEMBERS_H_
#define DSCKPT_MERGE_RUN_MEMBERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "merge/inputs.h"

// The checkpoints of a run, whatever wrote them: directories with a manifest, single files, and
// models as Hugging Face tools lay them out.

namespace dsckpt::merge {

/// An entry of a run that can be a checkpoint by its name.
struct RunMember {
  std::string name;
  Operand operand;
};

struct RunMembers {
  std::vector<RunMember> members;  ///< By name.
  /// Paths of the other entries, each with the reason.
  std::vector<std::pair<std::string, std::string>> skipped;
};

/// Looks at names only. Errors: those of the file system.
Result<RunMembers> ListMembers(const std::string& run);

/// The step of a checkpoint that stands for an operand, and what tells it: as Checkpoint says, or
/// else, for a model, the name of its directory.
struct MemberStep {
  std::optional<int64_t> step;
  StepSource source = StepSource::kUnknown;
};
MemberStep StepOf(const Checkpoint& checkpoint, const Operand& operand);

/// Whether all files that a manifest names stand with their sizes; OK without a manifest.
/// kIncomplete names the first that does not.
Status CheckStands(const Checkpoint& checkpoint);

/// "RUN@WHAT" in its two parts; nothing where `path` is not of this form, or stands for itself.
struct RunAndChoice {
  std::string run;
  std::string choice;
};
std::optional<RunAndChoice> SplitChoice(const std::string& path);

/// The checkpoint of a run that a choice means: a step, "latest", or "-N" for the N-th from the end
/// in the order of steps, what training left behind not counted. kInvalidArgument: no such choice;
/// kNotFound: no such checkpoint, with the steps that are next to it.
Result<Operand> ChooseMember(const RunAndChoice& chosen);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_RUN_MEMBERS_H_
