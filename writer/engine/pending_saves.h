#ifndef DSCKPT_WRITER_ENGINE_PENDING_SAVES_H_
#define DSCKPT_WRITER_ENGINE_PENDING_SAVES_H_

// Saves that are not done, and failures that nobody may have seen.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/status.h"

namespace dsckpt {

/// The saves under way of an engine or of a checkpoint writer. `Task` has AwaitDone(),
/// `Status WaitDone()` (the caller sees the outcome) and `bool seen()`. Thread-safe.
template <typename Task>
class PendingSaves {
 public:
  using TaskPtr = std::shared_ptr<Task>;

  void Add(TaskPtr task) {
    MutexLock lock(mutex_);
    pending_.push_back(std::move(task));
    ++places_taken_;
  }
  /// Adds the task if fewer than `limit` places are taken; returns whether it did.
  bool AddBelow(size_t limit, const TaskPtr& task) {
    MutexLock lock(mutex_);
    if (places_taken_ >= limit) return false;
    pending_.push_back(task);
    ++places_taken_;
    return true;
  }
  /// Blocks until fewer than `limit` places are taken, then adds the task.
  void AwaitAndAddBelow(size_t limit, TaskPtr task) {
    MutexLock lock(mutex_);
    while (places_taken_ >= limit) changed_.Wait(lock);
    pending_.push_back(std::move(task));
    ++places_taken_;
  }
  /// Gives the place of a task free that is about to be done: who hears of its end and saves again
  /// finds room. Until Remove() the task is still among All().
  void FreePlace() {
    MutexLock lock(mutex_);
    --places_taken_;
    changed_.NotifyAll();
  }
  /// Of a task that is done, or is about to be.
  void NoteFailure(TaskPtr task) {
    MutexLock lock(mutex_);
    failed_.push_back(std::move(task));
  }
  /// Of a task that is done, or is about to be, after FreePlace().
  void Remove(const TaskPtr& task) {
    MutexLock lock(mutex_);
    std::erase(pending_, task);
    changed_.NotifyAll();
  }

  /// Oldest first.
  std::vector<TaskPtr> All() {
    MutexLock lock(mutex_);
    return pending_;
  }
  void AwaitNone() {
    MutexLock lock(mutex_);
    while (!pending_.empty()) changed_.Wait(lock);
  }
  /// Blocks until every save that is pending now is done; returns the first failure that nobody has
  /// seen, once.
  Status WaitDurable() {
    for (const TaskPtr& task : All()) task->AwaitDone();
    return TakeUnseenFailure();
  }
  Status TakeUnseenFailure() {
    while (const TaskPtr task = TakeFailure()) {
      // Without the lock: its end may still be on its way here.
      if (!task->seen()) return task->WaitDone();
    }
    return Status();
  }

 private:
  TaskPtr TakeFailure() {
    MutexLock lock(mutex_);
    if (failed_.empty()) return nullptr;
    TaskPtr task = std::move(failed_.front());
    failed_.erase(failed_.begin());
    return task;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<TaskPtr> pending_ DSCKPT_GUARDED_BY(mutex_);  // Oldest first.
  std::vector<TaskPtr> failed_ DSCKPT_GUARDED_BY(mutex_);
  size_t places_taken_ DSCKPT_GUARDED_BY(mutex_) = 0;  // At most as many as are pending.
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_PENDING_SAVES_H_
