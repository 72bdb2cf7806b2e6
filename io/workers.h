#ifndef DSCKPT_IO_WORKERS_H_
#define DSCKPT_IO_WORKERS_H_

// A pool of threads.

#include <functional>

#include "base/serial_queue.h"

namespace dsckpt::io {

/// `wanted` threads, or one a core up to 8 when it is 0.
int WorkerCount(int wanted);

/// A fixed set of threads that run jobs in the order given. Thread-safe. The destructor runs what
/// is queued, then joins. Where not one thread could be started, Run() runs the job itself.
class Workers {
 public:
  explicit Workers(int count, const char* name);
  void Run(std::function<void()> job);
  int count() const { return jobs_.threads(); }

 private:
  SerialQueue<std::function<void()>> jobs_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_WORKERS_H_
