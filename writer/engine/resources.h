#ifndef DSCKPT_WRITER_ENGINE_RESOURCES_H_
#define DSCKPT_WRITER_ENGINE_RESOURCES_H_

// What all saves of an engine share.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/guarded.h"
#include "base/mutex.h"
#include "dsckpt/engine.h"
#include "io/pool.h"
#include "io/queue.h"
#include "io/workers.h"
#include "writer/device/completion.h"
#include "writer/device/streams.h"

namespace dsckpt {

using Clock = std::chrono::steady_clock;

inline uint64_t NanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
}

/// The counts behind Statistics, which explains them.
struct EngineCounters {
  std::atomic<uint64_t> saves_started{0}, saves_durable{0}, saves_failed{0}, layouts_reused{0};
  std::atomic<uint64_t> captured_bytes{0}, flushed_bytes{0}, at_save_bytes{0};
  std::atomic<uint64_t> save_blocked_ns{0}, fence_blocked_ns{0}, window_stall_ns{0},
      at_save_stall_ns{0};
  std::atomic<uint64_t> copy_hash_ns{0}, encode_ns{0};
  std::atomic<uint64_t> last_capture_ns{0}, last_durable_ns{0};
  std::atomic<uint64_t> suggested_pool_bytes{0};
};

/// What all saves of an engine share: memory, threads, the queue to storage, counters.
struct EngineResources {
  EngineOptions options;
  std::unique_ptr<io::WindowPool> pool;
  // Destroyed in reverse: what devices have copied goes to the workers, workers submit writes, and
  // the queue drains into the pool.
  std::unique_ptr<io::IoQueue> queue;
  std::unique_ptr<io::Workers> workers;
  std::unique_ptr<DeviceStreams> devices;
  CopyCompletion completion;
  EngineCounters counters;

  void Emit(Event::Kind kind, const Status& status) {
    if (!options.on_event) return;
    MutexLock lock(event_mutex_);
    // What it throws must not end an engine thread, and nobody is there to hear of it.
    (void)Guarded([&] {
      options.on_event(Event{kind, status});
      return Status();
    });
  }

 private:
  Mutex event_mutex_;  // Of the callback: one call at a time.
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_RESOURCES_H_
