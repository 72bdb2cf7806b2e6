#ifndef DSCKPT_TOOLS_COMMANDS_H_
#define DSCKPT_TOOLS_COMMANDS_H_

// The commands.

#include <functional>

#include "tools/terminal/command_line.h"
#include "tools/terminal/console.h"

namespace dsckpt::tools {

/// A command as main() sees it: what it takes, and what to do once that has been parsed. `run`
/// returns the exit code.
struct Command {
  CommandLine line;
  std::function<int(Console&)> run;
};

Command AddInspect(Program& program);
Command AddVerify(Program& program);
Command AddImport(Program& program);
Command AddExport(Program& program);
Command AddMerge(Program& program);
Command AddConvert(Program& program);
Command AddList(Program& program);
Command AddHash(Program& program);
Command AddTrace(Program& program);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_COMMANDS_H_
