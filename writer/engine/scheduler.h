#ifndef DSCKPT_WRITER_ENGINE_SCHEDULER_H_
#define DSCKPT_WRITER_ENGINE_SCHEDULER_H_

// Saves through the stages, first in, first out.

#include <memory>
#include <string_view>

#include "base/serial_queue.h"
#include "dsckpt/engine.h"
#include "writer/engine/pending_saves.h"
#include "writer/engine/save_task.h"

namespace dsckpt {

/// Writes that the kernel has at once. A few keep storage busy; more would only hold windows
/// longer.
inline constexpr unsigned kWritesInFlight = 8;

/// Moves saves through placed stage, append stage and commit: one thread each, every one first in,
/// first out, so that saves are published in order while the next one's capture overlaps this one's
/// sync.
class Scheduler {
 public:
  explicit Scheduler(EngineResources& resources);
  /// Waits until every admitted save is done.
  ~Scheduler();

  /// False when the system gave no thread for a stage: the scheduler is of no use then.
  bool running() const;

  /// Counts the save as in flight, after waiting for its turn as EngineOptions::when_busy says.
  /// False: skipped, and the save is done (kCancelled).
  bool Admit(const std::shared_ptr<SaveTask>& task);
  /// Hands an admitted save, its at-save copies made, to the stages.
  void Start(std::shared_ptr<SaveTask> task);

  Status Fence(std::string_view prefix);
  Status FenceOnStream(Stream stream, std::string_view prefix);
  Status WaitDurable() { return saves_.WaitDurable(); }

 private:
  using TaskPtr = std::shared_ptr<SaveTask>;
  void RunPlaced(const TaskPtr& task);
  void Finish(const TaskPtr& task, Status status);
  void CancelNewestQueued();

  EngineResources& resources_;
  PendingSaves<SaveTask> saves_;
  // A save is pushed to the next queue by a thread of the one before, which ends first.
  SerialQueue<TaskPtr> commit_, append_, placed_;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_SCHEDULER_H_
