#ifndef DSCKPT_WRITER_DEVICE_COMPLETION_H_
#define DSCKPT_WRITER_DEVICE_COMPLETION_H_

// Device copies that are done go to the workers.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "dsckpt/status.h"

namespace dsckpt {

/// Waits for device copies in the order given and passes on what they have filled. One thread: it
/// starts with the first flight, so that engines without devices have none. Thread-safe.
class CopyCompletion {
 public:
  CopyCompletion() = default;
  /// Waits for what is under way.
  ~CopyCompletion();
  CopyCompletion(const CopyCompletion&) = delete;
  CopyCompletion& operator=(const CopyCompletion&) = delete;

  /// `wait` blocks until the copies are done; then `landed` is called with its result. Both on the
  /// landing thread, one flight at a time.
  void Add(std::function<Status()> wait, std::function<void(Status)> landed);

 private:
  struct CopyBatch {
    std::function<Status()> wait;
    std::function<void(Status)> landed;
  };
  void Work();

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<CopyBatch> flights_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_DEVICE_COMPLETION_H_
