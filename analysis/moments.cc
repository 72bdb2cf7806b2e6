// Moments(), tile by tile.

#include <algorithm>
#include <deque>
#include <utility>

#include "analysis/parallel.h"
#include "analysis/tensor_source.h"
#include "analysis/tile_moments.h"
#include "analysis/value_counts.h"
#include "base/mutex.h"
#include "dsckpt/analysis.h"
#include "dsckpt/limits.h"
#include "numerics/statistics.h"
#include "numerics/sum_tree.h"

namespace dsckpt {
namespace {

/// A tensor that is read, and what its tiles came to.
struct Measured {
  Measured(const Checkpoint& checkpoint, uint32_t tensor, bool verify)
      : source(checkpoint, tensor, verify) {}
  analysis::TensorSource source;
  DTypeInfo dtype;
  uint64_t bytes = 0;
  std::vector<TensorMoments> tiles;
  std::atomic<uint32_t> left = 0;
  Mutex mutex;
  /// Of the tiles so far, while there are others.
  std::optional<analysis::ValueCounts> counts DSCKPT_GUARDED_BY(mutex);
  TensorHistogram histogram DSCKPT_GUARDED_BY(mutex);

  void Count(std::span<const std::byte> tile) {
    analysis::ValueCounts found(dtype.code);
    found.Add(tile);
    MutexLock lock(mutex);
    if (counts) found.Add(*counts);
    counts = std::move(found);
  }
  void Finish() {
    source.Close();
    MutexLock lock(mutex);
    if (counts) histogram = counts->ToHistogram();
    counts.reset();
  }
  TensorHistogram TakeHistogram() {
    MutexLock lock(mutex);
    return std::move(histogram);
  }
};

}  // namespace

Result<MomentsReport> Moments(const Checkpoint& checkpoint, std::span<const uint32_t> tensors,
                              const AnalysisOptions& options, bool histograms) {
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
    each.tiles[tile.index] = analysis::MomentsOfTile(each.dtype, bytes);
    if (histograms) each.Count(bytes);
    if (--each.left == 0) each.Finish();
    return {};
  };
  DSCKPT_RETURN_IF_ERROR(analysis::ForEachTile(tiles, options, work));
  MomentsReport report;
  for (Measured& each : measured) {
    numerics::PairwiseTree<TensorMoments> tree;
    for (const TensorMoments& tile : each.tiles) tree.Push(tile);
    const bool known = numerics::HasStatistics(each.dtype.code);
    if (histograms) report.histograms.push_back(each.TakeHistogram());
    report.tensors.push_back(known ? std::optional(tree.Root()) : std::nullopt);
  }
  report.read_bytes = read_bytes;
  return report;
}

}  // namespace dsckpt
