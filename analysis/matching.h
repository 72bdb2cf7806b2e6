#ifndef DSCKPT_ANALYSIS_MATCHING_H_
#define DSCKPT_ANALYSIS_MATCHING_H_

#include <cstdint>
#include <vector>

#include "dsckpt/analysis.h"
#include "dsckpt/status.h"

// Which tensors of two checkpoints belong together, and what indexes alone say of them.

namespace dsckpt::analysis {

/// A tensor of either checkpoint. Its state is final unless `undecided`: then dtype or bytes may
/// differ, and its elements are to be compared.
struct Match {
  TensorDiff diff;
  bool undecided = false;
};

/// All tensors, in the order of names. Digests of tensors on one side only, which may have moved,
/// are computed where no index has them: `read_bytes` grows.
Result<std::vector<Match>> MatchTensors(const Checkpoint& a, const Checkpoint& b,
                                        const DiffOptions& options, uint64_t& read_bytes);

}  // namespace dsckpt::analysis

#endif  // DSCKPT_ANALYSIS_MATCHING_H_
