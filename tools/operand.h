#ifndef DSCKPT_TOOLS_OPERAND_H_
#define DSCKPT_TOOLS_OPERAND_H_

#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"
#include "merge/inputs.h"

// What a path on the command line stands for.

namespace dsckpt::tools {

class Console;

using merge::Inputs;
using merge::Operand;
using merge::OperandKind;
using merge::ToOperand;

/// "manifest", "attribute", "metadata" or "name"; null where nothing tells the step.
const char* StepSourceText(StepSource source);

/// Says which checkpoint of a run was taken; nothing where `latest` is empty.
void NoteLatest(Console& console, const std::string& run, const std::string& latest);

/// Says which entries of runs are left out, and why.
void NoteSkipped(Console& console, const Trajectory& run);

/// merge::OpenInputs(); a note names the checkpoint that is taken of a run.
/// `map`: files are mapped, which spares a copy.
Result<Inputs> OpenInputs(Console& console, const std::vector<std::string>& paths,
                          bool map = false);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_OPERAND_H_
