#ifndef DSCKPT_IO_POOL_H_
#define DSCKPT_IO_POOL_H_

// Windows, handed out under quotas.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::io {

/// Page-aligned anonymous memory, pre-touched, huge pages where the kernel gives them,
/// MADV_DONTFORK. Freed by the process that made it only (a forked child leaves it alone).
class Memory {
 public:
  static Result<Memory> Allocate(uint64_t bytes);
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;
  ~Memory();
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit Memory(std::span<std::byte> bytes);
  std::span<std::byte> bytes_;
  int64_t owner_process_ = 0;
};

/// A bounded set of equal windows cut from one Memory, handed out under quotas that make deadlock
/// impossible (proof in pool.cc): of n windows at-save copies hold at most n/2, appended items at
/// most max(1, n/4), the rest serves the placed image, which storage alone holds back. With n < 4
/// the caller must not take windows for appended items while placed ones of the same save are still
/// to come. Thread-safe. Waiting is fair within a use.
class WindowPool {
 public:
  enum class Use { kPlaced, kAtSave, kAppended };
  struct Window {
    int index = -1;
    std::span<std::byte> bytes;
  };

  /// Rounds down to whole windows; at least two. kInvalidArgument, kOutOfMemory.
  static Result<std::unique_ptr<WindowPool>> Create(uint64_t pool_bytes, uint64_t window_bytes);
  ~WindowPool();

  /// Blocks until a window is free for `use`. Adds the time waited to *waited_ns when not null.
  Window Acquire(Use use, uint64_t* waited_ns = nullptr);
  /// The same without waiting: index -1 when none is free for `use`.
  Window TryAcquire(Use use);
  void Release(Use use, int index);

  int count() const;
  uint64_t window_bytes() const;
  /// By index, for registration.
  const std::vector<std::span<std::byte>>& windows() const;

 private:
  struct Impl;
  explicit WindowPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_POOL_H_
