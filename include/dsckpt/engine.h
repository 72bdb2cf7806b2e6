#ifndef DSCKPT_ENGINE_H_
#define DSCKPT_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/export.h"
#include "dsckpt/limits.h"
#include "dsckpt/provider.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

class SaveTask;

/// Something the caller may want to log. The library itself never prints.
struct Event {
  /// What happened.
  enum class Kind {
    kFallback,    ///< A faster way is not available here (ring, registration, O_DIRECT, pinned
                  ///< memory); the bytes are the same.
    kSaveFailed,  ///< A background save failed; the same error is returned by the next wait.
    kDurability,  ///< Published, but the directory could not be synced, or need not be here.
    kNotFinite,   ///< A tensor that is being saved has NaN or Inf (SaveOptions::statistics).
  };
  /// What happened.
  Kind kind;
  /// The error, or the reason, with a message for a person to read.
  Status status;
};

/// What Save() does when `max_in_flight` saves are not durable yet.
enum class WhenBusy : uint8_t {
  kWait = 0,  ///< Block until one is.
  kSkip = 1,  ///< Do not save; the handle reports kCancelled at once.
  kReplaceQueued =
      2,  ///< Cancel the newest save that has not started to move data, and wait if there is none.
};

/// How files are read and written.
enum class IoBackend : uint8_t {
  kAuto = 0,     ///< io_uring, or threads with one warning event.
  kUring = 1,    ///< io_uring, or an error from Engine::Create.
  kThreads = 2,  ///< pwrite on a few threads.
};

/// How an Engine works. The defaults fit a training job with a local disk.
struct EngineOptions {
  /// Staging memory, allocated, touched and registered once. At least twice the bytes captured at
  /// save, or Save() waits until the rest has been read in file order. Encoding needs about 13 MiB
  /// a worker beyond it. Rounded down to whole windows, at
  /// least two.
  uint64_t pool_bytes = 1 * kGiB;
  /// Size of one window and of one write; a multiple of 4096, at most half the pool. 0: a
  /// sixteenth of the pool, at most 16 MiB: with fewer windows storage waits while they are filled.
  uint64_t window_bytes = 0;
  /// Threads that copy, hash and encode. 0: one a core, at most 8.
  int workers = 0;
  /// Saves accepted before they are durable.
  int max_in_flight = 2;
  /// What Save() does when `max_in_flight` saves are not durable yet.
  WhenBusy when_busy = WhenBusy::kWait;
  /// How files are written.
  IoBackend io = IoBackend::kAuto;
  /// Bypass the page cache where the file system allows it.
  bool direct_io = true;
  /// Ordinal of a device that this process uses already: Create() registers the pool with the
  /// device runtime, which takes up to half a second a GiB. kHostMemory: done by the first save of
  /// device memory, behind the caller's back where nothing of it is captured at save.
  int register_pool_for = kHostMemory;
  /// Memory that the engine takes on each device it reads, for a snapshot: lazily captured raw
  /// tensors are first copied there, in the file's order and as far as it reaches, which is many
  /// times faster than copying them to the host. A fence then waits for the snapshot alone, however
  /// small the pool is. The next save's snapshot waits until this one's has reached the host. 0:
  /// none. Where the device has no room, saves go on without (kFallback).
  uint64_t device_snapshot_bytes = 0;
  /// Called from engine threads, one call at a time. Must not call the engine.
  std::function<void(const Event&)> on_event = {};
};

/// What kind of file a save writes.
enum class Container : uint8_t {
  kDsckpt = 0,  ///< A shard: valid safetensors with index, checksums, objects and tree.
  kSafetensors =
      1,  ///< Plain safetensors, nothing else: objects, encodings and dtypes it lacks are refused.
};

