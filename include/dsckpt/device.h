#ifndef DSCKPT_DEVICE_H_
#define DSCKPT_DEVICE_H_

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// A queue of work on a GPU, as its runtime knows it: a cudaStream_t. Null means CUDA's legacy
/// default stream of the tensor's device. cudaStreamPerThread means the stream of the thread that
/// makes the call. The library does not own streams.
using Stream = void*;

/// A device ordinal that means the memory of the host.
inline constexpr int kHostMemory = -1;
/// A device ordinal that means device memory of which the caller does not know the device: the
/// library asks the runtime which device holds the pointer.
inline constexpr int kDeviceOfPointer = -2;

/// Returns OK where device memory can be saved and loaded. Otherwise it returns kUnsupported, and
/// the message says what is missing: a build with DSCKPT_WITH_CUDA, a driver, or a device. The call
/// makes no context on any device. Thread-safe.
Status DeviceSupport();

}  // namespace dsckpt

#endif  // DSCKPT_DEVICE_H_
