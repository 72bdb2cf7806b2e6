#ifndef DSCKPT_WRITER_ENGINE_SCHEDULER_H_
#define DSCKPT_WRITER_ENGINE_SCHEDULER_H_

// Saves through the stages, first in, first out.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "dsckpt/engine.h"
#include "writer/engine/save_task.h"

namespace dsckpt {

/// Writes that the kernel has at once. A few keep storage busy; more would only hold windows
/// longer.
inline constexpr unsigned kWritesInFlight = 8;

/// Moves saves through raw stage, log stage and commit: one thread each, every one first in, first
/// out, so that saves are published in order while the next one's capture overlaps this one's sync.
class Scheduler {
 public:
  explicit Scheduler(EngineResources& resources);
  /// Waits until every admitted save is done.
  ~Scheduler();

  /// False when the system gave no thread for a stage: the scheduler is of no use then.
  bool running() const;

  /// Counts the save as in flight, after waiting for its turn as EngineOptions::when_busy says.
  /// False: skipped, and the job is done (kCancelled).
  bool Admit(const std::shared_ptr<SaveHandle::Job>& job);
  /// Hands an admitted save, its at-save copies made, to the stages.
  void Start(std::shared_ptr<SaveHandle::Job> job);

  Status Fence(std::string_view prefix);
  Status FenceOnStream(Stream stream, std::string_view prefix);
  Status WaitDurable();

 private:
  using JobPtr = std::shared_ptr<SaveHandle::Job>;
  /// A thread that handles jobs one after another.
  struct Stage {
    std::deque<JobPtr> queue;  // Guarded by mutex_.
    std::thread thread;
  };
  void StartStage(Stage& stage, const char* name, void (Scheduler::*handle)(const JobPtr&));
  void Push(Stage& stage, JobPtr job);
  void RunRaw(const JobPtr& job);
  Status OpenFile(SaveHandle::Job& job);
  void RunLog(const JobPtr& job);
  void RunCommit(const JobPtr& job);
  void Finish(const JobPtr& job, Status status);
  void CancelNewestQueued(std::unique_lock<std::mutex>& lock);
  std::vector<JobPtr> Active();
  Status TakeUnseenFailure();

  EngineResources& resources_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<JobPtr> active_;  // Admitted and not done, oldest first.
  std::vector<JobPtr> failed_;  // Done with an error that nobody may have seen.
  bool closing_ = false;
  Stage raw_, log_, commit_;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_SCHEDULER_H_
