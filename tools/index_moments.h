#ifndef DSCKPT_TOOLS_INDEX_MOMENTS_H_
#define DSCKPT_TOOLS_INDEX_MOMENTS_H_

#include "dsckpt/analysis.h"
#include "dsckpt/tensor_statistics.h"

namespace dsckpt::tools {

/// Moments from what an index says of a tensor of `count` elements. It has the sum of squares, from
/// which deviations follow less exactly than from the elements.
TensorMoments IndexMoments(const TensorStatistics& statistics, uint64_t count);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_INDEX_MOMENTS_H_
