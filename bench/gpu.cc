#include "bench/gpu.h"

#include "bench/measure.h"
#include "dsckpt/device.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {

State StateOf(const std::vector<Placed>& tensors, const GpuBuffer& buffer, Stream stream,
              Capture capture) {
  State state;
  for (const Placed& t : tensors) {
    state.AddDeviceTensor(t.name, buffer.data() + t.offset, t.dtype, {t.elements}, stream,
                          {.capture = capture, .device = 0});
  }
  return state;
}

std::vector<LoadRequest> LoadsOf(const std::vector<Placed>& tensors, const GpuBuffer& buffer) {
  std::vector<LoadRequest> loads;
  loads.reserve(tensors.size());
  for (const Placed& t : tensors) {
    loads.push_back(
        {.name = t.name, .data = buffer.data() + t.offset, .bytes = t.bytes, .device = 0});
  }
  return loads;
}

}  // namespace dsckpt::bench

#if DSCKPT_WITH_CUDA

#include <cuda_runtime_api.h>

#include <string>

extern "C" {
int dsckpt_bench_burn(long long cycles, cudaStream_t stream);
int dsckpt_bench_increment(void* words, size_t count, cudaStream_t stream);
int dsckpt_bench_fill(void* words, size_t count);
}

namespace dsckpt::bench {
namespace {

Status Check(int error, const char* doing) {
  if (error == cudaSuccess) return Status();
  return Status(StatusCode::kIoError,
                std::string(doing) + ": " + cudaGetErrorString(static_cast<cudaError_t>(error)));
}

cudaStream_t Native(Stream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

dsckpt::Result<GpuBuffer> GpuBuffer::Allocate(uint64_t bytes) {
  DSCKPT_RETURN_IF_ERROR(DeviceSupport());
  const uint64_t words = (bytes + 7) / 8;
  void* data = nullptr;
  DSCKPT_RETURN_IF_ERROR(Check(cudaSetDevice(0), "select GPU 0"));
  DSCKPT_RETURN_IF_ERROR(Check(cudaMalloc(&data, words * 8), "allocate GPU memory"));
  GpuBuffer buffer(static_cast<std::byte*>(data), words * 8);
  DSCKPT_RETURN_IF_ERROR(buffer.Refill());
  return buffer;
}

Status GpuBuffer::Refill() const {
  DSCKPT_RETURN_IF_ERROR(Check(dsckpt_bench_fill(data_, bytes_ / 8), "fill GPU memory"));
  return Check(cudaDeviceSynchronize(), "fill GPU memory");
}

GpuBuffer::~GpuBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

dsckpt::Result<Trainer> Trainer::Create() {
  cudaStream_t stream = nullptr;
  DSCKPT_RETURN_IF_ERROR(
      Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream"));
  return Trainer(stream);
}

Trainer::~Trainer() {
  if (stream_ != nullptr) cudaStreamDestroy(Native(stream_));
}

Status Trainer::Compute(double seconds) const {
  int khz = 0;
  DSCKPT_RETURN_IF_ERROR(
      Check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "ask for the clock rate"));
  return Check(dsckpt_bench_burn(static_cast<long long>(seconds * 1e3 * khz), Native(stream_)),
               "compute");
}

Status Trainer::Update(const GpuBuffer& state) const {
  return Check(dsckpt_bench_increment(state.data(), state.bytes() / 8, Native(stream_)), "update");
}

Status Trainer::Synchronize() const {
  return Check(cudaStreamSynchronize(Native(stream_)), "wait for the GPU");
}

dsckpt::Result<double> BarePinnedCopy(const GpuBuffer& buffer, uint64_t bytes,
                                      Direction direction) {
  // Pinned once and kept: it takes far longer than what is measured.
  static void* host = nullptr;
  static uint64_t host_bytes = 0;
  if (host_bytes < bytes) {
    if (host != nullptr) cudaFreeHost(host);
    DSCKPT_RETURN_IF_ERROR(Check(cudaMallocHost(&host, bytes), "pin host memory"));
    host_bytes = bytes;
  }
  const Timer timer;
  const bool to_host = direction == Direction::kToHost;
  DSCKPT_RETURN_IF_ERROR(
      Check(cudaMemcpyAsync(to_host ? host : buffer.data(), to_host ? buffer.data() : host, bytes,
                            to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, nullptr),
            "copy"));
  DSCKPT_RETURN_IF_ERROR(Check(cudaStreamSynchronize(nullptr), "copy"));
  return timer.seconds();
}

Status Download(const GpuBuffer& buffer, std::span<std::byte> out) {
  return Check(cudaMemcpy(out.data(), buffer.data(), out.size(), cudaMemcpyDeviceToHost), "copy");
}

}  // namespace dsckpt::bench

#else

namespace dsckpt::bench {

dsckpt::Result<GpuBuffer> GpuBuffer::Allocate(uint64_t) { return DeviceSupport(); }
Status GpuBuffer::Refill() const { return DeviceSupport(); }
GpuBuffer::~GpuBuffer() = default;
dsckpt::Result<Trainer> Trainer::Create() { return DeviceSupport(); }
Trainer::~Trainer() = default;
Status Trainer::Compute(double) const { return DeviceSupport(); }
Status Trainer::Update(const GpuBuffer&) const { return DeviceSupport(); }
Status Trainer::Synchronize() const { return DeviceSupport(); }
dsckpt::Result<double> BarePinnedCopy(const GpuBuffer&, uint64_t, Direction) {
  return DeviceSupport();
}
Status Download(const GpuBuffer&, std::span<std::byte>) { return DeviceSupport(); }

}  // namespace dsckpt::bench

#endif
