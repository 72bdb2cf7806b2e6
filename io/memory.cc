// Pre-touched anonymous memory, huge pages.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/align.h"
#include "dsckpt/limits.h"
#include "io/aligned_buffer.h"
#include "io/pool.h"
#include "io/syscalls.h"
#include "io/workers.h"

namespace dsckpt::io {
namespace {


Status CannotAllocate(uint64_t bytes, int error_number) {
  return Status(StatusCode::kOutOfMemory,
                "cannot allocate " + std::to_string(bytes) + " bytes of staging memory")
      .WithErrno(error_number);
}

/// Faults every page in now, so that no copy or write pays for it later.
void Touch(std::span<std::byte> bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
  for (uint64_t at = 0; at < bytes.size(); at += kPageBytes) {
    *const_cast<volatile std::byte*>(&bytes[at]) = std::byte{0};
  }
}

void TouchInParallel(std::span<std::byte> bytes) {
  // A thread costs about as much as touching a few megabytes.
  const uint64_t share =
      RoundUp(std::max(bytes.size() / static_cast<uint64_t>(WorkerCount(0)), 8 * kMiB), kHugePage);
  std::vector<std::thread> threads;
  uint64_t at = 0;
  for (; bytes.size() - at > share; at += share) {
    auto part = bytes.subspan(at, share);
    std::thread thread = StartThread("dsckpt-touch", [part] { Touch(part); });
    if (!thread.joinable()) break;
    threads.push_back(std::move(thread));
  }
  Touch(bytes.subspan(at));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Result<Memory> Memory::Allocate(uint64_t bytes) {
  if (bytes == 0) return Status(StatusCode::kInvalidArgument, "cannot allocate 0 bytes");
  if (bytes > uint64_t{1} << 62) return CannotAllocate(bytes, ENOMEM);
  const uint64_t length = RoundUp(bytes, kPageBytes);
  // Huge pages need 2 MiB alignment, which older kernels do not give by themselves: map more, then
  // give the ends back.
  const uint64_t slack = length >= kHugePage ? kHugePage : 0;
  void* mapped = Sys().mmap(nullptr, length + slack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return CannotAllocate(bytes, errno);
  std::byte* begin = static_cast<std::byte*>(mapped);
  if (slack != 0) {
    const uint64_t address = reinterpret_cast<uint64_t>(mapped);
    const uint64_t before = RoundUp(address, kHugePage) - address;
    if (before != 0) munmap(begin, before);
    if (before != slack) munmap(begin + before + length, slack - before);
    begin += before;
    madvise(begin, length, MADV_HUGEPAGE);
  }
  // A child of fork() must not keep gigabytes alive, nor make the parent copy pages under a DMA.
  madvise(begin, length, MADV_DONTFORK);
  TouchInParallel({begin, length});
  return Memory({begin, bytes});
}

Memory::Memory(std::span<std::byte> bytes) : bytes_(bytes), owner_process_(getpid()) {}

Memory::Memory(Memory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), owner_process_(other.owner_process_) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(owner_process_, other.owner_process_);
  return *this;
}

Memory::~Memory() {
  // In a forked child these addresses are not mapped, or belong to something else by now.
  if (bytes_.empty() || owner_process_ != getpid()) return;
  munmap(bytes_.data(), RoundUp(bytes_.size(), kPageBytes));
}

}  // namespace dsckpt::io
