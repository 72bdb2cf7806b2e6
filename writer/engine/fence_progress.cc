#include "writer/engine/fence_progress.h"

#include <algorithm>

namespace dsckpt {

void FenceProgress::WindowRead(uint64_t window) {
  if (window_read_.size() <= window) window_read_.resize(window + 1);
  window_read_[window] = true;
  while (windows_read_ < window_read_.size() && window_read_[windows_read_]) ++windows_read_;
}

void FenceProgress::WindowsEnqueued(uint64_t windows) {
  windows_enqueued_ = std::max(windows_enqueued_, windows);
}

bool FenceProgress::HasRead(const FenceScope& scope) const {
  return appended_read_ >= scope.appended_items &&
         windows_read_ >= std::max(scope.host_windows, scope.device_windows);
}

bool FenceProgress::HasOrdered(const FenceScope& scope) const {
  return appended_read_ >= scope.appended_items && windows_read_ >= scope.host_windows &&
         (windows_enqueued_ >= scope.device_windows || all_in_snapshot_);
}

}  // namespace dsckpt
