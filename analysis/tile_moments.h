#ifndef DSCKPT_ANALYSIS_TILE_MOMENTS_H_
#define DSCKPT_ANALYSIS_TILE_MOMENTS_H_

#include <cstddef>
#include <span>

#include "dsckpt/analysis.h"
#include "dsckpt/dtype.h"

// The moments of one tile of a tensor, and how they join.

namespace dsckpt {

/// For numerics::PairwiseTree.
inline TensorMoments Joined(const TensorMoments& left, const TensorMoments& right) {
  return left.With(right);
}

namespace analysis {

/// Of whole elements that begin with a block of the tensor. REQUIRES: HasStatistics(dtype.code).
TensorMoments MomentsOfTile(const DTypeInfo& dtype, std::span<const std::byte> tile);

}  // namespace analysis
}  // namespace dsckpt

#endif  // DSCKPT_ANALYSIS_TILE_MOMENTS_H_
