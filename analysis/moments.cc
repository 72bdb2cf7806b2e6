// Moments(), tile by tile.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <deque>

#include "analysis/parallel.h"
#include "analysis/tensor_source.h"
#include "dsckpt/analysis.h"
#include "dsckpt/limits.h"
#include "numerics/statistics.h"
#include "numerics/sum_tree.h"

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

TensorMoments TileMoments(const DTypeInfo& dtype, std::span<const std::byte> tile) {
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

/// A tensor that is read, and what its tiles came to.
struct Measured {
  Measured(const Checkpoint& checkpoint, uint32_t tensor, bool verify)
      : source(checkpoint, tensor, verify) {}
  analysis::TensorSource source;
  DTypeInfo dtype;
  uint64_t bytes = 0;
  std::vector<TensorMoments> tiles;
  std::atomic<uint32_t> left = 0;
};

}  // namespace

/// For numerics::PairwiseTree.
static TensorMoments Joined(const TensorMoments& left, const TensorMoments& right) {
  return left.With(right);
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

Result<MomentsReport> Moments(const Checkpoint& checkpoint, std::span<const uint32_t> tensors,
                              const AnalysisOptions& options) {
  std::deque<Measured> measured;
  std::vector<analysis::Tile> tiles;
  for (const uint32_t tensor : tensors) {
    const LogicalTensorInfo info = checkpoint.tensor(tensor);
    Measured& each = measured.emplace_back(checkpoint, tensor, options.verify);
    each.dtype = info.dtype;
    if (!numerics::HasStatistics(info.dtype.code)) continue;
    each.bytes = info.bytes;
    const auto count = static_cast<uint32_t>((info.bytes + kChunkBytes - 1) / kChunkBytes);
    each.left = count;
    each.tiles.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t size = std::min(kChunkBytes, info.bytes - i * kChunkBytes);
      tiles.push_back({static_cast<uint32_t>(measured.size() - 1), i, size});
    }
  }
  std::atomic<uint64_t> read_bytes = 0;
  std::vector<std::vector<std::byte>> buffers(analysis::Workers(options));
  const auto work = [&](const analysis::Tile& tile, size_t worker) -> Status {
    Measured& each = measured[tile.item];
    DSCKPT_ASSIGN_OR_RETURN(const auto bytes, each.source.Read(tile.index * kChunkBytes, tile.bytes,
                                                               buffers[worker], read_bytes));
    each.tiles[tile.index] = TileMoments(each.dtype, bytes);
    if (--each.left == 0) each.source.Close();
    return {};
  };
  DSCKPT_RETURN_IF_ERROR(analysis::ForEachTile(tiles, options, work));
  MomentsReport report;
  for (const Measured& each : measured) {
    numerics::PairwiseTree<TensorMoments> tree;
    for (const TensorMoments& tile : each.tiles) tree.Push(tile);
    const bool known = numerics::HasStatistics(each.dtype.code);
    report.tensors.push_back(known ? std::optional(tree.Root()) : std::nullopt);
  }
  report.read_bytes = read_bytes;
  return report;
}

}  // namespace dsckpt
