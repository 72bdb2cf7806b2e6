// Measure(): tensors in batches that fit into memory, each batch through all checkpoints.

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>

#include "analysis/parallel.h"
#include "analysis/tile_moments.h"
#include "dsckpt/limits.h"
#include "dsckpt/trajectory_measures.h"
#include "numerics/statistics.h"
#include "numerics/sum_tree.h"
#include "trajectory/measure_plan.h"
#include "trajectory/measure_tiles.h"

namespace dsckpt {

/// For numerics::PairwiseTree.
static TensorUpdate Joined(const TensorUpdate& left, const TensorUpdate& right) {
  return left.With(right);
}

namespace trajectory {

namespace {

constexpr uint64_t kLeastMemory = 64 << 20;
/// Rows that are kept until their tensors are complete.
constexpr size_t kMostRows = 100'000;

/// The tiles of one visit, joined in their order.
struct VisitTrees {
  numerics::PairwiseTree<TensorMoments> moments;
  numerics::PairwiseTree<TensorUpdate> updates, from_first;
  numerics::PairwiseTree<numerics::TurnSums> turns;
  std::optional<uint64_t> first_nan;

  void Push(const TileMeasure& tile) {
    moments.Push(tile.moments);
    updates.Push(tile.update);
    turns.Push(tile.turn);
    from_first.Push(tile.from_first);
    if (!first_nan) first_nan = tile.first_nan;
  }
  void Store(Visit& visit) const {
    TensorMeasure& row = visit.row;
    if (visit.moments) {
      row.moments = moments.Root();
      row.first_nan = first_nan;
    }
    if (visit.update) row.update = updates.Root();
    if (visit.turn) {
      const numerics::TurnSums sums = turns.Root();
      row.turn = UpdateTurn{sums.dot, sums.later, sums.earlier};
    }
    if (visit.distance) {
      visit.from_first = from_first.Root();
      row.distance = visit.from_first.Norm();
    }
  }
};

/// A tensor on its way: its plan, and what the tiles so far came to where they are of several
/// batches.
struct Travelling {
  TensorPlan plan;
  std::unique_ptr<TensorReader> reader;
  uint32_t tiles = 0, next_tile = 0;
  std::vector<VisitTrees> trees;

  bool complete() const { return next_tile == tiles; }
};

/// Some tiles of one tensor, in one batch.
struct Share {
  Travelling* tensor;
  uint32_t first = 0, count = 0;  ///< Positions in the batch.
  bool last = false;              ///< The tensor is complete behind them.
};

/// Tiles that go through the checkpoints together.
class Batch {
 public:
  /// `memory`: for elements, at least kLeastMemory.
  Batch(MappedCheckpoints& checkpoints, const MeasureOptions& options, std::span<std::byte> memory)
      : checkpoints_(checkpoints), options_(options), memory_(memory) {}

  /// Takes as many tiles as fit; into an empty batch one does. Returns whether all were taken.
  bool Take(Travelling& tensor) {
    Share share{&tensor, static_cast<uint32_t>(tiles_.size()), 0, false};
    const uint64_t bytes = tensor.plan.bytes();
    while (!tensor.complete()) {
      const uint64_t tile = std::min(kChunkBytes, bytes - tensor.next_tile * kChunkBytes);
      const uint64_t held = HeldBytes(tile);
      if (held_ + held > memory_.size()) break;
      if (!tensor.reader) {
        tensor.reader = std::make_unique<TensorReader>(checkpoints_, tensor.plan.tensor,
                                                       options_.reading.verify);
      }
      tiles_.emplace_back(*tensor.reader, tensor.plan, tensor.next_tile++,
                          memory_.subspan(held_, held));
      held_ += held;
      ++share.count;
    }
    share.last = tensor.complete();
    if (share.count != 0) shares_.push_back(share);
    return share.last;
  }
  bool empty() const { return tiles_.empty(); }

  /// `done` grows by what was read.
  Status Run(const std::vector<uint32_t>& checkpoints, uint64_t& done,
             const std::function<void(uint64_t)>& progress) {
    measures_.resize(tiles_.size());
    if (options_.against) DSCKPT_RETURN_IF_ERROR(Visit(*options_.against, true, done, progress));
    for (const uint32_t t : checkpoints) {
      DSCKPT_RETURN_IF_ERROR(Visit(t, false, done, progress));
    }
    return {};
  }

