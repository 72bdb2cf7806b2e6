#ifndef DSCKPT_IO_QUEUE_H_
#define DSCKPT_IO_QUEUE_H_

// Reads and writes at offsets that complete later, on io_uring or on threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "dsckpt/status.h"
#include "io/error.h"

namespace dsckpt::io {

/// One read or write. Completes once, whole: short completions are resumed at offset + done inside
/// the queue.
struct IoRequest {
  enum class Op { kRead, kWrite };
  Op op = Op::kWrite;
  int fd = -1;
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  /// Registered buffer that holds `data`, or -1.
  int buffer = -1;
  /// Called from a queue thread. `error` is 0 or an errno (reads at end of file: ENODATA); `done`
  /// the bytes that got through, all of them on success. Must not block for long; may submit.
  std::function<void(int error, uint64_t done)> complete;
};

struct IoQueueOptions {
  enum class Backend { kAuto, kUring, kThreads };
  Backend backend = Backend::kAuto;
  /// Requests in the kernel at once; more wait inside the queue.
  unsigned depth = 16;
  /// Buffers to register, or empty. Registration failing (ENOMEM, EOPNOTSUPP, EFAULT, ...) is a
  /// warning.
  std::span<const std::span<std::byte>> buffers = {};
};

/// Asynchronous positioned I/O: io_uring, or a few threads with pread/pwrite where there is no ring
/// (EPERM, ENOSYS, or built without). Thread-safe. The destructor waits for everything submitted.
class IoQueue {
 public:
  /// kUnsupported when Backend::kUring is asked for and there is no ring.
  static Result<std::unique_ptr<IoQueue>> Create(const IoQueueOptions& options, const Warn& warn);
  virtual ~IoQueue() = default;
  /// Never blocks on the device.
  virtual void Submit(IoRequest request) = 0;
  /// "io_uring" or "threads".
  virtual const char* name() const = 0;
  /// Kernel requests so far, resumptions included.
  virtual uint64_t requests() const = 0;
  /// Time with at least one request in the kernel.
  virtual uint64_t busy_nanoseconds() const = 0;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_QUEUE_H_
