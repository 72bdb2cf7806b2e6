#ifndef DSCKPT_TRAJECTORY_TENSOR_EVENTS_H_
#define DSCKPT_TRAJECTORY_TENSOR_EVENTS_H_

#include <cstdint>
#include <vector>

#include "dsckpt/trajectory_events.h"

// What happened to one tensor.

namespace dsckpt::trajectory {

/// In the order of checkpoints. `others_change`: some tensor of the run does.
std::vector<TrajectoryEvent> TensorEvents(const Trajectory& run,
                                          const std::vector<uint32_t>& checkpoints, uint32_t tensor,
                                          bool others_change);

/// Whether the tensor differs between two neighbours of `checkpoints`.
bool EverChanges(const Trajectory& run, const std::vector<uint32_t>& checkpoints, uint32_t tensor);

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_TENSOR_EVENTS_H_
