#include "io/queue.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "io/syscalls.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;
using Backend = IoQueueOptions::Backend;
using Op = IoRequest::Op;

namespace {

/// The backends that this machine has.
std::vector<Backend> Backends() {
  std::vector<Backend> found = {Backend::kThreads};
  if (IoQueue::Create({.backend = Backend::kUring, .depth = 1}, {}).ok()) {
    found.push_back(Backend::kUring);
  }
  return found;
}

int OpenNew(const std::string& path, int flags = 0) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);
}

IoRequest Request(Op op, int fd, std::span<std::byte> data, uint64_t offset, int buffer = -1) {
  return {op, fd, data.data(), data.size(), offset, buffer, {}};
}

}  // namespace

TEST_CASE("a queue moves bytes both ways and names itself") {
  TempDir dir;
  for (Backend backend : Backends()) {
    auto queue = IoQueue::Create({.backend = backend, .depth = 2}, {}).value();
    CHECK(std::string(queue->name()) == (backend == Backend::kUring ? "io_uring" : "threads"));
    const int fd = OpenNew(dir / queue->name());
    Memory out = Pattern(100'000), in = Pattern(100'000, 2);
    CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 5)) == Outcome{0, 100'000});
    CHECK(Perform(*queue, Request(Op::kRead, fd, in.bytes(), 5)) == Outcome{0, 100'000});
    CHECK(AsString(in.bytes()) == AsString(out.bytes()));
    CHECK(queue->requests() == 2);
    CHECK(queue->busy_nanoseconds() > 0);
    CHECK(Perform(*queue, Request(Op::kWrite, fd, {}, 0)) == Outcome{0, 0});
    ::close(fd);
  }
}

TEST_CASE("a read at the end of the file completes with ENODATA and what there was") {
  TempDir dir;
  WriteWholeFile(dir / "f", "0123456789");
  for (Backend backend : Backends()) {
    auto queue = IoQueue::Create({.backend = backend, .depth = 2}, {}).value();
    const int fd = ::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC);
    Memory in = Pattern(100);
    CHECK(Perform(*queue, Request(Op::kRead, fd, in.bytes(), 4)) == Outcome{ENODATA, 6});
    CHECK(AsString(in.bytes().first(6)) == "456789");
    CHECK(Perform(*queue, Request(Op::kRead, 999, in.bytes(), 4)) == Outcome{EBADF, 0});
    ::close(fd);
  }
}

TEST_CASE("requests beyond the depth wait, callbacks may submit, destruction drains") {
  TempDir dir;
  constexpr int kChains = 20, kLength = 50;
  for (Backend backend : Backends()) {
    auto queue = IoQueue::Create({.backend = backend, .depth = 3}, {}).value();
    const std::string path = dir / queue->name();
    const int fd = OpenNew(path);
    Memory data = Pattern(kChains * kLength * 512);
    std::atomic<int> completed = 0;
    std::function<void(int, int)> next = [&, raw = queue.get()](int chain, int step) {
      const uint64_t offset = static_cast<uint64_t>(chain * kLength + step) * 512;
      IoRequest request = Request(Op::kWrite, fd, data.bytes().subspan(offset, 512), offset);
      request.complete = [&, chain, step](int error, uint64_t done) {
        if (error == 0 && done == 512) ++completed;
        if (step + 1 < kLength) next(chain, step + 1);
      };
      raw->Submit(std::move(request));
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (int chain = t; chain < kChains; chain += 2) next(chain, 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    queue.reset();
    CHECK(completed == kChains * kLength);
    CHECK(ReadWholeFile(path) == AsString(data.bytes()));
    ::close(fd);
  }
}

TEST_CASE("C25 short completions resume at offset + done, EINTR and EAGAIN are retried") {
  TempDir dir;
  auto queue = ThreadBackend();
  const int fd = OpenNew(dir / "f");
  Memory out = Pattern(50'000), in = Pattern(50'000, 2);
  FaultFs fs;
  fs.Shorten(7'000);
  int unseen = 0;  // Calls that are made again below the queue.
  SECTION("short") {}
  SECTION("EINTR") {
    fs.Fail("pwrite", EINTR, 2, 3);
    unseen = 3;
  }
  SECTION("EAGAIN") { fs.Fail("pwrite", EAGAIN, 1, 5); }
  CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 300)) == Outcome{0, 50'000});
  CHECK(Perform(*queue, Request(Op::kRead, fd, in.bytes(), 300)) == Outcome{0, 50'000});
  CHECK(AsString(in.bytes()) == AsString(out.bytes()));
  CHECK(fs.Count("pread") == 8);
  CHECK(queue->requests() ==
        static_cast<uint64_t>(fs.Count("pread") + fs.Count("pwrite") - unseen));
  ::close(fd);
}

TEST_CASE("a failure after a short completion tells what got through") {
  TempDir dir;
  auto queue = ThreadBackend();
  const int fd = OpenNew(dir / "f");
  Memory out = Pattern(50'000);
  FaultFs fs;
  fs.Shorten(7'000);
  fs.Fail("pwrite", ENOSPC, 3);
  CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 0)) == Outcome{ENOSPC, 21'000});
  fs.Fail("pwrite", EAGAIN);
  CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 0)) == Outcome{EAGAIN, 0});
  fs.Fail("pwrite", 0);
  fs.Shorten(0);
  CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 0)) == Outcome{EIO, 0});
  ::close(fd);
}

