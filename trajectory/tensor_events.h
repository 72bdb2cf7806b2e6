#ifndef DSCKPT_TRAJECTORY_TENSOR_EVENTS_H_
#define DSCKPT_TRAJECTORY_TENSOR_EVENTS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dsckpt/trajectory_events.h"
#include "dsckpt/trajectory_measures.h"

// What happened to one tensor.

namespace dsckpt::trajectory {

/// In the order of checkpoints. `others_change`: whether some tensor of the run does; asked only of
/// what never changes, because the answer takes a look at the whole run. `measures`: what was read;
/// empty: indexes tell.
std::vector<TrajectoryEvent> TensorEvents(const Trajectory& run,
                                          const std::vector<uint32_t>& checkpoints, uint32_t tensor,
                                          const std::function<bool()>& others_change,
                                          std::span<const TensorMeasure> measures = {});

/// Whether the tensor differs between two neighbours of `checkpoints`.
bool EverChanges(const Trajectory& run, const std::vector<uint32_t>& checkpoints, uint32_t tensor);

/// Whether indexes tell its content in one of `checkpoints`.
bool IsKnown(const Trajectory& run, const std::vector<uint32_t>& checkpoints, uint32_t tensor);

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_TENSOR_EVENTS_H_
