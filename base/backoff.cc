#include "base/backoff.h"

#include <algorithm>
#include <thread>

namespace dsckpt {

bool Backoff::Wait() {
  const auto now = Clock::now();
  if (now >= deadline_) return false;
  std::this_thread::sleep_for(std::min<Clock::duration>(pause_, deadline_ - now));
  pause_ = std::min(2 * pause_, std::chrono::milliseconds(100));
  return true;
}

}  // namespace dsckpt
