#ifndef DSCKPT_TRAJECTORY_MEASURE_PLAN_H_
#define DSCKPT_TRAJECTORY_MEASURE_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/trajectory.h"
#include "dsckpt/trajectory_measures.h"

// What of a tensor is known without its elements, and in which checkpoints they have to be read.

namespace dsckpt::trajectory {

/// A checkpoint that has the tensor.
struct Visit {
  uint32_t checkpoint = 0;
  TrajectoryForm form;
  MeasureCache::Key key;  ///< Empty: nothing stands for its content.
  /// Only looked at for MeasureOptions::against, and has no row.
  bool hidden = false;
  /// The visit that has its elements: itself, or an earlier one with no other content in between.
  uint32_t content = 0;
  /// The visit it is compared with, if dtype and shape are the same there; and the one before that.
  std::optional<uint32_t> before, two_before;
  /// From where distances count.
  uint32_t first = 0;
  /// What has to be measured. A distance may be that of the update.
  bool moments = false, update = false, turn = false, distance = false;
  /// Whether elements are read here.
  bool read = false;
  TensorMeasure row;
  TensorUpdate from_first;  ///< Where `distance` is measured.
};

/// All visits of one tensor, in the order of checkpoints.
struct TensorPlan {
  uint32_t tensor = 0;
  std::vector<Visit> visits;
  /// The position of MeasureOptions::against among them.
  std::optional<uint32_t> against;

  /// The visit of a checkpoint, or null.
  Visit* At(uint32_t checkpoint);
  bool reads() const;
  /// The size of the tensor where it is largest.
  uint64_t bytes() const;
};

/// What stands for the content of tensors. Not thread-safe.
class ContentKeys {
 public:
  /// `all`: also where indexes have no digest; the files stand for it then.
  ContentKeys(const Trajectory& run, bool all) : run_(run), all_(all) {}
  MeasureCache::Key Of(uint32_t t, uint32_t i);

 private:
  const Trajectory& run_;
  const bool all_;
  std::map<uint32_t, std::string> files_;
};

/// Plans one tensor. What the cache knows is in the rows already.
TensorPlan PlanTensor(const Trajectory& run, const TrajectorySelection& selection, uint32_t tensor,
                      const MeasureOptions& options, ContentKeys& keys);

/// Completes rows with what follows from others, and gives what was measured to the cache.
void FinishRows(TensorPlan& plan, const MeasureOptions& options);

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_MEASURE_PLAN_H_
