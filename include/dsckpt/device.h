#ifndef DSCKPT_DEVICE_H_
#define DSCKPT_DEVICE_H_

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// A queue of a GPU, as its runtime knows it: a cudaStream_t. Null is CUDA's legacy default stream
/// of the tensor's device. cudaStreamPerThread means the stream of the thread that calls.
using Stream = void*;

/// Values of a device ordinal that name no particular device.
inline constexpr int kHostMemory = -1;
/// Device memory; the runtime is asked which device holds the pointer.
inline constexpr int kDeviceOfPointer = -2;

/// OK where device memory can be saved and loaded. kUnsupported says what is missing: a build
/// with DSCKPT_WITH_CUDA, a driver, or a device. Makes no context on any device.
Status DeviceSupport();

}  // namespace dsckpt

#endif  // DSCKPT_DEVICE_H_
