// A kernel that copies many small pieces of device memory to the host in one launch.

#include <cuda_runtime.h>

#include "io/device_cuda.h"

// Few threads are enough: the bus is the limit, and what trains keeps its multiprocessors.

namespace dsckpt::io {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr uint32_t kBlocks = 16;

/// Copies words of type T, one warp a piece, and what is left at the end byte by byte.
/// REQUIRES: both sides aligned to T.
template <typename T>
__device__ void CopyWords(const char* from, char* to, uint32_t bytes, uint32_t lane) {
  constexpr uint32_t kUnroll = 4;
  const uint32_t words = bytes / sizeof(T);
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  uint32_t i = lane;
  for (; i + (kUnroll - 1) * kWarp < words; i += kUnroll * kWarp) {
    T held[kUnroll];
#pragma unroll
    for (uint32_t k = 0; k < kUnroll; ++k) held[k] = in[i + k * kWarp];
#pragma unroll
    for (uint32_t k = 0; k < kUnroll; ++k) out[i + k * kWarp] = held[k];
  }
  for (; i < words; i += kWarp) out[i] = in[i];
  for (uint32_t at = words * sizeof(T) + lane; at < bytes; at += kWarp) to[at] = from[at];
}

__device__ void CopyPiece(const char* from, char* to, uint32_t bytes, uint32_t lane) {
  const uint64_t both = reinterpret_cast<uint64_t>(from) ^ reinterpret_cast<uint64_t>(to);
  // Up to the first 16-byte line of the destination, so that the words after it are aligned on
  // both sides where the two differ by a multiple of the word.
  uint32_t head = static_cast<uint32_t>(-reinterpret_cast<uint64_t>(to) & 15);
  head = head < bytes ? head : bytes;
  for (uint32_t at = lane; at < head; at += kWarp) to[at] = from[at];
  from += head;
  to += head;
  bytes -= head;
  if (both % 16 == 0) {
    CopyWords<uint4>(from, to, bytes, lane);
  } else if (both % 8 == 0) {
    CopyWords<uint2>(from, to, bytes, lane);
  } else if (both % 4 == 0) {
    CopyWords<uint32_t>(from, to, bytes, lane);
  } else {
    CopyWords<uint8_t>(from, to, bytes, lane);
  }
}

__global__ void __launch_bounds__(kThreads) Gather(const __grid_constant__ GatherBatch batch) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  for (uint32_t i = warp; i < batch.count; i += gridDim.x * (kThreads / kWarp)) {
    CopyPiece(static_cast<const char*>(batch.from[i]), static_cast<char*>(batch.to[i]),
              batch.bytes[i], lane);
  }
}

}  // namespace

int LaunchGather(const GatherBatch& batch, Stream stream) {
  constexpr uint32_t kWarps = kThreads / kWarp;
  const uint32_t wanted = (batch.count + kWarps - 1) / kWarps;
  const uint32_t blocks = wanted < kBlocks ? wanted : kBlocks;
  const auto native = static_cast<cudaStream_t>(stream);
  Gather<<<blocks, kThreads, 0, native>>>(batch);
  return cudaGetLastError();
}

}  // namespace dsckpt::io