TEST_CASE("C25 a request above the kernel's limit of one write goes in pieces") {
  constexpr uint64_t kBytes = (uint64_t{2} << 30) + (uint64_t{64} << 20);
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  const int fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (Backend backend : Backends()) {
    auto queue = IoQueue::Create({.backend = backend, .depth = 2}, {}).value();
    IoRequest request = Request(Op::kWrite, fd, {static_cast<std::byte*>(mapped), kBytes}, 0);
    CHECK(Perform(*queue, std::move(request)) == Outcome{0, kBytes});
    CHECK(queue->requests() == 3);
  }
  ::close(fd);
  munmap(mapped, kBytes);
}

TEST_CASE("C25 a file size limit: short, then EFBIG, and no signal") {
  TempDir dir;
  constexpr uint64_t kMega = 1 << 20;
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  struct sigaction ignore = {}, previous;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &previous);
  Memory out = Pattern(3 * kMega);
  for (Backend backend : Backends()) {
    auto queue = IoQueue::Create({.backend = backend, .depth = 2}, {}).value();
    const int fd = OpenNew(dir / queue->name());
    rlimit limit = before;
    limit.rlim_cur = 7 * kMega;
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 0)) == Outcome{0, 3 * kMega});
    CHECK(Perform(*queue, Request(Op::kWrite, fd, out.bytes(), 6 * kMega)) ==
          Outcome{EFBIG, kMega});
    setrlimit(RLIMIT_FSIZE, &before);
    ::close(fd);
    CHECK(std::filesystem::file_size(dir / queue->name()) == 7 * kMega);
  }
  sigaction(SIGXFSZ, &previous, nullptr);
}

TEST_CASE("C23 no ring: threads with one warning, or an error when a ring was asked for") {
  for (int error : {EPERM, ENOSYS, ENOMEM}) {
    FaultFs fs;
    fs.Fail("ring_init", error);
    Warnings warnings;
    auto queue = IoQueue::Create({.depth = 2}, warnings.sink()).value();
    CHECK(std::string(queue->name()) == "threads");
    REQUIRE(warnings.seen().size() == 1);
    CHECK(warnings.seen()[0].error_number() == error);
    auto refused = IoQueue::Create({.backend = Backend::kUring, .depth = 2}, warnings.sink());
    CHECK(refused.status().code() == StatusCode::kUnsupported);
    CHECK(refused.status().error_number() == error);
    CHECK(warnings.seen().size() == 1);
  }
  CHECK(IoQueue::Create({.depth = 0}, {}).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("C22 registered buffers, or one warning and the same bytes") {
  if (Backends().size() < 2) return;
  TempDir dir;
  Memory memory = Pattern(4 * 65'536);
  std::vector<std::span<std::byte>> buffers;
  for (uint64_t i = 0; i < 4; ++i) buffers.push_back(memory.bytes().subspan(i * 65'536, 65'536));
  for (int error : {0, ENOMEM, EOPNOTSUPP, EFAULT}) {
    FaultFs fs;
    if (error != 0) fs.Fail("ring_register", error);
    Warnings warnings;
    auto queue = IoQueue::Create({.backend = Backend::kUring, .depth = 2, .buffers = buffers},
                                 warnings.sink())
                     .value();
    // Without privileges the real registration may be refused as well.
    if (error != 0) {
      REQUIRE(warnings.seen().size() == 1);
      CHECK(warnings.seen()[0].error_number() == error);
    }
    const std::string path = dir / std::to_string(error);
    const int fd = OpenNew(path);
    for (int i = 0; i < 4; ++i) {
      const uint64_t offset = static_cast<uint64_t>(i) * 65'536;
      CHECK(Perform(*queue, Request(Op::kWrite, fd, buffers[i], offset, i)) == Outcome{0, 65'536});
    }
    CHECK(ReadWholeFile(path) == AsString(memory.bytes()));
    const std::string first = AsString(buffers[0]);
    CHECK(Perform(*queue, Request(Op::kRead, fd, buffers[0], 65'536, 0)) == Outcome{0, 65'536});
    CHECK(AsString(buffers[0]) == AsString(buffers[1]));
    std::memcpy(buffers[0].data(), first.data(), first.size());
    ::close(fd);
  }
}
