#ifndef DSCKPT_WRITER_ENGINE_SAVE_TASK_H_
#define DSCKPT_WRITER_ENGINE_SAVE_TASK_H_

// One save from Save() to durable.

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "dsckpt/engine.h"
#include "format/columns/columns.h"
#include "io/output_file.h"
#include "state/file_layout.h"
#include "writer/device/capture.h"
#include "writer/engine/at_save_copies.h"
#include "writer/engine/describe.h"
#include "writer/engine/fence_scope.h"
#include "writer/engine/resources.h"

namespace dsckpt {

class ImageWriter;
class PlacedStage;

/// What the log stage learns about one log item.
struct AppendedRecord {
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  std::vector<Hash128> sums;
  std::vector<format::StoredChunk> stored_chunks;  // Encoded items only.
};

/// What a forked child gets for using its parent's engine or saves.
Status InChildStatus();

/// One save from Save() to durable. Passed along by shared_ptr: raw stage and log stage run side by
/// side, then commit.
struct DSCKPT_HIDDEN SaveHandle::Job {
  Job(EngineResources& resources, std::string path, SaveOptions options,
      std::shared_ptr<LaidOutState> described);
  ~Job();

  EngineResources& resources;
  const std::string path;
  const SaveOptions options;
  std::shared_ptr<LaidOutState> described;  // Until done.
  const FileLayout& layout;                 // Of `described`.
  const Description::Data& data;            // Of `described`.
  const Clock::time_point started = Clock::now();

  AtSaveCopies eager;
  std::shared_ptr<DeviceCapture> device;  // Null: no tensor lies on a device. Until done.
  std::unique_ptr<io::OutputFile> file;   // There after WaitFile().
  std::vector<Hash128>
      tensor_sums;  // By chunk, tensors in ordinal order. Disjoint writes by workers.
  std::vector<AppendedRecord> log;  // As layout.log.
  std::unique_ptr<PlacedStage> placed_stage;
  std::unique_ptr<ImageWriter> log_writer;  // The log stage's, then commit's.

  // Progress; readable at any time.
  std::atomic<uint64_t> total_bytes{0}, captured_bytes{0}, flushed_bytes{0};
  std::atomic<bool> stop{false};             // Failed or cancelled: stages stop moving data.
  std::atomic<uint64_t> window_stall_ns{0};  // That held capture up.
  std::atomic<uint64_t> capture_ns{0};

  /// Marks the save failed (first failure wins) and makes its stages stop.
  void Fail(Status status);
  /// Runs `body` (returning Status) unless the save stopped; what it returns or throws is the
  /// save's failure.
  template <typename Body>
  void Attempt(Body&& body) {
    if (stop) return;
    Status attempted = Guarded(std::forward<Body>(body));
    if (!attempted.ok()) Fail(std::move(attempted));
  }
  /// One more or one fewer thing under way (window tasks, writes) that commit has to wait for.
  void AddPending(uint64_t count = 1);
  void FinishPending();
  /// Inside Save(): makes or enqueues the at-save copies.
  void CaptureAtSave(uint64_t* waited_ns);
  /// Source bytes of tensors or objects were read; `at_save_direct` of them Save() waits for.
  void AddCaptured(uint64_t bytes, uint64_t at_save_direct);
  /// Copies of so many bytes are enqueued on devices, so that a stream can wait for them; when they
  /// are done, AddLanded() instead of AddCaptured(). `windows`: with them the copies into so many
  /// windows of the raw image are enqueued.
  void AddEnqueued(uint64_t bytes, uint64_t windows = 0);
  /// The same for a snapshot on devices, of all that they are to read into windows or of a part.
  void MarkSnapshot(uint64_t bytes, bool all);
  void AddLanded(uint64_t bytes, uint64_t at_save_direct);
  /// Nothing of a window of the raw image, or of the next log item, is left to read.
  void MarkWindowRead(uint64_t window);
  void MarkLogItemRead();
  void MarkFileReady();
  void MarkRawDispatched();
  void MarkLogDone();
  /// Final state. OK: durable. Gives back everything but the outcome, since callers may keep
  /// handles for long.
  void MarkDone(Status status);

  /// A `write` callback returned.
  void FinishCallback();
  void Cancel();
  /// The point after which Cancel() has no effect; false when the save stopped before.
  bool BeginPublishing();

  bool WaitFile();          // False when the save stopped.
  void WaitAtSaveLanded();  // The arena holds what was to be copied from devices.
  void WaitNothingPending();
  bool WaitRawDispatched();   // False when the save stopped before.
  void WaitStagesIdle();      // Raw dispatched, log done, nothing pending.
  void WaitDirectCaptured();  // At-save sources that did not fit into the arena have been read.
  void AwaitCapturedOrDone();
  /// Blocks until everything lazily captured was read by the host or is enqueued on a device;
  /// returns what else to wait for on devices: null when there is nothing.
  std::shared_ptr<DeviceCapture> AwaitOrderedOrDone();
  /// The same for the tensors whose names begin with `prefix`.
  struct Ordered {
    std::shared_ptr<DeviceCapture> device;
    uint64_t windows;  // See DeviceCapture::MakeWait().
  };
  Ordered AwaitGroupOrderedOrDone(std::string_view prefix);
  /// Blocks until they have been read.
  void AwaitGroupCapturedOrDone(std::string_view prefix);
  void AwaitDone();
  Status WaitCaptured();  // As SaveHandle: the caller has seen the error.
  Status WaitDone();
  bool WasSeen();

  /// Pool with which capture would not have waited for storage.
  uint64_t SuggestedPoolBytes() const;

  /// In a forked child nothing moves on: waits must not wait there.
  const pid_t process = getpid();

  mutable std::mutex mutex;
  std::condition_variable changed;
  // Guarded by `mutex`.
  Status status;
  uint64_t pending = 0;
  uint64_t uncaptured = 0;      // Source bytes still to be read ...
  uint64_t unordered = 0;       // ... and those among them that no device is to read yet.
  uint64_t direct_at_save = 0;  // Of these, at-save bytes that Save() waits for.
  bool file_ready = false, at_save_landed = true, raw_dispatched = false, log_done = false;
  // Groups wait for these.
  std::vector<bool> window_read;
  uint64_t windows_read = 0;      // Of them all before this one ...
  uint64_t windows_enqueued = 0;  // ... and so many without what devices are to copy.
  uint64_t log_items_read = 0;
  bool all_in_snapshot = false;  // No window matters to device tensors.
  int group_fences = 0;          // Waiting now.
  uint64_t callbacks_left = 0;   // `write` callbacks that have not returned.
  bool captured = false, publishing = false, done = false, seen = false;

 private:
  /// Marks the save captured once nothing is left to read; returns the owners of its sources, to be
  /// dropped after `mutex` was unlocked because their destructors are the caller's code. REQUIRES:
  /// mutex held.
  std::vector<std::shared_ptr<const void>> CheckCaptured();
  /// Blocks until `reached(ends)`, asked with `mutex` held, or the save is done; then the ends are
  /// empty.
  template <typename Reached>
  FenceScope AwaitGroup(std::string_view prefix, Reached reached);
  void Account(uint64_t captured, uint64_t ordered, uint64_t at_save_direct);
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_SAVE_TASK_H_
