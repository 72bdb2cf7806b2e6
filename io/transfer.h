#ifndef DSCKPT_IO_TRANSFER_H_
#define DSCKPT_IO_TRANSFER_H_

// One read or write under way, resumed after short completions: for both kinds of queue.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "io/queue.h"

namespace dsckpt::io {

/// A request on its way through the kernel, shared by both kinds of queue.
struct Transfer {
  /// One kernel request moves at most this much: Linux cuts a single read or write at
  /// 2,147,479,552 bytes, and a page-aligned limit keeps resumed O_DIRECT requests aligned.
  static constexpr uint64_t kMaxKernelBytes = uint64_t{1} << 30;
  /// EAGAIN answers in a row, without a byte moved, before it counts as a failure.
  static constexpr int kMaxStalls = 10'000;

  IoRequest request;
  uint64_t done = 0;
  int stalls = 0;

  std::byte* next_data() const { return request.data + done; }
  uint64_t next_offset() const { return request.offset + done; }
  uint64_t next_bytes() const { return std::min(request.bytes - done, kMaxKernelBytes); }

  /// Takes what the kernel answered: bytes moved, or a negative errno. Returns the error to
  /// complete with (0: success), or nothing when the rest is to be asked for.
  std::optional<int> Advance(int64_t answer) {
    if (answer > 0) {
      done += static_cast<uint64_t>(answer);
      stalls = 0;
      if (done >= request.bytes) return 0;
      return std::nullopt;
    }
    if (answer == -EINTR || (answer == -EAGAIN && ++stalls < kMaxStalls)) return std::nullopt;
    if (answer < 0) return static_cast<int>(-answer);
    // Zero bytes: the end of the file, or a device that takes nothing and says no reason.
    return request.op == IoRequest::Op::kRead ? ENODATA : EIO;
  }
};

/// Time during which something was going on. Not thread-safe.
class BusyClock {
 public:
  void Enter() {
    if (active_++ == 0) since_ = std::chrono::steady_clock::now();
  }
  void Leave() {
    if (--active_ == 0) total_ += std::chrono::steady_clock::now() - since_;
  }
  uint64_t nanoseconds() const {
    auto total = total_;
    if (active_ != 0) total += std::chrono::steady_clock::now() - since_;
    return static_cast<uint64_t>(std::chrono::nanoseconds(total).count());
  }

 private:
  int active_ = 0;
  std::chrono::steady_clock::time_point since_;
  std::chrono::steady_clock::duration total_{0};
};

/// Null, with *error_number set, where the kernel gives no ring.
std::unique_ptr<IoQueue> MakeRingQueue(const IoQueueOptions& options, const Warn& warn,
                                       int* error_number);
/// Null where not one thread could be started.
std::unique_ptr<IoQueue> MakeThreadQueue(const IoQueueOptions& options);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_TRANSFER_H_
