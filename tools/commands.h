#ifndef DSCKPT_TOOLS_COMMANDS_H_
#define DSCKPT_TOOLS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/console.h"

namespace dsckpt::tools {

/// A command as main() sees it: its parser, and what to do once that has parsed. `run` returns the
/// exit code.
struct Command {
  CLI::App* app;
  std::function<int(Console&)> run;
};

Command AddInspect(CLI::App& root);
Command AddVerify(CLI::App& root);
Command AddImport(CLI::App& root);
Command AddExport(CLI::App& root);
Command AddMerge(CLI::App& root);
Command AddConvert(CLI::App& root);
Command AddList(CLI::App& root);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_COMMANDS_H_
