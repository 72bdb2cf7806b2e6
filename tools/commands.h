#ifndef DSCKPT_TOOLS_COMMANDS_H_
#define DSCKPT_TOOLS_COMMANDS_H_

// The commands.

#include <functional>
#include <string>

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
Command AddStats(Program& program);
Command AddDiff(Program& program);
Command AddTrace(Program& program);
Command AddGram(Program& program);
Command AddReport(Program& program);
Command AddAverage(Program& program);
Command AddExtract(Program& program);
Command AddCat(Program& program);
Command AddEdit(Program& program);
Command AddRollback(Program& program);
Command AddHelp(Program& program);
Command AddCompletion(Program& program);

/// For a word that is no command.
Status UnknownCommand(const ProgramPages& all, const std::string& word);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_COMMANDS_H_
