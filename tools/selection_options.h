#ifndef DSCKPT_TOOLS_SELECTION_OPTIONS_H_
#define DSCKPT_TOOLS_SELECTION_OPTIONS_H_

#include "dsckpt/merge.h"
#include "tools/terminal/command_line.h"

// The options that choose tensors.

namespace dsckpt::tools {

/// --filter and --exclude, each with its line of help.
void AddNameFilter(CommandLine& line, NameFilter& names, const char* filter_help,
                   const char* exclude_help);

/// --filter, --exclude, --strip-prefix, --rename and --dtype.
void AddSelectionOptions(CommandLine& line, TensorSelection& selection);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_SELECTION_OPTIONS_H_
