// The queue on threads.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "io/syscalls.h"
#include "io/transfer.h"
#include "io/workers.h"

namespace dsckpt::io {
namespace {

/// Enough to keep several requests in a device's queue; more only adds stacks.
constexpr unsigned kMaxThreads = 8;

class ThreadQueue : public IoQueue {
 public:
  explicit ThreadQueue(unsigned depth)
      : workers_(static_cast<int>(std::min(depth, kMaxThreads)), "dsckpt-io") {}

  bool running() const { return workers_.count() > 0; }

  void Submit(IoRequest request) override {
    workers_.Run([this, transfer = Transfer{.request = std::move(request)}]() mutable {
      Perform(transfer);
    });
  }
  const char* name() const override { return "threads"; }
  uint64_t requests() const override {
    MutexLock lock(mutex_);
    return requests_;
  }
  uint64_t busy_nanoseconds() const override {
    MutexLock lock(mutex_);
    return busy_.nanoseconds();
  }

 private:
  void Perform(Transfer& transfer) {
    std::optional<int> error;
    if (transfer.request.bytes == 0) error = 0;
    while (!error) error = transfer.Advance(Once(transfer));
    transfer.request.complete(*error, transfer.done);
  }

  int64_t Once(const Transfer& transfer) {
    {
      MutexLock lock(mutex_);
      ++requests_;
      busy_.Enter();
    }
    const off_t offset = static_cast<off_t>(transfer.next_offset());
    const int fd = transfer.request.fd;
    const ssize_t moved =
        transfer.request.op == IoRequest::Op::kWrite
            ? Sys().pwrite(fd, transfer.next_data(), transfer.next_bytes(), offset)
            : Sys().pread(fd, transfer.next_data(), transfer.next_bytes(), offset);
    const int64_t answer = moved >= 0 ? moved : -errno;
    MutexLock lock(mutex_);
    busy_.Leave();
    return answer;
  }

  mutable Mutex mutex_;
  uint64_t requests_ DSCKPT_GUARDED_BY(mutex_) = 0;
  BusyClock busy_ DSCKPT_GUARDED_BY(mutex_);
  Workers workers_;  // Last: its destructor runs what is queued, which uses the rest.
};

}  // namespace

std::unique_ptr<IoQueue> MakeThreadQueue(const IoQueueOptions& options) {
  auto queue = std::make_unique<ThreadQueue>(options.depth);
  if (!queue->running()) return nullptr;
  return queue;
}

}  // namespace dsckpt::io