 private:
  /// `ahead`: elements are only read.
  Status Visit(uint32_t t, bool ahead, uint64_t& done,
               const std::function<void(uint64_t)>& progress) {
    std::vector<analysis::Tile> work;
    for (const Share& share : shares_) {
      const trajectory::Visit* const visit = share.tensor->plan.At(t);
      if (visit == nullptr || !(visit->read || IsMeasured(*visit))) continue;
      const bool again = !ahead && options_.against == t;
      for (uint32_t i = share.first; i < share.first + share.count; ++i) {
        const uint64_t bytes = tiles_[i].bytes(*visit);
        if (bytes != 0) work.push_back({i, 0, visit->read && !again ? bytes : 0});
      }
    }
    AnalysisOptions reading = options_.reading;
    if (progress) reading.progress = [&](uint64_t read, uint64_t) { progress(done + read); };
    const auto pass = [&](const analysis::Tile& tile, size_t) -> Status {
      TravellingTile& each = tiles_[tile.item];
      const trajectory::Visit& visit = *each.plan().At(t);
      const auto v = static_cast<uint32_t>(&visit - each.plan().visits.data());
      if (visit.read) DSCKPT_RETURN_IF_ERROR(each.Load(v));
      if (!ahead) measures_[tile.item] = each.Measure(visit);
      return {};
    };
    DSCKPT_RETURN_IF_ERROR(analysis::ForEachTile(work, reading, pass));
    for (const analysis::Tile& tile : work) done += tile.bytes;
    if (!ahead) Join(t, work);
    return {};
  }

  static bool IsMeasured(const trajectory::Visit& visit) {
    return visit.moments || visit.update || visit.turn || visit.distance;
  }

  void Join(uint32_t t, const std::vector<analysis::Tile>& work) {
    size_t at = 0;
    for (const Share& share : shares_) {
      trajectory::Visit* const visit = share.tensor->plan.At(t);
      if (visit == nullptr || !(visit->read || IsMeasured(*visit))) continue;
      const bool parted = !share.last || !share.tensor->trees.empty();
      if (parted) share.tensor->trees.resize(share.tensor->plan.visits.size());
      VisitTrees alone;
      const auto v = static_cast<size_t>(visit - share.tensor->plan.visits.data());
      VisitTrees& trees = parted ? share.tensor->trees[v] : alone;
      for (; at < work.size() && work[at].item < share.first + share.count; ++at) {
        trees.Push(measures_[work[at].item]);
      }
      if (share.last) trees.Store(*visit);
    }
  }

  MappedCheckpoints& checkpoints_;
  const MeasureOptions& options_;
  std::deque<TravellingTile> tiles_;
  std::vector<TileMeasure> measures_;
  std::vector<Share> shares_;
  const std::span<std::byte> memory_;
  uint64_t held_ = 0;  // Of it.
};

/// Goes through the tensors in order.
class Measurer {
 public:
  Measurer(const Trajectory& run, const TrajectorySelection& selection, const TakeMeasures& take,
           const MeasureOptions& options)
      : run_(run),
        checkpoints_(run),
        selection_(selection),
        take_(take),
        options_(options),
        keys_(run, options.cache != nullptr) {}

  Result<MeasureSummary> Run() {
    if (options_.reading.progress) CountBytes();
    for (const uint32_t tensor : selection_.tensors) {
      if (!Skip(tensor)) DSCKPT_RETURN_IF_ERROR(Add(tensor));
    }
    DSCKPT_RETURN_IF_ERROR(Flush());
    return std::move(summary_);
  }

 private:
  /// Whether a dtype of it has no elements that are numbers.
  bool Skip(uint32_t tensor) {
    uint64_t bytes = 0;
    bool known = true;
    for (const uint32_t t : selection_.checkpoints) {
      const auto form = run_.Form(t, tensor);
      if (!form) continue;
      bytes += form->bytes;
      known = known && numerics::HasStatistics(form->dtype.code);
    }
    if (known) return false;
    summary_.skipped.push_back(tensor);
    summary_.skipped_bytes += bytes;
    return true;
  }

