#ifndef DSCKPT_BENCH_SWITCHES_H_
#define DSCKPT_BENCH_SWITCHES_H_

#include <memory>

#include "dsckpt/status.h"
#include "io/device.h"

// Ideas that have no option, because nobody would turn them off but to see what they are worth.
// Through the doors by which tests replace the kernel's calls and the device runtime. An engine
// stays as it was made; none may be working when a switch is turned.

namespace dsckpt::bench {

/// While it lives, engines cannot register buffers with io_uring.
class WithoutRegisteredBuffers {
 public:
  WithoutRegisteredBuffers();
  ~WithoutRegisteredBuffers();
  WithoutRegisteredBuffers(const WithoutRegisteredBuffers&) = delete;
  WithoutRegisteredBuffers& operator=(const WithoutRegisteredBuffers&) = delete;
};

struct DeviceIdeas {
  bool gather = true;  ///< Small pieces in one kernel; false: a copy each.
  bool pinned = true;  ///< The pool registered with the device runtime.
};

/// The device runtime without some ideas, for the engines made between Use() and Restore(). Must
/// outlive them.
class LimitedDevices {
 public:
  /// kUnsupported where there is no device.
  static dsckpt::Result<LimitedDevices> Create(const DeviceIdeas& ideas);
  void Use() const;
  static void Restore();

 private:
  explicit LimitedDevices(std::unique_ptr<io::DeviceBackend> backend)
      : backend_(std::move(backend)) {}
  std::unique_ptr<io::DeviceBackend> backend_;
};

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_SWITCHES_H_
