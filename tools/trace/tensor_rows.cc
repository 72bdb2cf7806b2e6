// The rows of one tensor: what its elements are, and how they moved.

#include <algorithm>
#include <map>
#include <utility>

#include "tools/groups.h"
#include "tools/index_moments.h"
#include "tools/items.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

/// Goes through the checkpoints of one tensor.
class TensorRows {
 public:
  TensorRows(const Trace& trace, size_t position)
      : trace_(trace),
        run_(trace.run),
        position_(position),
        tensor_(trace.selection.tensors[position]),
        name_(run_.tensor(tensor_).name),
        group_(NamePattern(name_)) {}

  std::vector<TraceRow> All() {
    for (const uint32_t t : trace_.selection.checkpoints) {
      if (const auto form = run_.Form(t, tensor_)) Visit(t, *form);
    }
    FlagJumps();
    return std::move(rows_);
  }

 private:
  void Visit(uint32_t t, const TrajectoryForm& form) {
    TraceRow row;
    row.checkpoint = t;
    row.name = name_;
    row.group = group_;
    row.layer = LayerOf(name_);
    row.dtype = DTypeText(form.dtype);
    const auto count = ElementCount(form.shape);
    row.count = count.ok() ? *count : 0;
    row.digest = run_.Digest(t, tensor_);
    const TensorMeasure* const measure = trace_.MeasureOf(position_, t);
    row.before = Before(t, measure);
    if (measure != nullptr) {
      Take(row, *measure, form);
      if (!row.turn) row.turn = TurnAtRest(row);
    } else if (const auto statistics = run_.Statistics(t, tensor_)) {
      row.moments = IndexMoments(*statistics, row.count);
    }
    Compare(row, form);
    rows_.push_back(std::move(row));
  }

  std::optional<uint32_t> Before(uint32_t t, const TensorMeasure* measure) const {
    if (measure != nullptr) return measure->before;
    if (trace_.against) {
      const bool there = t != *trace_.against && run_.Form(*trace_.against, tensor_);
      return there ? trace_.against : std::nullopt;
    }
    return rows_.empty() ? std::nullopt : std::optional(rows_.back().checkpoint);
  }

  static void Take(TraceRow& row, const TensorMeasure& measure, const TrajectoryForm& form) {
    row.moments = measure.moments;
    row.update = measure.update;
    row.turn = measure.turn;
    row.distance = measure.distance;
    if (IsCoarse(measure, form.dtype.code)) row.flags |= kFlagCoarse;
  }

  /// Of two updates of which one is nothing: there is no angle between them, but the other one
  /// counts in a group.
  std::optional<UpdateTurn> TurnAtRest(const TraceRow& row) const {
    if (rows_.empty() || trace_.against || !row.update || !rows_.back().update) return {};
    const TensorUpdate &later = *row.update, &earlier = *rows_.back().update;
    if (later.changed != 0 && earlier.changed != 0) return {};
    return UpdateTurn{0, later.squares, earlier.squares};
  }

  void Compare(TraceRow& row, const TrajectoryForm& form) {
    const auto content = run_.Content(row.checkpoint, tensor_);
    if (row.before) {
      const auto old = run_.Content(*row.before, tensor_);
      const bool same = old && content ? *old == *content : row.update && row.update->changed == 0;
      if (same) row.flags |= kFlagSame;
      const auto was = run_.Form(*row.before, tensor_);
      if (was && !SameForm(*was, form)) row.flags |= kFlagOther;
    }
    if (content) {
      const auto [known, added] =
          first_.emplace(std::pair(content->high, content->low), row.checkpoint);
      if (!added) row.same_as = known->second;
    } else if ((row.flags & kFlagSame) != 0 && !trace_.against) {
      row.same_as = rows_.back().same_as.value_or(rows_.back().checkpoint);
    }
  }

  static bool SameForm(const TrajectoryForm& a, const TrajectoryForm& b) {
    return a.dtype.code == b.dtype.code && std::ranges::equal(a.shape, b.shape);
  }

  void FlagJumps() {
    for (const TrajectoryEvent& event : trace_.events) {
      if (event.kind != TrajectoryEventKind::kJump || event.tensor != tensor_) continue;
      const auto row = std::ranges::find(rows_, event.checkpoint, &TraceRow::checkpoint);
      if (row != rows_.end()) row->flags |= kFlagJump;
    }
  }

  const Trace& trace_;
  const Trajectory& run_;
  const size_t position_;
  const uint32_t tensor_;
  const std::string name_, group_;
  std::vector<TraceRow> rows_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first_;  // Of each content.
};

}  // namespace

const TensorMeasure* Trace::MeasureOf(size_t position, uint32_t checkpoint) const {
  if (measures.empty()) return nullptr;
  const std::vector<TensorMeasure>& rows = measures[position];
  const auto found = std::ranges::lower_bound(rows, checkpoint, {}, &TensorMeasure::checkpoint);
  return found != rows.end() && found->checkpoint == checkpoint ? &*found : nullptr;
}

std::vector<TraceRow> RowsOfTensor(const Trace& trace, size_t position) {
  return TensorRows(trace, position).All();
}

}  // namespace dsckpt::tools
