#ifndef DSCKPT_TOOLS_MERGE_OUTPUT_H_
#define DSCKPT_TOOLS_MERGE_OUTPUT_H_

// Where merged files go.

#include <atomic>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "tools/merge_plan.h"
#include "tools/merge_tree.h"
#include "tools/metadata.h"
#include "tools/terminal/console.h"

namespace dsckpt::tools {

/// Everything a merge writes from.
struct MergeInput {
  const Checkpoint& checkpoint;
  const MergePlan& plan;
  const MergedTree& tree;
  const Metadata& metadata;  ///< goes into every file
  bool verify = true;
  std::atomic<uint64_t>* overflows = nullptr;  ///< elements that a cast makes infinite
};

/// Where it goes.
struct MergeTarget {
  std::string path;
  bool directory = false;    ///< several files with an index of them; else one file
  bool safetensors = false;  ///< as Hugging Face tools load; else dsckpt
  bool force = false;        ///< replace what stands there
};

/// Refuses an output that is, or holds, one of the `inputs` under any name; that is of another kind
/// than what is to be written; or that exists without --force. Call before anything expensive.
Status CheckMergeTarget(const MergeTarget& target, const std::vector<std::string>& inputs);

/// Writes all output files; nothing stands under the target's name until all of it does. Shows
/// progress. An interrupt leaves nothing behind: kCancelled.
Status WriteMerged(Console& console, const MergeInput& input, const MergeTarget& target);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_MERGE_OUTPUT_H_
