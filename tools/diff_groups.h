#ifndef DSCKPT_TOOLS_DIFF_GROUPS_H_
#define DSCKPT_TOOLS_DIFF_GROUPS_H_

#include <string>

#include "dsckpt/analysis.h"
#include "tools/rows.h"

// How groups of tensors differ.

namespace dsckpt::tools {

/// A row for each group of tensors of which one is not equal, as GroupOf() says; with `all` for
/// equal ones too. `tolerant`: elements that are not close were counted.
Rows GroupDiffs(const Checkpoint& a, const Checkpoint& b, const DiffReport& report,
                const std::string& by, bool all, bool tolerant);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_DIFF_GROUPS_H_
