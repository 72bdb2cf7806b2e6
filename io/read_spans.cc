#include "io/read_spans.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/align.h"
#include "base/guarded.h"
#include "base/mutex.h"
#include "dsckpt/limits.h"
#include "io/memory.h"
#include "io/queue.h"
#include "io/syscalls.h"
#include "io/workers.h"

namespace dsckpt::io {
namespace {

using Consume = std::function<Status(size_t index, std::span<const std::byte> bytes)>;

/// Tells which pages of a file the page cache holds, without reading or caching any. A mapping is
/// only the handle that mincore() asks for: nothing touches it.
class Residency {
 public:
  explicit Residency(const InputFile& file) {
    auto mapping = Mapping::Map(file);
    if (mapping.ok()) mapping_ = std::move(mapping).value();
  }
  bool known() const { return mapping_ != nullptr; }
  /// `begin` is page-aligned.
  bool Resident(uint64_t begin, uint64_t end) const {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    begin = begin / page * page;
    std::vector<unsigned char> pages(DivideUp(end - begin, page));
    void* at = const_cast<std::byte*>(mapping_->bytes().data()) + begin;
    if (mincore(at, end - begin, pages.data()) != 0) return true;
    return std::all_of(pages.begin(), pages.end(), [](unsigned char state) { return state & 1; });
  }

 private:
  std::shared_ptr<const Mapping> mapping_;
};

/// One call of ReadSpans. Every thread of it, the caller's included, runs Work(): it keeps the
/// device busy first, that is, puts each free buffer to use at once, and consumes what has arrived
/// otherwise. A buffer goes from read to consumer to read with no other stop.
class SpanStream {
 public:
  SpanStream(const InputFile& file, std::span<const ReadSpan> spans, std::vector<PlannedRead> reads,
             const StreamOptions& options, const Consume& consume)
      : file_(file),
        spans_(spans),
        reads_(std::move(reads)),
        options_(options),
        consume_(consume) {}

  Status Run() {
    uint64_t longest = 0;
    for (const PlannedRead& read : reads_) longest = std::max(longest, read.bytes());
    const size_t buffers = std::clamp<size_t>(options_.depth, 1, reads_.size());
    if (longest != 0) {
      DSCKPT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(longest * buffers));
      memory_.emplace(std::move(memory));
    }
    std::vector<std::byte*> free;
    for (size_t i = buffers; i > 0; --i) {
      free.push_back(longest == 0 ? nullptr : memory_->bytes().data() + (i - 1) * longest);
    }
    {
      MutexLock lock(mutex_);
      free_ = std::move(free);
    }
    OpenDirect();
    StartQueue(buffers);
    if (options_.before && memory_) options_.before(memory_->bytes());
    RunThreads(buffers);
    queue_.reset();  // Waits for what a failure left in flight.
    if (options_.after && memory_) options_.after(memory_->bytes());
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  struct Arrival {
    const PlannedRead* read;
    std::byte* buffer;
    uint64_t done;  // Bytes that need no further reading.
  };

  void OpenDirect() {
    if (descriptor_ == nullptr || (!options_.force_direct && !residency_.known())) return;
    direct_fd_ = descriptor_->direct_fd();
    use_direct_ = direct_fd_ >= 0;
  }

  void StartQueue(size_t buffers) {
    if (!use_direct_) return;
    auto queue = IoQueue::Create({.depth = static_cast<unsigned>(buffers)}, {});
    if (queue.ok()) queue_ = std::move(queue).value();
    use_direct_ = queue_ != nullptr;
  }

  void RunThreads(size_t buffers) {
    const size_t count = std::min(static_cast<size_t>(WorkerCount(options_.threads)), buffers);
    std::vector<std::thread> threads;
    for (size_t i = 1; i < count; ++i) {
      std::thread thread = StartThread("dsckpt-read", [this] { Work(); });
      if (!thread.joinable()) break;
      threads.push_back(std::move(thread));
    }
    Work();
    for (std::thread& thread : threads) thread.join();
  }

