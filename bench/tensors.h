#ifndef DSCKPT_BENCH_TENSORS_H_
#define DSCKPT_BENCH_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "dsckpt/status.h"

namespace dsckpt::bench {

/// Page-aligned memory, touched; filled with bytes that do not compress when `random`.
class Buffer {
 public:
  static dsckpt::Result<Buffer> Allocate(uint64_t bytes, bool random);
  Buffer(Buffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit Buffer(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

/// Where one tensor lies in a buffer.
struct Placed {
  std::string name;
  DType dtype;
  int64_t elements;
  uint64_t offset;  ///< A multiple of 64.
  uint64_t bytes;
};

/// `count` tensors of about `bytes` bytes together, as a training job has them: sizes over three
/// and a half orders of magnitude, most bytes in the large ones, 2-, 4- and 8-byte elements, odd
/// byte counts.
std::vector<Placed> MixedTensors(uint64_t bytes, uint32_t count);
/// Bytes from the first tensor's begin to the last one's end.
uint64_t SpanBytes(const std::vector<Placed>& tensors);
/// Payload bytes alone.
uint64_t PayloadBytes(const std::vector<Placed>& tensors);

/// A state of those tensors in `buffer`.
State StateOf(const std::vector<Placed>& tensors, std::span<std::byte> buffer,
              Capture capture = Capture::kUntilFence);
std::vector<LoadRequest> LoadsOf(const std::vector<Placed>& tensors, std::span<std::byte> buffer);

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_TENSORS_H_
