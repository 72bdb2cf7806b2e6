#ifndef DSCKPT_IO_ALIGNED_BUFFER_H_
#define DSCKPT_IO_ALIGNED_BUFFER_H_

// Memory with a chosen alignment.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dsckpt/limits.h"
#include "dsckpt/status.h"

namespace dsckpt::io {

/// Of x86-64, and of most others with pages of 4 KiB.
inline constexpr uint64_t kHugePage = 2 * kMiB;

/// Uninitialised memory with a chosen alignment. Large ones ask for huge pages, because page faults
/// would cost more than the read that fills them. Stays readable in a forked child, unlike
/// io::Memory.
class AlignedBuffer {
 public:
  /// `alignment`: a power of two. The pointer is never null, also for zero bytes. kOutOfMemory.
  static Result<AlignedBuffer> Allocate(uint64_t bytes, uint64_t alignment);
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer();
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit AlignedBuffer(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_ALIGNED_BUFFER_H_