  void Work() {
    MutexLock lock(mutex_);
    while (true) {
      if (!failure_.ok()) return;
      if (!free_.empty() && next_ < reads_.size()) {
        const PlannedRead& read = reads_[next_++];
        std::byte* buffer = free_.back();
        free_.pop_back();
        ++in_flight_;
        lock.Unlock();
        if (!Submit(read, buffer)) Finish({&read, buffer, 0});
        lock.Lock();
      } else if (!arrived_.empty()) {
        const Arrival arrival = arrived_.front();
        arrived_.pop_front();
        lock.Unlock();
        Finish(arrival);
        lock.Lock();
      } else if (next_ == reads_.size() && in_flight_ == 0) {
        return;
      } else {
        changed_.Wait(lock);
      }
    }
  }

  /// False when the read is better done at once, through the page cache.
  bool Submit(const PlannedRead& read, std::byte* buffer) {
    if (!use_direct_ || read.bytes() == 0) return false;
    if (!options_.force_direct && residency_.Resident(read.begin, read.needed_end)) return false;
    queue_->Submit({.op = IoRequest::Op::kRead,
                    .fd = direct_fd_,
                    .data = buffer,
                    .bytes = read.bytes(),
                    .offset = read.begin,
                    .buffer = -1,
                    .complete = [this, &read, buffer](int error, uint64_t done) {
                      Arrive(read, buffer, error, done);
                    }});
    return true;
  }

  /// On the queue's thread.
  void Arrive(const PlannedRead& read, std::byte* buffer, int error, uint64_t done) {
    // A read that ends past the end of the file is cut there; how the kernel then answers the
    // attempt to go on does not matter.
    const bool whole = done >= read.needed_bytes();
    if (!whole && (error == EINVAL || error == EOPNOTSUPP)) use_direct_ = false;
    MutexLock lock(mutex_);
    // What is missing is read again through the page cache: it works there, or gives the error.
    arrived_.push_back({&read, buffer, done});
    changed_.NotifyOne();
  }

  void Finish(const Arrival& arrival) {
    const PlannedRead& read = *arrival.read;
    Status status;
    if (arrival.done < read.needed_bytes()) {
      status = file_.ReadAt(read.begin + arrival.done,
                            {arrival.buffer + arrival.done, read.needed_bytes() - arrival.done});
    }
    for (size_t i = read.first_span; status.ok() && i < read.last_span; ++i) {
      const ReadSpan& span = spans_[i];
      std::span<const std::byte> bytes;
      if (span.bytes != 0) bytes = {arrival.buffer + (span.offset - read.begin), span.bytes};
      // It may be a caller's: what it throws must not leave a thread of this reader.
      status = Guarded([&] { return consume_(i, bytes); });
    }
    MutexLock lock(mutex_);
    free_.push_back(arrival.buffer);
    --in_flight_;
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
    // The buffer needs no announcement: this thread uses it next.
    if (!failure_.ok() || (next_ == reads_.size() && in_flight_ == 0)) changed_.NotifyAll();
  }

  const InputFile& file_;
  const std::span<const ReadSpan> spans_;
  const std::vector<PlannedRead> reads_;
  const StreamOptions& options_;
  const Consume& consume_;
  const std::shared_ptr<const Descriptor> descriptor_ = file_.descriptor();
  const Residency residency_{file_};
  std::optional<Memory> memory_;
  int direct_fd_ = -1;
  std::atomic<bool> use_direct_ = false;
  std::unique_ptr<IoQueue> queue_;

  Mutex mutex_;
  CondVar changed_;
  size_t next_ DSCKPT_GUARDED_BY(mutex_) = 0;
  size_t in_flight_ DSCKPT_GUARDED_BY(mutex_) = 0;  // Buffers not free.
  std::vector<std::byte*> free_ DSCKPT_GUARDED_BY(mutex_);
  std::deque<Arrival> arrived_ DSCKPT_GUARDED_BY(mutex_);
  Status failure_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace

Status ReadSpans(const InputFile& file, std::span<const ReadSpan> spans,
                 const StreamOptions& options, const Consume& consume) {
  DSCKPT_ASSIGN_OR_RETURN(std::vector<PlannedRead> reads,
                          PlanReads(spans, options.read_bytes, file.size(), file.path()));
  if (reads.empty()) return Status();
  return SpanStream(file, spans, std::move(reads), options, consume).Run();
}

}  // namespace dsckpt::io
