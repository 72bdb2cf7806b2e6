#ifndef DSCKPT_TRAJECTORY_STEP_RULE_H_
#define DSCKPT_TRAJECTORY_STEP_RULE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/status.h"
#include "dsckpt/tree.h"
#include "merge/run_members.h"
#include "merge/select/rename.h"

// What tells the step of a checkpoint, where the caller has an opinion (TrajectoryOptions).

namespace dsckpt::trajectory {

class StepRule {
 public:
  /// "auto", "attr:KEY", "meta:KEY" or "name:REGEX". kInvalidArgument.
  static Result<StepRule> Parse(const std::string& text);

  /// `path`: of the checkpoint; `attributes`: by name. Errors: an expression that takes too long.
  Result<merge::MemberStep> StepOf(
      const Checkpoint& checkpoint, const merge::Operand& operand,
      const std::vector<std::pair<std::string, Value>>& attributes) const;

 private:
  enum class Kind { kAuto, kMember, kName };
  Kind kind_ = Kind::kAuto;
  StepSource source_ = StepSource::kUnknown;
  std::string key_;
  std::optional<merge::Rename> expression_;
};

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_STEP_RULE_H_
