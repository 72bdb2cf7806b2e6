#include "tools/index_moments.h"

#include <algorithm>

namespace dsckpt::tools {

TensorMoments IndexMoments(const TensorStatistics& statistics, uint64_t count) {
  TensorMoments moments;
  moments.count = count;
  moments.nan = statistics.nan;
  moments.inf = statistics.inf;
  moments.zero = statistics.zero;
  const auto finite = static_cast<double>(moments.finite());
  if (finite == 0) return moments;
  moments.min = statistics.min;
  moments.max = statistics.max;
  moments.mean = statistics.sum / finite;
  moments.squared_deviations =
      std::max(0.0, statistics.sum_squares - statistics.sum * moments.mean);
  return moments;
}

}  // namespace dsckpt::tools
