#ifndef DSCKPT_WRITER_ENGINE_SAVE_PROGRESS_H_
#define DSCKPT_WRITER_ENGINE_SAVE_PROGRESS_H_

// How far one save is, and who waits for what.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "base/mutex.h"
#include "dsckpt/status.h"
#include "writer/engine/fence_progress.h"
#include "writer/engine/resources.h"

namespace dsckpt {

/// Counts of one save that anybody may read at any time.
struct SaveCounters {
  std::atomic<uint64_t> total_bytes{0}, captured_bytes{0}, flushed_bytes{0};
  std::atomic<uint64_t> window_stall_ns{0};  // That held capture up.
  std::atomic<uint64_t> capture_ns{0};       // From Save() to captured; 0 until then.
};

/// Source bytes and callbacks that a save has still to read.
struct SourcesLeft {
  uint64_t bytes = 0;
  /// Of these bytes, those that no device has been told to read yet.
  uint64_t unordered_bytes = 0;
  /// Of these bytes, at-save bytes that Save() waits for because there was no room for a copy.
  uint64_t awaited_bytes = 0;
  /// `write` callbacks that have not returned.
  uint64_t callbacks = 0;

  bool none() const { return bytes == 0 && callbacks == 0; }
};

/// The progress of one save: its stages and their workers report here, and whoever needs to know
/// waits here. Thread-safe.
class SaveProgress {
 public:
  /// The owners of the save's sources, dropped once they have been read. They are the caller's
  /// objects, whose destructors may do anything: never dropped while the mutex is held.
  using Owners = std::vector<std::shared_ptr<const void>>;

  SaveProgress(Clock::time_point started, const SourcesLeft& left, Owners owners,
               EngineCounters& engine);

  SaveCounters& counters() { return counters_; }
  const SaveCounters& counters() const { return counters_; }

  // --- Failure and the end.

  /// Marks the save failed (the first failure wins) and makes its stages stop.
  void Fail(Status status);
  /// Runs `body` (returning Status) unless the save stopped; what it returns or throws is the
  /// save's failure.
  template <typename Body>
  void RunGuarded(Body&& body) {
    if (stopped()) return;
    Status status = Guarded(std::forward<Body>(body));
    if (!status.ok()) Fail(std::move(status));
  }
  /// Fails the save with `reason`, unless it is being published or done.
  void Cancel(Status reason);
  /// Failed or cancelled: stages stop moving data.
  bool stopped() const { return stopped_; }
  /// The point after which Cancel() has no effect; false when the save stopped before.
  bool BeginPublishing();
  /// Sets the final state. An error replaces whatever was known before; OK: durable.
  void MarkDone(Status status);

  // --- What stages report.

  /// One more or one fewer thing under way (window tasks, writes) that commit has to wait for.
  void AddPending();
  void FinishPending();
  /// Source bytes were read; Save() waits for `awaited` of them.
  void Captured(uint64_t bytes, uint64_t awaited = 0);
  /// A `write` callback returned.
  void CallbackReturned();
  /// So many at-save bytes are left to the stages; Save() waits until they have been read.
  void LeaveToStages(uint64_t bytes);
  /// Devices have been told to copy so many at-save bytes; AtSaveCopied() follows.
  void AtSaveEnqueued(uint64_t bytes);
  void AtSaveCopied(uint64_t bytes);
  /// Devices have been told to copy so many bytes, with which the copies into the first `windows`
  /// windows are enqueued; Copied() follows.
  void WindowsEnqueued(uint64_t bytes, uint64_t windows);
  /// Devices have been told to take a snapshot of so many bytes, of all that they are to read into
  /// windows or of a part; Copied() follows.
  void SnapshotEnqueued(uint64_t bytes, bool all);
  /// Copies that were enqueued are done.
  void Copied(uint64_t bytes, uint64_t awaited = 0);
  /// Nothing of this window of the placed image is left to read.
  void WindowRead(uint64_t window);
  /// Nothing of the next appended item is left to read.
  void AppendedItemRead();
  /// Capture waited so long for a window.
  void AddWindowStall(uint64_t nanoseconds);
  /// The output file is there, or could not be made.
  void FileReady();
  /// All windows of the placed image have been handed to workers.
  void PlacedDispatched();
  void AppendDone();

  // --- What stages wait for.

  /// False when the save stopped.
  bool AwaitFile();
  /// Until at-save copies hold what devices were to copy there.
  void AwaitAtSaveCopied();
  void AwaitNothingPending();
  /// False when the save stopped before.
  bool AwaitPlacedDispatched();
  /// Until both stages have ended and nothing is pending.
  void AwaitStagesIdle();

  // --- What callers wait for. All of it ends when the save is done.

  /// Until at-save sources that had no room for a copy have been read.
  void AwaitSaveMayReturn();
  void AwaitCaptured();
  void AwaitDone();
  /// Until everything has been read by the host or is enqueued on a device. True: devices still
  /// read.
  bool AwaitOrdered();
  /// Until what lies in `scope` has been read.
  void AwaitRead(const FenceScope& scope);
  /// Until the host has read its part of `scope` and the rest is enqueued on devices. Returns how
  /// many windows their copies concern (see DeviceCapture::MakeWait), or nothing when all has been
  /// read.
  std::optional<uint64_t> AwaitOrdered(const FenceScope& scope);
  /// As SaveHandle: the caller has seen the error that this returns.
  Status WaitCaptured();
  Status WaitDone();

  bool captured() const;
  bool durable() const;
  /// Captured or done: a fence has nothing to wait for.
  bool sources_free() const;
  bool seen() const;
  Status status() const;

 private:
  void Account(uint64_t captured, uint64_t ordered, uint64_t awaited);
  /// Marks the save captured once nothing is left to read; returns the owners to drop.
  Owners CheckCaptured() DSCKPT_REQUIRES(mutex_);

  EngineCounters& engine_;
  const Clock::time_point started_;
  SaveCounters counters_;
  std::atomic<bool> stopped_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  Status status_ DSCKPT_GUARDED_BY(mutex_);
  uint64_t pending_ DSCKPT_GUARDED_BY(mutex_) = 0;
  SourcesLeft left_ DSCKPT_GUARDED_BY(mutex_);
  Owners owners_ DSCKPT_GUARDED_BY(mutex_);
  FenceProgress fences_ DSCKPT_GUARDED_BY(mutex_);
  int fences_waiting_ DSCKPT_GUARDED_BY(mutex_) = 0;
  bool file_ready_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool at_save_copied_ DSCKPT_GUARDED_BY(mutex_) = true;
  bool placed_dispatched_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool append_done_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool captured_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool publishing_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool done_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool seen_ DSCKPT_GUARDED_BY(mutex_) = false;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_SAVE_PROGRESS_H_
