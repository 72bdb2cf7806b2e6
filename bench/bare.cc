#include "bench/bare.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {
namespace {

// The library's own sizes: a write is a window, reads as in its streams.
constexpr uint64_t kWriteBytes = 16 * kMiB;
constexpr uint64_t kReadBytes = 8 * kMiB;
constexpr unsigned kDepth = 8;

Status Failure(const char* doing, int error, const std::string& path) {
  return Status(StatusCode::kIoError, std::string("bare loop: ") + doing)
      .WithErrno(error)
      .WithPath(path);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags, 0644)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

class Ring {
 public:
  Ring() : error_(-io_uring_queue_init(2 * kDepth, &ring_, 0)) {}
  ~Ring() {
    if (error_ == 0) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Keeps kDepth of `count` blocks in flight, in order: `bytes_of(block)` of them each. A block is
  // what `prepare(next, block, slot)` makes with requests from `next()`, all but the last of them
  // linked; its slot is free again when the last has completed.
  template <typename BytesOf, typename Prepare>
  int Run(uint64_t count, BytesOf bytes_of, Prepare prepare) {
    if (error_ != 0) return error_;
    std::vector<unsigned> free_slots;
    for (unsigned i = 0; i < kDepth; ++i) free_slots.push_back(i);
    uint64_t next = 0;
    bool reads = false;  // What blocks end with.
    while (next < count || free_slots.size() < kDepth) {
      while (next < count && !free_slots.empty()) {
        io_uring_sqe* last = nullptr;
        prepare(
            [&] {
              last = io_uring_get_sqe(&ring_);
              last->user_data = kNotLast;
              return last;
            },
            next, free_slots.back());
        reads = last->opcode == IORING_OP_READ;
        last->user_data = (bytes_of(next) << 8) | free_slots.back();
        free_slots.pop_back();
        ++next;
      }
      if (const int submitted = io_uring_submit_and_wait(&ring_, 1); submitted < 0) {
        return -submitted;
      }
      io_uring_cqe* cqe = nullptr;
      while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const int done = cqe->res;
        const uint64_t mark = cqe->user_data;
        io_uring_cqe_seen(&ring_, cqe);
        if (done < 0) return -done;
        if (mark == kNotLast) continue;
        free_slots.push_back(static_cast<unsigned>(mark & 0xFF));
        const uint64_t wanted = mark >> 8;
        // A local disk completes whole blocks; the last read may end at the end of the file.
        const bool last_read = reads && next == count && RoundedUp(done) == wanted;
        if (static_cast<uint64_t>(done) != wanted && !last_read) return EIO;
      }
    }
    return 0;
  }

