// Diff(): the elements of tensors that indexes do not decide.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>

#include "analysis/matching.h"
#include "analysis/parallel.h"
#include "analysis/tensor_source.h"
#include "base/mutex.h"
#include "dsckpt/analysis.h"
#include "dsckpt/limits.h"
#include "numerics/largest_pairs.h"
#include "numerics/pairs.h"
#include "numerics/statistics.h"
#include "numerics/widen.h"

namespace dsckpt {
namespace {

using numerics::LargestPairs;
using numerics::PairStatistics;

/// Elements that are compared at once where dtypes differ: a whole number of blocks, small enough
/// as doubles.
constexpr uint64_t kWidenedElements = 1 << 17;

/// What a thread reads into.
struct DiffBuffers {
  std::vector<std::byte> a, b;
  std::vector<double> wide_a, wide_b;
};

/// Two tensors whose elements are compared, and what their tiles came to.
struct Compared {
  Compared(const Checkpoint& a, const Checkpoint& b, const TensorDiff& which,
           const DiffOptions& options)
      : source_a(a, which.tensor_a, options.reading.verify),
        source_b(b, which.tensor_b, options.reading.verify),
        info_a(a.tensor(which.tensor_a)),
        info_b(b.tensor(which.tensor_b)),
        largest(options.show) {}

  bool retyped() const { return info_a.dtype.code != info_b.dtype.code; }
  /// Whether elements are numbers that can be compared; else bytes alone are.
  bool numeric() const {
    if (!retyped()) return numerics::HasStatistics(info_a.dtype.code);
    return numerics::FindWiden(info_a.dtype.code) != nullptr &&
           numerics::FindWiden(info_b.dtype.code) != nullptr;
  }
  uint64_t tile_bytes() const {
    return retyped() ? kWidenedElements * info_a.dtype.block_bytes : kChunkBytes;
  }

  analysis::TensorSource source_a, source_b;
  LogicalTensorInfo info_a, info_b;
  std::vector<PairStatistics> tiles;
  /// Elements of tiles that were compared; of dtypes that are no numbers, whether bytes differ.
  std::atomic<uint64_t> compared = 0;
  std::atomic<bool> differs = false;
  std::atomic<uint32_t> left = 0;
  Mutex mutex;
  LargestPairs largest DSCKPT_GUARDED_BY(mutex);
};

class Differ {
 public:
  Differ(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options), buffers_(analysis::Workers(options.reading)) {
    if (options.relative_tolerance || options.absolute_tolerance) {
      tolerance_ = numerics::Tolerance{options.relative_tolerance.value_or(0),
                                       options.absolute_tolerance.value_or(0)};
    }
  }

  Result<DiffReport> Run() {
    uint64_t read_for_digests = 0;
    DSCKPT_ASSIGN_OR_RETURN(std::vector<analysis::Match> matches,
                            analysis::MatchTensors(a_, b_, options_, read_for_digests));
    for (const analysis::Match& match : matches) {
      if (match.undecided) Plan(match.diff);
    }
    DSCKPT_RETURN_IF_ERROR(analysis::ForEachTile(
        tiles_, options_.reading, [this](const analysis::Tile& tile, size_t worker) {
          return CompareTile(compared_[tile.item], tile, buffers_[worker]);
        }));
    DiffReport report;
    size_t next = 0;
    for (analysis::Match& match : matches) {
      if (match.undecided) Conclude(compared_[next++], match.diff);
      report.tensors.push_back(std::move(match.diff));
    }
    report.read_bytes = read_for_digests + read_bytes_;
    return report;
  }

 private:
  void Plan(const TensorDiff& which) {
    Compared& each = compared_.emplace_back(a_, b_, which, options_);
    if (each.retyped() && !each.numeric()) return;
    const uint64_t bytes = each.info_a.bytes, tile_bytes = each.tile_bytes();
    const auto count = static_cast<uint32_t>((bytes + tile_bytes - 1) / tile_bytes);
    each.tiles.resize(count);
    each.left = count;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t size = std::min(tile_bytes, bytes - i * tile_bytes);
      tiles_.push_back({static_cast<uint32_t>(compared_.size() - 1), i, size});
    }
  }

  Status CompareTile(Compared& each, const analysis::Tile& tile, DiffBuffers& buffers) {
    DSCKPT_RETURN_IF_ERROR(each.retyped() ? CompareWidened(each, tile, buffers)
                                          : CompareBytes(each, tile, buffers));
    if (--each.left == 0) {
      each.source_a.Close();
      each.source_b.Close();
    }
    return {};
  }

  /// Whether the sums of a chunk say that it is equal.
  Result<bool> EqualSums(Compared& each, uint32_t chunk) {
    if (options_.whole) return false;
    DSCKPT_ASSIGN_OR_RETURN(const auto sums_a, each.source_a.ChunkSums());
    if (sums_a.empty()) return false;
    DSCKPT_ASSIGN_OR_RETURN(const auto sums_b, each.source_b.ChunkSums());
    return !sums_b.empty() && sums_a[chunk] == sums_b[chunk];
  }

