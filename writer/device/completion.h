#ifndef DSCKPT_WRITER_DEVICE_COMPLETION_H_
#define DSCKPT_WRITER_DEVICE_COMPLETION_H_

// Device copies that are done go to the workers.

#include <functional>
#include <memory>

#include "base/mutex.h"
#include "base/serial_queue.h"
#include "dsckpt/status.h"

namespace dsckpt {

/// Waits for device copies in the order given and passes on what they have filled. One thread: it
/// starts with the first batch, so that engines without devices have none. Thread-safe. The
/// destructor waits for what is under way.
class CopyCompletion {
 public:
  CopyCompletion() = default;
  CopyCompletion(const CopyCompletion&) = delete;
  CopyCompletion& operator=(const CopyCompletion&) = delete;

  /// `wait` blocks until the copies are done; then `copied` is called with its result. Both on the
  /// thread of this object, one batch at a time.
  void Add(std::function<Status()> wait, std::function<void(Status)> copied);

 private:
  struct Batch {
    std::function<Status()> wait;
    std::function<void(Status)> copied;
  };
  using Queue = SerialQueue<Batch>;
  /// The queue, its thread started; null where the system gives none.
  Queue* StartedQueue();

  Mutex mutex_;
  std::unique_ptr<Queue> queue_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_DEVICE_COMPLETION_H_