 private:
  static constexpr uint64_t kNotLast = 0;  // Blocks are not empty.
  static uint64_t RoundedUp(int done) {
    return (static_cast<uint64_t>(done) + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  io_uring ring_ = {};
  int error_;
};

}  // namespace

Status BareWriteEach(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC);
  if (file.get() < 0) return Failure("open", errno, path);
  uint64_t total = 0;
  for (const auto piece : pieces) total += piece.size();
  if (fallocate(file.get(), 0, 0, static_cast<off_t>(total)) != 0) {
    return Failure("fallocate", errno, path);
  }
  Ring ring;
  uint64_t offset = 0;
  const int error = ring.Run(
      pieces.size(), [&](uint64_t piece) { return pieces[piece].size(); },
      [&](auto request, uint64_t piece, unsigned) {
        io_uring_prep_write(request(), file.get(), pieces[piece].data(),
                            static_cast<unsigned>(pieces[piece].size()), offset);
        offset += pieces[piece].size();
      });
  if (error != 0) return Failure("write", error, path);
  if (fsync(file.get()) != 0) return Failure("fsync", errno, path);
  return {};
}

Status BareWrite(const std::string& path, std::span<const std::byte> bytes) {
  std::vector<std::span<const std::byte>> blocks;
  for (uint64_t at = 0; at < bytes.size(); at += kWriteBytes) {
    blocks.push_back(bytes.subspan(at, std::min(kWriteBytes, bytes.size() - at)));
  }
  return BareWriteEach(path, blocks);
}

Status BareRead(const std::string& path, std::span<std::byte> out) {
  const Descriptor file(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
  struct stat info = {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return Failure("open", errno, path);
  const uint64_t total =
      (static_cast<uint64_t>(info.st_size) + kPageBytes - 1) / kPageBytes * kPageBytes;
  const bool in_place = out.size() >= total;
  if (!in_place && out.size() < kDepth * kReadBytes) return Failure("buffer", EINVAL, path);
  Ring ring;
  const auto bytes_of = [&](uint64_t block) {
    return std::min(kReadBytes, total - block * kReadBytes);
  };
  const int error =
      ring.Run((total + kReadBytes - 1) / kReadBytes, bytes_of,
               [&](auto request, uint64_t block, unsigned slot) {
                 std::byte* to = out.data() + (in_place ? block : slot) * kReadBytes;
                 io_uring_prep_read(request(), file.get(), to,
                                    static_cast<unsigned>(bytes_of(block)), block * kReadBytes);
               });
  return error == 0 ? Status() : Failure("read", error, path);
}

Status BareCopy(const std::vector<std::string>& from, const std::string& to) {
  const Descriptor out(to, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC);
  if (out.get() < 0) return Failure("open", errno, to);
  const auto memory = Buffer::Allocate(kDepth * kReadBytes, false);
  if (!memory.ok()) return memory.status();
  uint64_t begin = 0;
  for (const std::string& path : from) {
    const Descriptor in(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    struct stat info = {};
    if (in.get() < 0 || fstat(in.get(), &info) != 0) return Failure("open", errno, path);
    // The few bytes after the last whole page do not matter for the time.
    const uint64_t total = static_cast<uint64_t>(info.st_size) / kPageBytes * kPageBytes;
    if (fallocate(out.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(total)) != 0) {
      return Failure("fallocate", errno, to);
    }
    Ring ring;
    const auto bytes_of = [&](uint64_t block) {
      return std::min(kReadBytes, total - block * kReadBytes);
    };
    const int error =
        ring.Run((total + kReadBytes - 1) / kReadBytes, bytes_of,
                 [&](auto request, uint64_t block, unsigned slot) {
                   std::byte* const at = memory->bytes().data() + slot * kReadBytes;
                   const uint64_t offset = block * kReadBytes;
                   const auto count = static_cast<unsigned>(bytes_of(block));
                   io_uring_sqe* const read = request();
                   io_uring_prep_read(read, in.get(), at, count, offset);
                   read->flags |= IOSQE_IO_LINK;
                   io_uring_prep_write(request(), out.get(), at, count, begin + offset);
                 });
    if (error != 0) return Failure("copy", error, path);
    begin += total;
  }
  if (fsync(out.get()) != 0) return Failure("fsync", errno, to);
  return {};
}

Status BareKernelCopy(const std::vector<std::string>& from, const std::string& to) {
  const Descriptor out(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  if (out.get() < 0) return Failure("open", errno, to);
  for (const std::string& path : from) {
    const Descriptor in(path, O_RDONLY | O_CLOEXEC);
    struct stat info = {};
    if (in.get() < 0 || fstat(in.get(), &info) != 0) return Failure("open", errno, path);
    for (off_t left = info.st_size; left > 0;) {
      const ssize_t done =
          copy_file_range(in.get(), nullptr, out.get(), nullptr, static_cast<size_t>(left), 0);
      if (done <= 0) return Failure("copy_file_range", done == 0 ? EIO : errno, path);
      left -= done;
    }
  }
  if (fsync(out.get()) != 0) return Failure("fsync", errno, to);
  return {};
}

double BareHash(std::span<const std::byte> bytes) {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> keep{0};  // so that the sums are needed
  const auto work = [&] {
    for (uint64_t at; (at = next.fetch_add(kChunkBytes)) < bytes.size();) {
      const uint64_t count = std::min(kChunkBytes, bytes.size() - at);
      keep.fetch_xor(XXH3_128bits(bytes.data() + at, count).low64);
    }
  };
  const Timer timer;
  std::vector<std::thread> pool;
  for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return timer.seconds();
}

}  // namespace dsckpt::bench
