#ifndef DSCKPT_IO_WORKERS_H_
#define DSCKPT_IO_WORKERS_H_

// A pool of threads for functions that may run at the same time.

#include <functional>
#include <memory>
#include <thread>

namespace dsckpt::io {

/// `wanted` threads, or one a core up to 8 when it is 0.
int WorkerCount(int wanted);

/// A thread with all signals blocked: the application's handlers never run on it. Not joinable
/// where the system has no thread left to give. `name`: the first 15 bytes count.
std::thread StartThread(const char* name, std::function<void()> body);

/// A fixed set of threads that run jobs in the order given. Thread-safe. The destructor runs what
/// is queued, then joins. Where not one thread could be started, Run() runs the job itself.
class Workers {
 public:
  explicit Workers(int count, const char* name);
  ~Workers();
  void Run(std::function<void()> job);
  int count() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_WORKERS_H_
