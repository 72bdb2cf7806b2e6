#ifndef DSCKPT_WRITER_DEVICE_STREAMS_H_
#define DSCKPT_WRITER_DEVICE_STREAMS_H_

// An engine's streams and events, the pool's registration.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/limits.h"
#include "io/device.h"
#include "io/error.h"
#include "io/pool.h"

namespace dsckpt {

/// The engine's streams and events on every device it reads, and the pool's registration. Made as
/// devices are first used. Thread-safe.
class DeviceStreams {
 public:
  /// One device's streams. Each has one user at a time, so that what one waits for holds up no
  /// other: `copy` and `gather` the placed stage, `at_save` Save(), `read` the append
  /// stage.
  struct Queue {
    int device;
    Stream copy, gather, at_save, read;
    std::span<std::byte> snapshot;  // Device memory, the placed stage's; empty: none.
  };

  /// Drivers hold a lock while they register a part of the pool: other threads' copies go on
  /// between two.
  static constexpr uint64_t kRegisterBytes = 512 * kMiB;

  /// `snapshot_bytes`: see EngineOptions::device_snapshot_bytes.
  DeviceStreams(io::WindowPool& pool, uint64_t snapshot_bytes, io::Warn warn,
                uint64_t register_bytes = kRegisterBytes)
      : pool_(pool),
        snapshot_bytes_(snapshot_bytes),
        warn_(std::move(warn)),
        register_step_(std::max<uint64_t>(1, register_bytes / pool.window_bytes())) {}
  /// REQUIRES: nothing that was enqueued is still running.
  ~DeviceStreams();

  /// Streams on `device`; valid as long as this object.
  Result<const Queue*> Open(int device);
  /// REQUIRES: Open() succeeded once. The same holds for all below.
  io::DeviceBackend& backend() { return *backend_; }
  /// An event of `device`, which comes back here when nobody holds it any more.
  using EventPtr = std::shared_ptr<void>;
  Result<EventPtr> TakeEvent(int device);

  /// Registers the pool, for all devices, at the first call; blocks while another thread does it.
  /// Where that fails copies go on, slower: one warning.
  void RegisterPool(int device);
  /// False where it failed, or was not done yet: kernels cannot write the pool.
  bool pool_registered() const { return registered_; }
  /// Whether one copy may fill pool memory from `a` to `b`: none may span two registrations.
  bool RegisteredTogether(const std::byte* a, const std::byte* b) const;

 private:
  Result<Queue> MakeQueue(int device);

  io::WindowPool& pool_;
  const uint64_t snapshot_bytes_;
  const io::Warn warn_;
  /// Windows registered in one go. Whole ones, because no piece of one may span two registrations.
  const size_t register_step_;
  io::DeviceBackend* backend_ = nullptr;
  Mutex mutex_;
  std::map<int, std::unique_ptr<const Queue>> queues_ DSCKPT_GUARDED_BY(mutex_);
  std::map<int, std::vector<io::DeviceBackend::Event>> free_events_ DSCKPT_GUARDED_BY(mutex_);
  Mutex register_mutex_;
  bool register_tried_ DSCKPT_GUARDED_BY(register_mutex_) = false;
  std::atomic<bool> registered_{false};
  int registered_by_ DSCKPT_GUARDED_BY(register_mutex_) = 0;
  std::vector<std::span<std::byte>> registered_parts_ DSCKPT_GUARDED_BY(register_mutex_);
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_DEVICE_STREAMS_H_
