#ifndef DSCKPT_MERGE_OUTPUT_H_
#define DSCKPT_MERGE_OUTPUT_H_

#include <string>
#include <vector>

#include "dsckpt/merge.h"
#include "merge/provider.h"

// Where merged files go.

namespace dsckpt::merge {

/// Refuses an output that is, or holds, one of the `inputs` under any name; that is of another kind
/// than what is to be written; that is a run's file `latest`; or that exists without
/// MergeOptions::replace. Call before anything expensive.
Status CheckOutput(const std::string& output, const MergeOptions& options,
                   const std::vector<std::string>& inputs);

/// Writes all output files; nothing stands under the output's name until all of it does.
/// kCancelled: nothing is left behind.
Status WriteOutput(MergeInput& input, const std::string& output);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_OUTPUT_H_
