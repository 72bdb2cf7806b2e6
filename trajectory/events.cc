// FindEvents(): of checkpoints as wholes, and of each tensor.

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "dsckpt/trajectory_events.h"
#include "dsckpt/trajectory_measures.h"
#include "trajectory/tensor_events.h"

namespace dsckpt {

namespace {

using Kind = TrajectoryEventKind;

/// One digest of all tensors of a checkpoint, in whatever pieces; nothing where that is not known.
std::optional<Hash128> ContentOf(const Trajectory& run, uint32_t t) {
  std::vector<NamedDigest> digests;
  for (uint32_t i = 0; i < run.tensor_count(); ++i) {
    if (!run.Form(t, i)) continue;
    const auto content = run.Content(t, i);
    if (!content) return run.StoredDigest(t);
    digests.push_back({std::string(run.tensor(i).name), *content});
  }
  if (digests.empty()) return std::nullopt;
  return TreeDigest(std::move(digests));
}

void FindDuplicates(const Trajectory& run, const std::vector<uint32_t>& checkpoints,
                    std::vector<TrajectoryEvent>& events) {
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first;
  for (const uint32_t t : checkpoints) {
    const auto content = ContentOf(run, t);
    if (!content) continue;
    const auto [known, added] = first.emplace(std::pair(content->high, content->low), t);
    if (added) continue;
    TrajectoryEvent& event = events.emplace_back();
    event.kind = Kind::kDuplicate;
    event.checkpoint = t;
    event.other = known->second;
    event.step = run.step(t);
  }
}

/// A step from one checkpoint to the next.
struct Gap {
  uint32_t behind;  // by position
  int64_t from;
  int64_t size;
};

/// How far apart checkpoints are around gap `i`: the same distance on both sides of it, at least
/// three times among its neighbours. 0 where they are not even.
int64_t GridAround(const std::vector<Gap>& gaps, size_t i) {
  constexpr size_t kNear = 4;
  std::map<int64_t, std::pair<int, int>> sides;
  for (size_t j = i - std::min(i, kNear); j < std::min(gaps.size(), i + kNear + 1); ++j) {
    if (j < i) ++sides[gaps[j].size].first;
    if (j > i) ++sides[gaps[j].size].second;
  }
  for (const auto& [size, counts] : sides) {
    if (counts.first > 0 && counts.second > 0 && counts.first + counts.second >= 3) return size;
  }
  return 0;
}

void FindMissingSteps(const Trajectory& run, const std::vector<uint32_t>& checkpoints,
                      std::vector<TrajectoryEvent>& events) {
  std::vector<Gap> gaps;
  std::optional<int64_t> before;
  for (const uint32_t t : checkpoints) {
    const auto step = run.step(t);
    if (!step) break;
    if (before && *step != *before) gaps.push_back({t, *before, *step - *before});
    before = step;
  }
  for (size_t i = 0; i < gaps.size(); ++i) {
    const int64_t grid = GridAround(gaps, i);
    if (grid == 0 || gaps[i].size <= grid || gaps[i].size % grid != 0) continue;
    TrajectoryEvent& event = events.emplace_back();
    event.kind = Kind::kMissingStep;
    event.checkpoint = gaps[i].behind;
    event.step = gaps[i].from + grid;
    event.value = static_cast<double>(gaps[i].size / grid - 1);
  }
}

/// Whether some tensor changes, or indexes tell of none whether it does.
bool MayTrain(const Trajectory& run, const std::vector<uint32_t>& checkpoints) {
  bool known = false;
  for (uint32_t i = 0; i < run.tensor_count(); ++i) {
    if (trajectory::EverChanges(run, checkpoints, i)) return true;
    known = known || trajectory::IsKnown(run, checkpoints, i);
  }
  return !known;
}

}  // namespace

std::string_view TrajectoryEventName(TrajectoryEventKind kind) {
  switch (kind) {
    case Kind::kNan:
      return "nan";
    case Kind::kInf:
      return "inf";
    case Kind::kJump:
      return "jump";
    case Kind::kDuplicate:
      return "duplicate";
    case Kind::kFrozen:
      return "frozen";
    case Kind::kDead:
      return "dead";
    case Kind::kReshaped:
      return "reshaped";
    case Kind::kRetyped:
      return "retyped";
    case Kind::kAdded:
      return "added";
    case Kind::kRemoved:
      return "removed";
    case Kind::kCoarse:
      return "coarse";
    case Kind::kMissingStep:
      break;
  }
  return "missing_step";
}

TrajectorySelection SelectAll(const Trajectory& run) {
  TrajectorySelection all;
  all.checkpoints.resize(run.size());
  all.tensors.resize(run.tensor_count());
  std::iota(all.checkpoints.begin(), all.checkpoints.end(), 0);
  std::iota(all.tensors.begin(), all.tensors.end(), 0);
  return all;
}

std::vector<TrajectoryEvent> FindRunEvents(const Trajectory& run,
                                           const TrajectorySelection& selection) {
  std::vector<TrajectoryEvent> events;
  FindDuplicates(run, selection.checkpoints, events);
  FindMissingSteps(run, selection.checkpoints, events);
  return events;
}

std::vector<TrajectoryEvent> FindTensorEvents(const Trajectory& run,
                                              const TrajectorySelection& selection, uint32_t tensor,
                                              std::span<const TensorMeasure> measures) {
  const auto change = [&] { return MayTrain(run, selection.checkpoints); };
  return trajectory::TensorEvents(run, selection.checkpoints, tensor, change, measures);
}

void SortEvents(std::vector<TrajectoryEvent>& events) {
  std::ranges::stable_sort(events, {}, [](const TrajectoryEvent& event) {
    return std::tuple(event.checkpoint, event.kind);
  });
}

std::vector<TrajectoryEvent> FindEvents(const Trajectory& run,
                                        const TrajectorySelection& selection) {
  std::vector<TrajectoryEvent> events = FindRunEvents(run, selection);
  std::optional<bool> known;
  const std::function<bool()> change = [&] {
    if (!known) known = MayTrain(run, selection.checkpoints);
    return *known;
  };
  for (const uint32_t i : selection.tensors) {
    for (auto& event : trajectory::TensorEvents(run, selection.checkpoints, i, change)) {
      events.push_back(event);
    }
  }
  SortEvents(events);
  return events;
}

}  // namespace dsckpt
