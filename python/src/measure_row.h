#ifndef DSCKPT_PYTHON_MEASURE_ROW_H_
#define DSCKPT_PYTHON_MEASURE_ROW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/trajectory_measures.h"

namespace dsckpt::python {

/// Of the column flags.
enum MeasureFlag : uint32_t {
  kCoarseUpdate = 1,
  kJumped = 2,
  kSameContent = 4,  ///< As in the checkpoint before.
  kOtherForm = 8,    ///< Another dtype or shape than in the checkpoint before.
};

/// A tensor or a group of them in one checkpoint.
struct MeasureRow {
  uint32_t checkpoint = 0;
  std::optional<uint32_t> before;
  std::string name, group;
  std::optional<int64_t> layer;
  std::string dtype;
  uint64_t count = 0;
  std::optional<TensorMoments> moments;
  std::optional<TensorUpdate> update;
  std::optional<UpdateTurn> turn;
  std::optional<double> distance;
  std::optional<Hash128> digest;
  /// The first checkpoint with the same content.
  std::optional<uint32_t> same_as;
  uint32_t flags = 0;

  /// Becomes the row of this and of other tensors together.
  void Join(const MeasureRow& more);
};

/// The rows of one tensor, in each selected checkpoint that has it. `measures`: what Measure()
/// gave; empty where it cannot be measured. Names and groups are left to the caller.
std::vector<MeasureRow> RowsOfTensor(const Trajectory& run, const TrajectorySelection& selection,
                                     uint32_t tensor, std::span<const TensorMeasure> measures,
                                     std::optional<uint32_t> against);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_MEASURE_ROW_H_
