#ifndef DSCKPT_WRITER_ENGINE_FENCE_PROGRESS_H_
#define DSCKPT_WRITER_ENGINE_FENCE_PROGRESS_H_

// How far a save is, as a fence for some of its tensors asks.

#include <cstdint>
#include <vector>

#include "writer/engine/fence_scope.h"

namespace dsckpt {

/// What a fence by prefix waits for: windows and appended items are taken in order, so that counts
/// are enough. Not thread-safe: part of SaveProgress, under its mutex.
class FenceProgress {
 public:
  void WindowRead(uint64_t window);
  void AppendedItemRead() { ++appended_read_; }
  /// The device copies into the first `windows` windows are enqueued.
  void WindowsEnqueued(uint64_t windows);
  /// Devices hold a snapshot of all that they were to read into windows, so that no window matters
  /// to them.
  void SnapshotHoldsAll() { all_in_snapshot_ = true; }

  /// Everything in `scope` has been read.
  bool HasRead(const FenceScope& scope) const;
  /// The host has read its part of `scope`; devices have been told to read theirs.
  bool HasOrdered(const FenceScope& scope) const;
  /// How many of the first windows a device's copies for `scope` go to.
  uint64_t DeviceWindows(const FenceScope& scope) const {
    return all_in_snapshot_ ? 0 : scope.device_windows;
  }

 private:
  std::vector<bool> window_read_;
  uint64_t windows_read_ = 0;      // So many from the first on, all of them.
  uint64_t windows_enqueued_ = 0;  // So many without what devices are to copy.
  uint64_t appended_read_ = 0;
  bool all_in_snapshot_ = false;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_FENCE_PROGRESS_H_
