#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

// Kernels of the gpu-* workloads, callable from sources that nvcc does not compile.

namespace {

__global__ void Burn(long long cycles) {
  const long long start = clock64();
  float x = static_cast<float>(threadIdx.x);
  while (clock64() - start < cycles) {
#pragma unroll
    for (int i = 0; i < 64; ++i) x = x * 1.0001f + 0.5f;
  }
  if (x == 12345.678f) printf("never");
}

__global__ void Increment(unsigned long long* words, size_t count) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    words[i] += 1;
  }
}

__global__ void FillWords(unsigned long long* words, size_t count) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    // splitmix64: every word by itself, and nothing compresses it.
    unsigned long long z = (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    words[i] = z ^ (z >> 31);
  }
}

constexpr int kBlocks = 1056, kThreads = 256;

}  // namespace

extern "C" {

int dsckpt_bench_burn(long long cycles, cudaStream_t stream) {
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  Burn<<<processors, 1024, 0, stream>>>(cycles);
  return cudaGetLastError();
}

int dsckpt_bench_increment(void* words, size_t count, cudaStream_t stream) {
  Increment<<<kBlocks, kThreads, 0, stream>>>(static_cast<unsigned long long*>(words), count);
  return cudaGetLastError();
}

int dsckpt_bench_fill(void* words, size_t count) {
  FillWords<<<kBlocks, kThreads>>>(static_cast<unsigned long long*>(words), count);
  return cudaGetLastError();
}
}
