#include "dsckpt/operand.h"

#include "merge/inputs.h"
#include "merge/run_members.h"

namespace dsckpt {

Result<std::string> FindCheckpoint(const std::string& path) {
  const auto chosen = merge::SplitChoice(path);
  if (!chosen) return path;
  DSCKPT_ASSIGN_OR_RETURN(merge::Operand found, merge::ChooseMember(*chosen));
  return found.path;
}

Result<Checkpoint> OpenCheckpoint(const std::string& path, const CheckpointOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(const merge::Operand operand, merge::ToOperand(path));
  DSCKPT_ASSIGN_OR_RETURN(merge::Inputs inputs, merge::OpenOperand(operand, options));
  return std::move(inputs.checkpoint);
}

}  // namespace dsckpt
