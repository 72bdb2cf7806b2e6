#include "analysis/tile_moments.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "numerics/statistics.h"

namespace dsckpt {
namespace {

/// -0 is less than 0.
bool IsBelow(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

/// Near the mean of a tile: that of its first block. As a float, it leaves most differences exact.
double ShiftOf(DType dtype, size_t element_bytes, std::span<const std::byte> tile) {
  numerics::ChunkStatistics block(dtype);
  block.Add(tile.first(std::min(tile.size(), numerics::kBlockElements * element_bytes)));
  const TensorStatistics found = block.Finish();
  const uint64_t count = tile.size() / element_bytes;
  const uint64_t finite =
      std::min<uint64_t>(count, numerics::kBlockElements) - found.nan - found.inf;
  if (finite == 0 || !std::isfinite(found.sum)) return 0;
  const double mean = found.sum / static_cast<double>(finite);
  return std::fabs(mean) <= FLT_MAX ? static_cast<double>(static_cast<float>(mean)) : mean;
}

}  // namespace

TensorMoments analysis::MomentsOfTile(const DTypeInfo& dtype, std::span<const std::byte> tile) {
  const double shift = ShiftOf(dtype.code, dtype.block_bytes, tile);
  numerics::ChunkStatistics sums(dtype.code, numerics::UsableKernels().front(), shift);
  sums.Add(tile);
  const TensorStatistics found = sums.Finish();
  TensorMoments moments;
  moments.count = tile.size() / dtype.block_bytes;
  moments.nan = found.nan;
  moments.inf = found.inf;
  moments.zero = found.zero;
  const auto finite = static_cast<double>(moments.finite());
  if (finite == 0) return moments;
  moments.min = found.min;
  moments.max = found.max;
  if (found.min == found.max) {  // Rounding would make a constant vary.
    moments.mean = found.min;
    return moments;
  }
  moments.mean = shift + found.sum / finite;
  moments.squared_deviations = std::max(0.0, found.sum_squares - found.sum * found.sum / finite);
  return moments;
}

double TensorMoments::AbsMax() const { return std::max(std::fabs(min), std::fabs(max)); }

double TensorMoments::Std() const {
  return finite() == 0 ? 0 : std::sqrt(squared_deviations / static_cast<double>(finite()));
}

double TensorMoments::Norm() const {
  return std::sqrt(squared_deviations + static_cast<double>(finite()) * (mean * mean));
}

double TensorMoments::Rms() const {
  return finite() == 0 ? 0 : Norm() / std::sqrt(static_cast<double>(finite()));
}

TensorMoments TensorMoments::With(const TensorMoments& other) const {
  TensorMoments both = finite() == 0 ? other : *this;
  both.count = count + other.count;
  both.nan = nan + other.nan;
  both.inf = inf + other.inf;
  both.zero = zero + other.zero;
  if (finite() == 0 || other.finite() == 0) return both;
  if (IsBelow(other.min, both.min)) both.min = other.min;
  if (IsBelow(both.max, other.max)) both.max = other.max;
  const double share = static_cast<double>(other.finite()) / static_cast<double>(both.finite());
  const double distance = other.mean - mean;
  both.mean = mean + distance * share;
  both.squared_deviations = (squared_deviations + other.squared_deviations) +
                            distance * distance * (static_cast<double>(finite()) * share);
  return both;
}

}  // namespace dsckpt
