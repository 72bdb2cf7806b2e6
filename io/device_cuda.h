#ifndef DSCKPT_IO_DEVICE_CUDA_H_
#define DSCKPT_IO_DEVICE_CUDA_H_

// The CUDA runtime behind the functions of io/device.h.

#include <cstdint>

#include "io/device.h"

namespace dsckpt::io {

/// The CUDA runtime; kUnsupported where there is no driver or no GPU. Only in builds with
/// DSCKPT_WITH_CUDA.
Result<DeviceBackend*> CudaDevices();

/// What one launch of the gather kernel copies. Passed by value as a kernel parameter, of which
/// there are 4 KiB on every GPU: no list has to be kept in memory until the kernel has run.
struct GatherBatch {
  static constexpr uint32_t kMaxPieces = 160;
  const void* from[kMaxPieces];
  void* to[kMaxPieces];
  uint32_t bytes[kMaxPieces];
  uint32_t count;
};

/// Launches the kernel in the current context; returns a cudaError_t.
int LaunchGather(const GatherBatch& batch, Stream stream);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_DEVICE_CUDA_H_