/// How Engine::Save() writes one file.
struct SaveOptions {
  /// What kind of file is written.
  Container container = Container::kDsckpt;
  /// `format` member of the safetensors metadata. Transformers-family loaders refuse files without
  /// it.
  std::string metadata_format = "pt";
  /// Further members of the safetensors metadata, sorted by key when written; no checksum covers
  /// their meaning. `format` goes before `metadata_format`; keys that begin with "dsckpt" are
  /// refused, and so is the name of a tied tensor unless the value is the name of what it is tied
  /// to.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  /// Bytes that mean something to those who know the name, such as a signature or the state of a
  /// tool: at most kMaxVendors entries, in the index, which every reader reads and which has a
  /// limit (kMaxIndexBytes). A name is a domain of its owner, reversed ("com.example.audit"): 1 to
  /// 255 bytes of UTF-8 without control characters, no name twice. They are no part of the content
  /// digest, and merge leaves them out. See File::Vendor().
  std::vector<std::pair<std::string, std::string>> vendor = {};
  /// Record what the elements of each tensor are, in numbers (TensorStatistics, read by
  /// File::Statistics()), and report tensors with NaN or Inf as events (Event::Kind::kNotFinite):
  /// of one save at most 20 by name, then how many more there are. Measured while chunks are
  /// hashed, for some more processor time. Packed dtypes (kF4, kF6E2M3, kI4 ...) have none. Refused
  /// for plain safetensors, which has no place for it. SaveTo() reports no events.
  bool statistics = false;
  /// Called once on an engine thread when all source memory has been read and the file is written,
  /// before it is published: the last chance to find that memory changed too early. An error fails
  /// the save, and nothing is published. Must not call the engine. Not called for a save that
  /// failed before.
  std::function<Status()> before_publish = {};
};

/// How far a save is.
struct Progress {
  uint64_t total_bytes = 0;     ///< Known file bytes; grows while objects of unknown size stream.
  uint64_t captured_bytes = 0;  ///< Source bytes read.
  uint64_t flushed_bytes = 0;   ///< File bytes on storage, not yet synced.
  /// Whether all source memory has been read.
  bool captured = false;
  /// Whether the file is on storage under its final name.
  bool durable = false;
};

/// One save under way. A small shared handle; copies refer to the same save, and dropping all of
/// them does not cancel it. Thread-safe. A default-constructed handle stands for no save: its waits
/// return OK at once.
class SaveHandle {
 public:
  SaveHandle();
  ~SaveHandle();
  SaveHandle(const SaveHandle&);
  SaveHandle& operator=(const SaveHandle&);

  /// Blocks until all source memory has been read, or the save failed.
  Status WaitCaptured() const;
  /// Blocks until the file is on storage under its final name, or the save failed.
  /// kDurabilityUnknown: published, but a power cut may bring back the old file.
  Status WaitDurable() const;
  /// Asks the save to stop before it publishes. The file under the final name stays as it was. No
  /// effect once it is being published. Does not wait.
  void Cancel() const;
  /// Returns how far the save is, without waiting.
  Progress progress() const;

  /// For the engine, which makes handles.
  explicit SaveHandle(std::shared_ptr<SaveTask> task);

 private:
  std::shared_ptr<SaveTask> task_;
};

/// Totals since the engine was created, unless said otherwise. Durations are sums over threads.
struct Statistics {
  /// How many saves have begun, have become durable, and have failed.
  uint64_t saves_started = 0, saves_durable = 0, saves_failed = 0;
  /// Source bytes that were read, and file bytes that were written.
  uint64_t captured_bytes = 0, flushed_bytes = 0;
  uint64_t at_save_bytes = 0;  ///< Copied inside Save().
  uint64_t write_calls = 0;    ///< Writes submitted, partial resumptions included.
  /// The sizes of the staging pool and of a window, in bytes.
  uint64_t pool_bytes = 0, window_bytes = 0;
  /// How many saves had the same names, dtypes and shapes as the one before.
  uint64_t layouts_reused = 0;
  std::chrono::nanoseconds save_blocked{0};   ///< Inside Save().
  std::chrono::nanoseconds fence_blocked{0};  ///< Inside Fence() and FenceOnStream().
  std::chrono::nanoseconds window_stall{
      0};  ///< Capture waiting for a free window: the pool or the storage is the limit.
  std::chrono::nanoseconds at_save_stall{0};   ///< Save() waiting for room for at-save copies.
  std::chrono::nanoseconds copy_hash_busy{0};  ///< Workers copying and hashing.
  std::chrono::nanoseconds encode_busy{0};     ///< Workers encoding.
  std::chrono::nanoseconds write_busy{0};      ///< At least one write in flight.
  std::chrono::nanoseconds last_capture{0};    ///< Save() to captured, newest captured save.
  std::chrono::nanoseconds last_durable{0};    ///< Save() to durable, newest durable save.
  /// Pool with which the newest save would have been captured without waiting for storage: its
  /// bytes; 0 before any save.
  uint64_t suggested_pool_bytes = 0;
  /// Shortest time between saves that storage keeps up with: the newest save's durable time. 0
  /// before any.
  std::chrono::nanoseconds suggested_interval() const { return last_durable; }
};

