#ifndef DSCKPT_WRITER_ENGINE_SAVE_TASK_H_
#define DSCKPT_WRITER_ENGINE_SAVE_TASK_H_

// One save from Save() to durable.

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "dsckpt/engine.h"
#include "writer/device/capture.h"
#include "writer/engine/describe.h"
#include "writer/engine/placed_stage.h"
#include "writer/engine/resources.h"
#include "writer/engine/save_plan.h"
#include "writer/engine/save_progress.h"

namespace dsckpt {

/// What a forked child gets for using its parent's engine or saves.
Status InChildStatus();

/// One save from Save() to durable: the plan, what has been made of it, how far it is, and the
/// stages. Passed along by shared_ptr: the placed stage and the append stage run side by side, then
/// commit. Handles keep it for long, so that Finish() gives back everything but the outcome.
class DSCKPT_HIDDEN SaveTask {
 public:
  SaveTask(EngineResources& resources, std::string path, SaveOptions options,
           std::shared_ptr<LaidOutState> state);
  ~SaveTask();

  /// Until Finish().
  const SavePlan& plan() const { return plan_; }

  // --- Inside Save(), in this order.

  /// Marks where the streams are that write device tensors (DeviceCapture::Begin).
  Status MarkProducers();
  /// Makes or enqueues the at-save copies. Adds the time that it waited for room to *waited_ns.
  void MakeAtSaveCopies(uint64_t* waited_ns);
  /// Blocks until what is captured at save has been read where there was no room for a copy.
  void AwaitSaveMayReturn() { progress_.AwaitSaveMayReturn(); }

  // --- Stages, each on a thread of its own.

  /// Has a worker make the file, which takes long enough to be worth doing beside the first copies.
  void StartFile();
  void RunPlaced();
  void RunAppend();
  /// Returns the final status; the file is published or gone.
  Status Commit();
  /// Ends a save that never reached the stages: waits for its at-save copies from devices.
  void AwaitNothingPending() { progress_.AwaitNothingPending(); }
  /// Sets the final state (OK: durable) and gives back everything but the outcome. REQUIRES: no
  /// stage is at work on it and nothing is pending.
  void Finish(Status status);

  // --- Fences: block until the tensors whose names begin with `prefix` have been read ...

  void AwaitCaptured(std::string_view prefix);
  /// ... or, those on devices, are enqueued. Makes `stream` wait for the latter.
  Status OrderStream(Stream stream, std::string_view prefix);

  // --- Handles.

  Status WaitCaptured();
  Status WaitDone();
  void AwaitDone() { progress_.AwaitDone(); }
  bool seen() const { return progress_.seen(); }
  void Cancel();
  Progress progress() const;

 private:
  /// What a fence waits for; nothing when the save has nothing left to read.
  std::optional<FenceScope> FindScope(std::string_view prefix);
  /// Has devices end their at-save copies, of so many bytes; they are waited for on another thread.
  Status FinishAtSaveCopies(uint64_t bytes);
  Status OpenFile();
  /// Pool with which capture would not have waited for storage.
  uint64_t SuggestedPoolBytes() const;

  /// In a forked child nothing moves on: waits must not wait there.
  const pid_t process_ = getpid();
  EngineResources& resources_;
  Mutex mutex_;
  std::shared_ptr<LaidOutState> state_;                                  // Until Finish().
  std::shared_ptr<const SavePlan> kept_plan_ DSCKPT_GUARDED_BY(mutex_);  // Until Finish().
  std::shared_ptr<DeviceCapture> device_ DSCKPT_GUARDED_BY(mutex_);      // Until Finish().
  const SavePlan& plan_;                                                 // *kept_plan_
  SaveSources sources_;
  SaveOutputs outputs_;
  SaveProgress progress_;
  std::unique_ptr<PlacedStage> placed_;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_SAVE_TASK_H_
