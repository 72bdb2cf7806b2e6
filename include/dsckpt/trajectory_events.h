#ifndef DSCKPT_TRAJECTORY_EVENTS_H_
#define DSCKPT_TRAJECTORY_EVENTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/export.h"
#include "dsckpt/trajectory.h"

// What happened in a run, as far as indexes tell it.

namespace DSCKPT_EXPORT dsckpt {

/// What happened.
enum class TrajectoryEventKind : uint8_t {
  /// A tensor has NaN and had none in the checkpoint before.
  kNan,
  /// A tensor has infinities and had none in the checkpoint before.
  kInf,
  /// The norm of a tensor, or where elements were read (Measure()) the norm of its update by step,
  /// is far above what it was in the seven checkpoints before: more than three times their median,
  /// and further above it than five times their usual distance.
  kJump,
  /// A checkpoint holds exactly what an earlier one holds.
  kDuplicate,
  /// A floating-point tensor that never changes while others do.
  kFrozen,
  /// A tensor that was not all zero before is all zero, or it is never anything else.
  kDead,
  /// A tensor has another shape than before.
  kReshaped,
  /// A tensor has another dtype than before.
  kRetyped,
  /// A tensor that the checkpoint before lacks.
  kAdded,
  /// A tensor that only the checkpoint before has.
  kRemoved,
  /// Updates of a tensor that are smaller than what its dtype can tell apart: their root mean
  /// square
  /// is less than half the distance of two neighbouring numbers at the tensor's own.
  kCoarse,
  /// A gap in steps that are evenly spaced before and behind it.
  kMissingStep,
};

/// Returns the name of a kind as commands print it: "nan", "missing_step".
std::string_view TrajectoryEventName(TrajectoryEventKind kind);

/// One thing that happened.
struct TrajectoryEvent {
  /// What happened.
  TrajectoryEventKind kind = TrajectoryEventKind::kNan;
  /// The checkpoint in which it shows, by position. For kMissingStep it is the one behind the gap,
  /// and for kFrozen the last one that has the tensor.
  uint32_t checkpoint = 0;
  /// The checkpoint to compare with: the one before that has the tensor, the one that holds the
  /// same (kDuplicate), the first one (kFrozen).
  std::optional<uint32_t> other;
  /// The tensor, where it is about one.
  std::optional<uint32_t> tensor;
  /// For kMissingStep the first step that is missing, otherwise that of the checkpoint.
  std::optional<int64_t> step;
  /// How many elements are NaN or infinite; the norm, or that of the update by step (kJump); the
  /// root mean square of the update (kCoarse); how many steps are missing.
  std::optional<double> value;
  /// What `value` would have had to stay below (kJump).
  std::optional<double> threshold;
  /// The first element that is NaN, in row-major order, where elements were read (kNan).
  std::optional<uint64_t> element;
};

/// The part of a trajectory that is looked at, by positions in ascending order.
struct TrajectorySelection {
  /// Checkpoints.
  std::vector<uint32_t> checkpoints;
  /// Tensors.
  std::vector<uint32_t> tensors;
};

/// Returns everything of a trajectory.
TrajectorySelection SelectAll(const Trajectory& run);

/// Returns what happened, in the order of checkpoints, then of kinds, then of names. Nothing is
/// read: NaN, infinities, zeros and norms are known where checkpoints were saved with
/// SaveOptions::statistics, and content where indexes have digests. Whether checkpoints are
/// duplicates is told from all their tensors, also from those that are not selected.
std::vector<TrajectoryEvent> FindEvents(const Trajectory& run,
                                        const TrajectorySelection& selection);

}  // namespace dsckpt

#endif  // DSCKPT_TRAJECTORY_EVENTS_H_