  Status Add(uint32_t tensor) {
    auto& travelling = waiting_.emplace_back(std::make_unique<Travelling>());
    travelling->plan = PlanTensor(run_, selection_, tensor, options_, keys_);
    rows_ += travelling->plan.visits.size();
    if (travelling->plan.reads()) {
      const uint64_t bytes = travelling->plan.bytes();
      travelling->tiles = static_cast<uint32_t>((bytes + kChunkBytes - 1) / kChunkBytes);
    }
    while (!OpenBatch().Take(*travelling)) DSCKPT_RETURN_IF_ERROR(Flush());
    return rows_ >= kMostRows ? Flush() : Status();
  }

  /// All batches use the same memory: fresh pages cost more than the numbers.
  Batch& OpenBatch() {
    const uint64_t bytes = std::max(options_.memory, kLeastMemory);
    if (!memory_) memory_.reset(new std::byte[bytes]);
    if (!batch_) {
      batch_ = std::make_unique<Batch>(checkpoints_, options_, std::span(memory_.get(), bytes));
    }
    return *batch_;
  }

  /// Measures the batch, and hands over the tensors that are complete.
  Status Flush() {
    if (batch_ && !batch_->empty()) {
      const auto progress = options_.reading.progress;
      DSCKPT_RETURN_IF_ERROR(batch_->Run(selection_.checkpoints, summary_.read_bytes,
                                         progress ? [&](uint64_t done) { progress(done, total_); }
                                                  : std::function<void(uint64_t)>()));
    }
    batch_.reset();
    while (!waiting_.empty() && waiting_.front()->complete()) {
      DSCKPT_RETURN_IF_ERROR(HandOver(waiting_.front()->plan));
      rows_ -= waiting_.front()->plan.visits.size();
      waiting_.pop_front();
    }
    return {};
  }

  Status HandOver(TensorPlan& plan) {
    FinishRows(plan, options_);
    std::vector<TensorMeasure> rows;
    for (const trajectory::Visit& visit : plan.visits) {
      if (!visit.hidden) rows.push_back(visit.row);
    }
    return take_(plan.tensor, rows);
  }

  void CountBytes() {
    for (const uint32_t tensor : selection_.tensors) {
      const TensorPlan plan = PlanTensor(run_, selection_, tensor, options_, keys_);
      for (const trajectory::Visit& visit : plan.visits)
        total_ += visit.read ? visit.form.bytes : 0;
    }
  }

  const Trajectory& run_;
  MappedCheckpoints checkpoints_;
  const TrajectorySelection& selection_;
  const TakeMeasures& take_;
  const MeasureOptions& options_;
  ContentKeys keys_;
  std::deque<std::unique_ptr<Travelling>> waiting_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Batch> batch_;
  size_t rows_ = 0;
  uint64_t total_ = 0;
  MeasureSummary summary_;
};

}  // namespace

}  // namespace trajectory

Result<MeasureSummary> Measure(const Trajectory& run, const TrajectorySelection& selection,
                               const TakeMeasures& take, const MeasureOptions& options) {
  return trajectory::Measurer(run, selection, take, options).Run();
}

std::vector<std::vector<uint32_t>> DivideTensors(const Trajectory& run,
                                                 const TrajectorySelection& selection,
                                                 uint32_t parts) {
  std::vector<std::pair<uint64_t, uint32_t>> by_size;
  for (const uint32_t i : selection.tensors) {
    uint64_t bytes = 0;
    for (const uint32_t t : selection.checkpoints) {
      const auto form = run.Form(t, i);
      if (form) bytes += form->bytes;
    }
    by_size.emplace_back(bytes, i);
  }
  std::ranges::sort(by_size, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::vector<uint32_t>> divided(parts);
  std::vector<uint64_t> sizes(parts);
  for (const auto& [bytes, tensor] : by_size) {
    const auto least = static_cast<size_t>(std::ranges::min_element(sizes) - sizes.begin());
    sizes[least] += bytes;
    divided[least].push_back(tensor);
  }
  for (auto& part : divided) std::ranges::sort(part);
  return divided;
}

}  // namespace dsckpt
