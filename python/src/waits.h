#ifndef DSCKPT_PYTHON_WAITS_H_
#define DSCKPT_PYTHON_WAITS_H_

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "python/src/status.h"

namespace dsckpt::python {

/// A reference of a caller's own to an engine or writer that close() may drop meanwhile. The last
/// one waits for engine threads, which may want the GIL, so it is let go of without it.
template <typename T>
class Borrowed {
 public:
  explicit Borrowed(std::shared_ptr<T> object) : object_(std::move(object)) {}
  ~Borrowed() {
    const GilReleased released;
    object_.reset();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  T* operator->() const { return object_.get(); }
  const std::shared_ptr<T>& shared() const { return object_; }

 private:
  std::shared_ptr<T> object_;
};

/// Runs a wait, which has to own what it uses, without the GIL. In the main thread signal handlers
/// of Python run meanwhile: what one raises ends the call with nb::python_error, and leaves the
/// wait to end by itself.
template <typename Wait>
Status Interruptibly(Wait wait) {
  // Waits of the library return for no signal, so another thread has to do them.
  std::future<Status> waited;
  if (gettid() == getpid()) {
    std::packaged_task<Status()> task(wait);
    waited = task.get_future();
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error&) {
      waited = {};
    }
  }
  if (!waited.valid()) return WithoutGil(wait);
  static constexpr auto kLatency = std::chrono::milliseconds(20);
  while (WithoutGil([&] { return waited.wait_for(kLatency); }) != std::future_status::ready) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return waited.get();
}

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_WAITS_H_
