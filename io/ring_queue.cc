// The queue on io_uring.

#include "base/mutex.h"
#include "io/transfer.h"

#if DSCKPT_WITH_URING

#include <liburing.h>
#include <sys/uio.h>

#include <array>
#include <chrono>
#include <deque>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "io/syscalls.h"
#include "io/workers.h"

namespace dsckpt::io {
namespace {

constexpr uint64_t kStop = ~uint64_t{0};
constexpr uint64_t kIgnore = kStop - 1;

/// io_uring with one thread that takes completions. Any thread submits, under the mutex: the
/// submission side of a ring has no lock of its own. Needs nothing beyond Linux 5.1 (vectored and
/// fixed reads and writes), so there is no feature to probe.
class RingQueue : public IoQueue {
 public:
  explicit RingQueue(unsigned depth) : depth_(depth), slots_(depth) {
    for (unsigned i = depth; i > 0; --i) free_.push_back(i - 1);
  }

  ~RingQueue() override {
    if (!ring_ready_) return;
    if (reaper_.joinable()) {
      {
        MutexLock lock(mutex_);
        while (outstanding_ != 0) idle_.Wait(lock);
        // Nothing is in the kernel, so that a failure can only be transient.
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        io_uring_prep_nop(sqe);
        sqe->user_data = kStop;
        while (Push() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      reaper_.join();
    }
    io_uring_queue_exit(&ring_);
  }

  /// 0, or the errno for which there is no ring.
  int Start(std::span<const std::span<std::byte>> buffers, const Warn& warn) {
    // Two entries more than requests: the stop mark, and a request that could not be submitted.
    const int error = Sys().ring_init(depth_ + 2, &ring_, 0);
    if (error != 0) return -error;
    ring_ready_ = true;
    Register(buffers, warn);
    reaper_ = StartThread("dsckpt-ring", [this] { Reap(); });
    return reaper_.joinable() ? 0 : EAGAIN;
  }

  void Submit(IoRequest request) override {
    Finished finished;
    {
      MutexLock lock(mutex_);
      ++outstanding_;
      waiting_.push_back(std::move(request));
      StartWaiting(finished);
    }
    Complete(finished);
  }
  const char* name() const override { return "io_uring"; }
  uint64_t requests() const override {
    MutexLock lock(mutex_);
    return requests_;
  }
  uint64_t busy_nanoseconds() const override {
    MutexLock lock(mutex_);
    return busy_.nanoseconds();
  }

 private:
  struct Slot {
    Transfer transfer;
    iovec vector = {};  // Read by the kernel at any time until completion before Linux 5.5.
  };
  struct Outcome {
    Transfer transfer;
    int error;
  };
  using Finished = std::vector<Outcome>;

  void Register(std::span<const std::span<std::byte>> buffers, const Warn& warn) {
    if (buffers.empty()) return;
    std::vector<iovec> vectors;
    for (std::span<std::byte> buffer : buffers) vectors.push_back({buffer.data(), buffer.size()});
    const int error =
        Sys().ring_register(&ring_, vectors.data(), static_cast<unsigned>(vectors.size()));
    registered_ = error == 0;
    if (registered_ || !warn) return;
    warn(Status(StatusCode::kUnsupported,
                "cannot register " + std::to_string(vectors.size()) +
                    " buffers with io_uring: " + std::generic_category().message(-error) +
                    "; using them unregistered (raise the memlock limit to avoid this)")
             .WithErrno(-error));
  }

  void StartWaiting(Finished& finished) DSCKPT_REQUIRES(mutex_) {
    while (!waiting_.empty() && !free_.empty()) {
      const unsigned index = free_.back();
      free_.pop_back();
      slots_[index].transfer = Transfer{.request = std::move(waiting_.front())};
      waiting_.pop_front();
      const Transfer& transfer = slots_[index].transfer;
      const int error = transfer.request.bytes == 0 ? 0 : Ask(index);
      if (error != 0 || transfer.request.bytes == 0) Finish(index, error, finished);
    }
  }

  void Finish(unsigned index, int error, Finished& finished) DSCKPT_REQUIRES(mutex_) {
    finished.push_back({std::move(slots_[index].transfer), error});
    slots_[index].transfer = {};
    free_.push_back(index);
  }

  /// Submits what is left of a transfer. 0, or the errno for which the kernel does not take it.
  int Ask(unsigned index) DSCKPT_REQUIRES(mutex_) {
    Slot& slot = slots_[index];
    const Transfer& transfer = slot.transfer;
    const IoRequest& request = transfer.request;
    slot.vector = {transfer.next_data(), transfer.next_bytes()};
    const unsigned bytes = static_cast<unsigned>(transfer.next_bytes());
    const uint64_t offset = transfer.next_offset();
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return EBUSY;
    const bool fixed = registered_ && request.buffer >= 0;
    const bool write = request.op == IoRequest::Op::kWrite;
    if (fixed && write) {
      io_uring_prep_write_fixed(sqe, request.fd, slot.vector.iov_base, bytes, offset,
                                request.buffer);
    } else if (fixed) {
      io_uring_prep_read_fixed(sqe, request.fd, slot.vector.iov_base, bytes, offset,
                               request.buffer);
    } else if (write) {
      io_uring_prep_writev(sqe, request.fd, &slot.vector, 1, offset);
    } else {
      io_uring_prep_readv(sqe, request.fd, &slot.vector, 1, offset);
    }
    sqe->user_data = index;
    const int error = Push();
    if (error != 0) {
      // The entry stays in the ring and goes out with the next one: make it harmless.
      io_uring_prep_nop(sqe);
      sqe->user_data = kIgnore;
      return error;
    }
    ++requests_;
    busy_.Enter();
    return 0;
  }

  /// Hands everything prepared to the kernel. 0 or an errno; then the newest entry is still ours.
  int Push() DSCKPT_REQUIRES(mutex_) {
    constexpr int kAttempts = 1000;
    int error = 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const int submitted = io_uring_submit(&ring_);
      if (io_uring_sq_ready(&ring_) == 0) return 0;
      error = submitted < 0 ? -submitted : EAGAIN;
      if (error != EINTR && error != EAGAIN && error != EBUSY) break;
      std::this_thread::yield();
    }
    return error;
  }

  /// Callbacks may submit, and may take their time.
  void Complete(Finished& finished) DSCKPT_EXCLUDES(mutex_) {
    if (finished.empty()) return;
    for (Outcome& outcome : finished) {
      outcome.transfer.request.complete(outcome.error, outcome.transfer.done);
      outcome.transfer.request.complete = nullptr;
    }
    MutexLock lock(mutex_);
    outstanding_ -= finished.size();
    if (outstanding_ == 0) idle_.NotifyAll();
  }

  /// The completion thread. Before it touches a transfer it takes the mutex, under which the
  /// submitting thread filled it.
  void Reap() {
    bool stop = false;
    while (!stop) {
      io_uring_cqe* cqe = nullptr;
      const int error = io_uring_wait_cqe(&ring_, &cqe);
      if (error != 0) {
        if (error != -EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      std::array<std::pair<uint64_t, int>, 64> answers;
      unsigned count = 0;
      do {
        answers[count++] = {cqe->user_data, cqe->res};
        io_uring_cqe_seen(&ring_, cqe);
      } while (count < answers.size() && io_uring_peek_cqe(&ring_, &cqe) == 0);
      Finished finished;
      {
        MutexLock lock(mutex_);
        for (unsigned i = 0; i < count; ++i) {
          if (answers[i].first == kStop) stop = true;
          if (answers[i].first < slots_.size()) {
            Answer(static_cast<unsigned>(answers[i].first), answers[i].second, finished);
          }
        }
        StartWaiting(finished);
      }
      Complete(finished);
    }
  }

  void Answer(unsigned index, int result, Finished& finished) DSCKPT_REQUIRES(mutex_) {
    busy_.Leave();
    std::optional<int> error = slots_[index].transfer.Advance(result);
    if (!error) {
      const int refused = Ask(index);
      if (refused != 0) error = refused;
    }
    if (error) Finish(index, *error, finished);
  }

  const unsigned depth_;
  io_uring ring_ = {};
  bool ring_ready_ = false;
  bool registered_ = false;
  std::thread reaper_;

  mutable Mutex mutex_;
  CondVar idle_;
  std::vector<Slot> slots_ DSCKPT_GUARDED_BY(mutex_);
  std::vector<unsigned> free_ DSCKPT_GUARDED_BY(mutex_);
  std::deque<IoRequest> waiting_ DSCKPT_GUARDED_BY(mutex_);  // Beyond the depth.
  size_t outstanding_ DSCKPT_GUARDED_BY(mutex_) = 0;  // Submitted, callback not yet returned.
  uint64_t requests_ DSCKPT_GUARDED_BY(mutex_) = 0;
  BusyClock busy_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<IoQueue> MakeRingQueue(const IoQueueOptions& options, const Warn& warn,
                                       int* error_number) {
  auto queue = std::make_unique<RingQueue>(options.depth);
  *error_number = queue->Start(options.buffers, warn);
  if (*error_number != 0) return nullptr;
  return queue;
}

}  // namespace dsckpt::io

#else

#include <cerrno>

namespace dsckpt::io {

std::unique_ptr<IoQueue> MakeRingQueue(const IoQueueOptions&, const Warn&, int* error_number) {
  *error_number = ENOSYS;
  return nullptr;
}

}  // namespace dsckpt::io

#endif  // DSCKPT_WITH_URING
