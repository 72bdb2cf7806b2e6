#include "io/pool.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "dsckpt/limits.h"

// Why nobody waits for ever. Of n windows, at-save copies take at most n/2 and appended items at
// most max(1, n/4).
//
// 1. A placed window is released by storage alone: whoever holds it copies from sources that exist
//    and writes it, and takes no other window on the way. So is an appended window: an append stage
//    fills the one it holds, hands it to storage and only then asks for the next, and holds none
//    when it pauses (ImageWriter::Park). Commit takes placed windows, one at a time.
// 2. An at-save window is released when its bytes have been copied into placed or appended windows.
// 3. A free window goes to the oldest waiter whose use is below its quota; placed has none. So
// while
//    a placed waiter exists no window lies idle, and it can wait only for windows that are held.
// 4. n >= 3: n/2 + max(1, n/4) < n, so at least one window is free or held as placed; by 1 it comes
//    back, and by 3 placed waiters are served. n = 2: one at-save and one appended window may be
//    all there is; by 1 the appended window comes back without help from any placed window (the
//    caller's duty for n < 4: no appended window while placed ones of the same save are to come, so
//    it is never kept until placed ones are written).
// 5. Placed waiters are therefore always served; hence at-save windows come back (2), hence at-save
//    and appended waiters are served, being oldest of their use at some time and below quota after
//    a release.

namespace dsckpt::io {

struct WindowPool::Impl {
  struct Waiter {
    Use use;
    int granted = -1;
    CondVar served;
  };

  explicit Impl(Memory allocated, uint64_t size)
      : memory(std::move(allocated)), window_bytes(size) {
    const uint64_t n = memory.bytes().size() / window_bytes;
    for (uint64_t i = 0; i < n; ++i) {
      windows.push_back(memory.bytes().subspan(i * window_bytes, window_bytes));
      free.push_back(static_cast<int>(i));  // Ascending, hence a heap.
    }
    const int total = static_cast<int>(n);
    limit = {total, total / 2, std::max(1, total / 4)};
  }

  bool MayTake(Use use) const DSCKPT_REQUIRES(mutex) {
    return !free.empty() && held[Index(use)] < limit[Index(use)];
  }
  int Take(Use use) DSCKPT_REQUIRES(mutex) {
    ++held[Index(use)];
    std::pop_heap(free.begin(), free.end(), std::greater<>());
    const int index = free.back();
    free.pop_back();
    return index;
  }
  static size_t Index(Use use) { return static_cast<size_t>(use); }

  void Serve() DSCKPT_REQUIRES(mutex) {
    for (auto it = waiters.begin(); it != waiters.end() && !free.empty();) {
      Waiter& waiter = **it;
      if (!MayTake(waiter.use)) {
        ++it;
        continue;
      }
      waiter.granted = Take(waiter.use);
      waiter.served.NotifyOne();
      it = waiters.erase(it);
    }
  }

  Memory memory;
  const uint64_t window_bytes;
  std::vector<std::span<std::byte>> windows;

  Mutex mutex;
  /// A heap, lowest index first: windows taken in a row then lie in a row, and a device fills
  /// them with one copy.
  std::vector<int> free DSCKPT_GUARDED_BY(mutex);
  std::array<int, 3> held DSCKPT_GUARDED_BY(mutex) = {};
  std::array<int, 3> limit DSCKPT_GUARDED_BY(mutex) = {};
  std::list<Waiter*> waiters
      DSCKPT_GUARDED_BY(mutex);  // Oldest first. A waiter lives on its thread's stack.
};

Result<std::unique_ptr<WindowPool>> WindowPool::Create(uint64_t pool_bytes, uint64_t window_bytes) {
  if (window_bytes == 0 || window_bytes % kPageBytes != 0) {
    return Status(StatusCode::kInvalidArgument, "window size " + std::to_string(window_bytes) +
                                                    " is not a positive multiple of 4096");
  }
  const uint64_t count = pool_bytes / window_bytes;
  if (count < 2 || count > uint64_t{1} << 30) {
    return Status(StatusCode::kInvalidArgument, "a pool of " + std::to_string(pool_bytes) +
                                                    " bytes holds " + std::to_string(count) +
                                                    " windows of " + std::to_string(window_bytes) +
                                                    " bytes; it must hold at least 2");
  }
  DSCKPT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(count * window_bytes));
  return std::unique_ptr<WindowPool>(
      new WindowPool(std::make_unique<Impl>(std::move(memory), window_bytes)));
}

WindowPool::WindowPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WindowPool::~WindowPool() = default;

WindowPool::Window WindowPool::Acquire(Use use, uint64_t* waited_ns) {
  MutexLock lock(impl_->mutex);
  // Never past an older waiter of the same use: Serve() left it waiting because MayTake() was
  // false.
  if (impl_->MayTake(use)) {
    const int index = impl_->Take(use);
    return {index, impl_->windows[static_cast<size_t>(index)]};
  }
  const auto start = std::chrono::steady_clock::now();
  Impl::Waiter self{.use = use, .granted = -1, .served = {}};
  impl_->waiters.push_back(&self);
  while (self.granted < 0) self.served.Wait(lock);
  if (waited_ns != nullptr) {
    *waited_ns += static_cast<uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  }
  return {self.granted, impl_->windows[static_cast<size_t>(self.granted)]};
}

WindowPool::Window WindowPool::TryAcquire(Use use) {
  MutexLock lock(impl_->mutex);
  if (!impl_->MayTake(use)) return {};
  const int index = impl_->Take(use);
  return {index, impl_->windows[static_cast<size_t>(index)]};
}

void WindowPool::Release(Use use, int index) {
  MutexLock lock(impl_->mutex);
  --impl_->held[Impl::Index(use)];
  impl_->free.push_back(index);
  std::push_heap(impl_->free.begin(), impl_->free.end(), std::greater<>());
  // Under the lock: a served waiter must not leave, and destroy its condition, before notify.
  impl_->Serve();
}

int WindowPool::count() const { return static_cast<int>(impl_->windows.size()); }
uint64_t WindowPool::window_bytes() const { return impl_->window_bytes; }
const std::vector<std::span<std::byte>>& WindowPool::windows() const { return impl_->windows; }

}  // namespace dsckpt::io
