#ifndef DSCKPT_BENCH_GPU_H_
#define DSCKPT_BENCH_GPU_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/bench.h"
#include "bench/tensors.h"
#include "dsckpt/status.h"

// Device memory and the limits of its bus, for the gpu-* workloads. In builds without CUDA every
// call says so.

namespace dsckpt::bench {

/// Memory of GPU 0, filled with bytes that do not compress.
class GpuBuffer {
 public:
  static dsckpt::Result<GpuBuffer> Allocate(uint64_t bytes);
  /// Back to what it was filled with.
  Status Refill() const;
  GpuBuffer(GpuBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  GpuBuffer& operator=(GpuBuffer&&) = delete;
  ~GpuBuffer();
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  GpuBuffer(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  uint64_t bytes_;
};

/// A stream of GPU 0 that stands for a training loop.
class Trainer {
 public:
  static dsckpt::Result<Trainer> Create();
  Trainer(Trainer&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Trainer& operator=(Trainer&&) = delete;
  ~Trainer();
  Stream stream() const { return stream_; }
  /// Enqueues arithmetic on `scratch` that keeps all multiprocessors busy for about `seconds`, and
  /// leaves memory alone for most of it: forward and backward.
  Status Compute(double seconds) const;
  /// Enqueues an update of every 8-byte word of `state`: each grows by one.
  Status Update(const GpuBuffer& state) const;
  Status Synchronize() const;

 private:
  explicit Trainer(Stream stream) : stream_(stream) {}
  Stream stream_;
};

/// Seconds of one large copy between GPU 0 and pinned host memory of `bytes`.
enum class Direction { kToHost, kToDevice };
dsckpt::Result<double> BarePinnedCopy(const GpuBuffer& buffer, uint64_t bytes, Direction direction);

/// Copies back to ordinary memory, to compare.
Status Download(const GpuBuffer& buffer, std::span<std::byte> out);

State StateOf(const std::vector<Placed>& tensors, const GpuBuffer& buffer, Stream stream,
              Capture capture = Capture::kUntilFence);
std::vector<LoadRequest> LoadsOf(const std::vector<Placed>& tensors, const GpuBuffer& buffer);

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_GPU_H_
