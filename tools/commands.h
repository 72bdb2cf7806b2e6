#ifndef DSCKPT_TOOLS_COMMANDS_H_
#define DSCKPT_TOOLS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "tools/console.h"

namespace dsckpt::tools {

/// A command as main() sees it: its parser, and what to do once that has parsed. `run` returns the
/// exit code.
struct Command {
  CLI::App* app;
  std::function<int(Console&)> run;
};

/// For options that count: digits alone.
inline const CLI::Validator CountFrom0(
    [](std::string& text) {
      const bool digits = !text.empty() && text.size() <= 18 &&
                          text.find_first_not_of("0123456789") == std::string::npos;
      return digits ? std::string() : "takes a whole number from 0, not '" + text + "'";
    },
    "", "count");

Command AddInspect(CLI::App& root);
Command AddVerify(CLI::App& root);
Command AddImport(CLI::App& root);
Command AddExport(CLI::App& root);
Command AddMerge(CLI::App& root);
Command AddConvert(CLI::App& root);
Command AddList(CLI::App& root);
Command AddHash(CLI::App& root);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_COMMANDS_H_
