#ifndef DSCKPT_TENSOR_STATISTICS_H_
#define DSCKPT_TENSOR_STATISTICS_H_

#include <cstdint>

#include "dsckpt/export.h"

namespace DSCKPT_EXPORT dsckpt {

/// What the elements of one tensor are, in numbers: spec/format.md, "Statistics". Complex elements
/// count by their modulus.
///
/// The sums are the same bits whatever wrote them: the order of additions is part of the format.
struct TensorStatistics {
  /// How many elements are NaN, an infinity, and 0 or -0.
  uint64_t nan = 0, inf = 0, zero = 0;
  /// The least and the greatest of the finite elements; -0 is less than 0. NaN when there is none.
  double min = 0, max = 0;
  /// The sum of the finite elements, and that of their squares; 0 when there is none.
  double sum = 0, sum_squares = 0;
};

}  // namespace dsckpt

#endif  // DSCKPT_TENSOR_STATISTICS_H_
