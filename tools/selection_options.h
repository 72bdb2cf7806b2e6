#ifndef DSCKPT_TOOLS_SELECTION_OPTIONS_H_
#define DSCKPT_TOOLS_SELECTION_OPTIONS_H_

#include <optional>

#include "dsckpt/dtype.h"
#include "dsckpt/merge.h"
#include "tools/terminal/command_line.h"

// The options that choose tensors.

namespace dsckpt::tools {

/// --filter and --exclude, each with its line of help.
void AddNameFilter(CommandLine& line, NameFilter& names, const char* filter_help,
                   const char* exclude_help);

/// --filter, --exclude, --strip-prefix, --rename and --dtype.
void AddSelectionOptions(CommandLine& line, TensorSelection& selection);

/// --dtype: F16, BF16, F32 or F64.
void AddDTypeOption(CommandLine& line, std::optional<DType>& dtype, const char* help);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_SELECTION_OPTIONS_H_
