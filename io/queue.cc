#include "io/queue.h"

#include <string>
#include <system_error>
#include <utility>

#include "io/transfer.h"

namespace dsckpt::io {

Result<std::unique_ptr<IoQueue>> IoQueue::Create(const IoQueueOptions& options, const Warn& warn) {
  if (options.depth == 0 || options.depth > 4096) {
    return Status(StatusCode::kInvalidArgument,
                  "queue depth " + std::to_string(options.depth) + " is not in 1..4096");
  }
  if (options.backend != IoQueueOptions::Backend::kThreads) {
    int error_number = 0;
    if (auto ring = MakeRingQueue(options, warn, &error_number)) return ring;
    const std::string why = std::generic_category().message(error_number);
    if (options.backend == IoQueueOptions::Backend::kUring) {
      return Status(StatusCode::kUnsupported,
                    "cannot set up io_uring: " + why + "; choose automatic or threaded I/O instead")
          .WithErrno(error_number);
    }
    if (warn) {
      warn(Status(StatusCode::kUnsupported,
                  "cannot set up io_uring: " + why + "; using threads with pread and pwrite")
               .WithErrno(error_number));
    }
  }
  if (auto threads = MakeThreadQueue(options)) return threads;
  return Status(StatusCode::kOutOfMemory, "cannot start a thread for I/O").WithErrno(EAGAIN);
}

}  // namespace dsckpt::io