/// Saves state without stopping the training loop. Long-lived: create one a process and keep it; it
/// owns the staging pool, its threads and the ring. Thread-safe: any thread may call any method;
/// saves are published in the order of the Save() calls. A fence covers the saves whose Save() call
/// returned before it.
///
/// Destroying the engine waits until every accepted save is durable or failed. In a forked child
/// the engine is inert: its methods fail and its destructor does nothing. The library neither
/// prints, nor exits, nor handles signals.
class Engine {
 public:
  /// Errors: kInvalidArgument (options), kOutOfMemory (pool), kUnsupported (IoBackend::kUring or a
  /// device where there is none).
  static Result<std::unique_ptr<Engine>> Create(EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Saves `provider` as one file at `path`: described now, captured as its capture classes say,
  /// written behind the caller's back, published atomically (an existing file keeps its mode and is
  /// replaced at once, or not at all). Returns when everything captured at save has been copied.
  /// The provider itself is not needed afterwards. Does no file I/O: errors returned here concern
  /// the description; those of destination and storage come from the handle and, once, from the
  /// engine's next wait if nobody saw them. A failure of an earlier save never affects this one.
  /// Device tensors: kUnsupported where no device can be used (DeviceSupport()),
  /// kFailedPrecondition while a graph is captured from one of their streams.
  Result<SaveHandle> Save(const std::string& path, const StateProvider& provider,
                          const SaveOptions& options = {});

  /// Call before an update changes lazily captured memory: blocks until all of it has been read.
  /// Free when no save is pending. Also returns, once, the error of a background save that nobody
  /// has looked at.
  ///
  /// With a `prefix`: before an update changes the tensors whose names begin with it; waits for
  /// these alone. Bytes are compared: "layers/1" means "layers/10" too, "layers/1/" does not. An
  /// update that walks groups can start while later ones are still being read. Tensors are read in
  /// the file's order: by the largest power of two, at most 4096, that divides their size,
  /// descending, then by name; encoded ones beside them by name. So groups whose names sort in the
  /// order of the update ("layers/007/") wait least. Does not wait for objects.
  Status Fence(std::string_view prefix = {});
  /// The same for device tensors, without stopping the host: what `stream` is given after this call
  /// waits on the device until every pending save has read its device tensors. Returns as soon as
  /// all their copies are queued: at once where the pool or a snapshot holds the state; else it
  /// blocks while storage makes room. Blocks as Fence() does for what is read by the host: lazily
  /// captured host tensors, and device tensors with an encoding. Null means the default stream of
  /// each device that is read. kFailedPrecondition while a graph is captured from `stream` and
  /// copies are pending.
  Status FenceOnStream(Stream stream, std::string_view prefix = {});
  /// Blocks until every save is durable or failed; returns the first error nobody has looked at.
  Status WaitDurable();

  /// Returns the counters as they are now.
  Statistics statistics() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Saves and waits until durable, with an engine of its own. For scripts and tools; a training loop
/// keeps an Engine.
Status SaveFile(const std::string& path, const StateProvider& provider,
                const SaveOptions& options = {}, EngineOptions engine = {.pool_bytes = 64 * kMiB});

/// Writes the same bytes front to back into `sink`, on the calling thread: pipes, object stores.
/// Memory: one chunk plus index and header. All sizes must be known before the first byte, so
/// objects with a `write` callback are refused (kUnsupported), and encoded items are encoded twice.
Status SaveTo(Sink& sink, const StateProvider& provider, const SaveOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_ENGINE_H_
