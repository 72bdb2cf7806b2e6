#include "python/src/measure_row.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace dsckpt::python {
namespace {

uint64_t ElementsOf(std::span<const int64_t> shape) {
  uint64_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<uint64_t>(size);
  return elements;
}

bool SameForm(const TrajectoryForm& a, const TrajectoryForm& b) {
  return a.dtype.code == b.dtype.code && std::ranges::equal(a.shape, b.shape);
}

template <typename Sum>
void JoinSum(std::optional<Sum>& sum, const std::optional<Sum>& more) {
  if (more) sum = sum ? sum->With(*more) : *more;
}

template <typename Value>
void KeepEqual(std::optional<Value>& value, const std::optional<Value>& other) {
  if (value != other) value.reset();
}

/// Where the content of one tensor was first seen.
class Contents {
 public:
  Contents(const Trajectory& run, uint32_t tensor) : run_(run), tensor_(tensor) {}

  /// Says of a row what content it has. `last`: the row before, or null.
  void Compare(MeasureRow& row, const TrajectoryForm& form, const MeasureRow* last) {
    const auto content = run_.Content(row.checkpoint, tensor_);
    if (row.before) {
      const auto old = run_.Content(*row.before, tensor_);
      const bool unchanged = row.update && row.update->changed == 0;
      if (old && content ? *old == *content : unchanged) row.flags |= kSameContent;
      const auto was = run_.Form(*row.before, tensor_);
      if (was && !SameForm(*was, form)) row.flags |= kOtherForm;
    }
    if (content) {
      const std::pair key(content->high, content->low);
      const auto [known, added] = first_.emplace(key, row.checkpoint);
      if (!added) row.same_as = known->second;
    } else if (last != nullptr && row.before == last->checkpoint &&
               (row.flags & kSameContent) != 0) {
      row.same_as = last->same_as.value_or(last->checkpoint);
    }
  }

 private:
  const Trajectory& run_;
  uint32_t tensor_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first_;
};

void TakeMeasure(MeasureRow& row, const TensorMeasure& measure, DType dtype) {
  row.before = measure.before;
  row.moments = measure.moments;
  row.update = measure.update;
  row.turn = measure.turn;
  row.distance = measure.distance;
  if (IsCoarse(measure, dtype)) row.flags |= kCoarseUpdate;
}

}  // namespace

void MeasureRow::Join(const MeasureRow& more) {
  KeepEqual(before, more.before);
  KeepEqual(layer, more.layer);
  KeepEqual(same_as, more.same_as);
  if (dtype != more.dtype) dtype = "mixed";
  count += more.count;
  JoinSum(moments, more.moments);
  JoinSum(update, more.update);
  JoinSum(turn, more.turn);
  if (distance && more.distance) distance = std::hypot(*distance, *more.distance);
  digest.reset();
  const uint32_t both = flags & more.flags & kSameContent;
  flags = ((flags | more.flags) & ~uint32_t{kSameContent}) | both;
}

std::vector<MeasureRow> RowsOfTensor(const Trajectory& run, const TrajectorySelection& selection,
                                     uint32_t tensor, std::span<const TensorMeasure> measures,
                                     std::optional<uint32_t> against) {
  std::vector<MeasureRow> rows;
  Contents contents(run, tensor);
  for (const uint32_t t : selection.checkpoints) {
    const auto form = run.Form(t, tensor);
    if (!form) continue;
    MeasureRow row;
    row.checkpoint = t;
    row.dtype = form->dtype.name;
    row.count = ElementsOf(form->shape);
    row.digest = run.Digest(t, tensor);
    const auto found = std::ranges::lower_bound(measures, t, {}, &TensorMeasure::checkpoint);
    if (found != measures.end() && found->checkpoint == t) {
      TakeMeasure(row, *found, form->dtype.code);
    } else if (against) {
      if (run.Form(*against, tensor)) row.before = against;
    } else if (!rows.empty()) {
      row.before = rows.back().checkpoint;
    }
    contents.Compare(row, *form, rows.empty() ? nullptr : &rows.back());
    rows.push_back(std::move(row));
  }
  if (measures.empty()) return rows;
  for (const TrajectoryEvent& event : FindTensorEvents(run, selection, tensor, measures)) {
    const auto row = std::ranges::find(rows, event.checkpoint, &MeasureRow::checkpoint);
    if (event.kind == TrajectoryEventKind::kJump && row != rows.end()) row->flags |= kJumped;
  }
  return rows;
}

}  // namespace dsckpt::python
