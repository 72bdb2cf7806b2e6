#ifndef DSCKPT_TOOLS_TERMINAL_COMPLETION_H_
#define DSCKPT_TOOLS_TERMINAL_COMPLETION_H_

#include <string>

#include "tools/terminal/help.h"

namespace dsckpt::tools {

/// A script for a shell: commands, options, and the values of options that have few; everything
/// else is completed as a file. REQUIRES: `shell` is "bash", "zsh" or "fish".
std::string CompletionScript(const ProgramPages& pages, const std::string& shell);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_COMPLETION_H_