  Status CompareBytes(Compared& each, const analysis::Tile& tile, DiffBuffers& buffers) {
    const DTypeInfo& dtype = each.info_a.dtype;
    PairStatistics& found = each.tiles[tile.index];
    found.count = tile.bytes / dtype.block_bytes * dtype.block_elements;
    DSCKPT_ASSIGN_OR_RETURN(const bool equal, EqualSums(each, tile.index));
    if (equal) return {};
    const uint64_t offset = tile.index * each.tile_bytes();
    DSCKPT_ASSIGN_OR_RETURN(const auto a,
                            each.source_a.Read(offset, tile.bytes, buffers.a, read_bytes_));
    DSCKPT_ASSIGN_OR_RETURN(const auto b,
                            each.source_b.Read(offset, tile.bytes, buffers.b, read_bytes_));
    each.compared += found.count;
    if (each.numeric()) {
      found = numerics::ComparePairs(dtype.code, a, b, tolerance_);
      NoteLargest(each, dtype.code, a, b, offset / dtype.block_bytes, found);
    } else if (std::memcmp(a.data(), b.data(), a.size()) != 0) {
      each.differs = true;
    }
    return {};
  }

  Status CompareWidened(Compared& each, const analysis::Tile& tile, DiffBuffers& buffers) {
    const uint64_t size_a = each.info_a.dtype.block_bytes, size_b = each.info_b.dtype.block_bytes;
    const uint64_t first = tile.index * kWidenedElements, count = tile.bytes / size_a;
    DSCKPT_ASSIGN_OR_RETURN(
        const auto a, each.source_a.Read(first * size_a, count * size_a, buffers.a, read_bytes_));
    DSCKPT_ASSIGN_OR_RETURN(
        const auto b, each.source_b.Read(first * size_b, count * size_b, buffers.b, read_bytes_));
    buffers.wide_a.resize(kWidenedElements);
    buffers.wide_b.resize(kWidenedElements);
    numerics::FindWiden(each.info_a.dtype.code)(a.data(), count, buffers.wide_a.data());
    numerics::FindWiden(each.info_b.dtype.code)(b.data(), count, buffers.wide_b.data());
    const auto bytes_a = std::as_bytes(std::span(buffers.wide_a).first(count));
    const auto bytes_b = std::as_bytes(std::span(buffers.wide_b).first(count));
    PairStatistics& found = each.tiles[tile.index];
    found = numerics::ComparePairs(DType::kF64, bytes_a, bytes_b, tolerance_);
    NoteLargest(each, DType::kF64, bytes_a, bytes_b, first, found);
    each.compared += count;
    return {};
  }

  void NoteLargest(Compared& each, DType dtype, std::span<const std::byte> a,
                   std::span<const std::byte> b, uint64_t first_index,
                   const PairStatistics& found) const {
    if (options_.show == 0 || found.changed == 0) return;
    LargestPairs here(options_.show);
    here.Look(dtype, a, b, first_index);
    const MutexLock lock(each.mutex);
    each.largest.Add(here);
  }

  void Conclude(Compared& each, TensorDiff& diff) const {
    if (!each.numeric()) {
      if (!each.retyped()) diff.state = each.differs ? DiffState::kChanged : DiffState::kEqual;
      return;
    }
    const PairStatistics found = numerics::JoinPairs(each.tiles);
    if (!each.retyped()) diff.state = StateOf(found);
    diff.difference = ToDifference(each, found);
    const MutexLock lock(each.mutex);
    for (const numerics::ElementPair& pair : each.largest.Sorted()) {
      const bool in_steps = !each.retyped() && !std::isnan(pair.a) && !std::isnan(pair.b);
      diff.elements.push_back({pair.index, pair.a, pair.b, pair.distance,
                               in_steps ? std::optional(pair.ulp) : std::nullopt});
    }
  }

  DiffState StateOf(const PairStatistics& found) const {
    if (found.changed == 0) return DiffState::kEqual;
    const bool nan_close = options_.nan_equal || found.changed_nan == 0;
    const bool within = tolerance_ && found.beyond == 0;
    const bool near = options_.ulp && found.max_ulp <= *options_.ulp && found.one_nan == 0;
    const bool only_nan = found.changed == found.changed_nan;
    return nan_close && (within || near || only_nan) ? DiffState::kClose : DiffState::kChanged;
  }

  static Difference ToDifference(const Compared& each, const PairStatistics& found) {
    Difference difference;
    difference.count = found.count;
    difference.compared = each.compared;
    difference.finite = found.finite;
    difference.nan_a = found.nan_a;
    difference.nan_b = found.nan_b;
    difference.changed = found.changed;
    difference.beyond = found.beyond;
    difference.max_abs = found.max_abs;
    difference.max_index = found.max_index;
    difference.max_rel = found.max_rel;
    if (!each.retyped()) difference.max_ulp = found.max_ulp;
    difference.squared_difference = found.sums.difference;
    difference.cross = found.sums.cross;
    difference.squared_a = found.sums.first;
    difference.squared_b = found.sums.second;
    return difference;
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  const DiffOptions& options_;
  std::optional<numerics::Tolerance> tolerance_;
  std::deque<Compared> compared_;
  std::vector<analysis::Tile> tiles_;
  std::vector<DiffBuffers> buffers_;
  std::atomic<uint64_t> read_bytes_ = 0;
};

}  // namespace

Result<DiffReport> Diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options) {
  return Differ(a, b, options).Run();
}

}  // namespace dsckpt
