#ifndef DSCKPT_IO_DEVICE_H_
#define DSCKPT_IO_DEVICE_H_

// What the library needs of a device runtime, as a table of functions.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/device.h"
#include "dsckpt/status.h"

namespace dsckpt::io {

/// What the library needs of a device runtime. One implementation a runtime; tests have one of
/// their own. Streams and events belong to one device, whose ordinal every call gets. Calls work
/// in that device's own context, make none on any other device, leave the calling thread's current
/// device as it was, and never disturb a graph capture under way in another thread. Thread-safe.
class DeviceBackend {
 public:
  using Event = void*;
  /// One of several copies from device memory.
  struct Piece {
    const void* from;
    std::byte* to;
    uint64_t bytes;
  };

  virtual ~DeviceBackend() = default;
  virtual const char* name() const = 0;

  /// Ordinal of the device that holds `data`; kInvalidArgument when none does.
  virtual Result<int> DeviceOf(const void* data) = 0;
  /// Makes host memory reachable by the copy engines of every device.
  virtual Status RegisterHost(int device, std::span<std::byte> memory) = 0;
  virtual void UnregisterHost(int device, std::span<std::byte> memory) = 0;

  /// kOutOfMemory where the device has no room.
  virtual Result<std::byte*> Allocate(int device, uint64_t bytes) = 0;
  virtual void Free(int device, std::byte* memory) = 0;

  /// A stream that waits for no other by itself; `urgent`: its kernels go before others.
  virtual Result<Stream> CreateStream(int device, bool urgent) = 0;
  virtual void DestroyStream(int device, Stream stream) = 0;
  virtual Result<Event> CreateEvent(int device) = 0;
  virtual void DestroyEvent(int device, Event event) = 0;
  /// Marks the end of what `stream` holds now.
  virtual Status Record(int device, Event event, Stream stream) = 0;
  /// Makes `stream` wait for `event`, which belongs to `device`; the host does not wait.
  virtual Status Wait(int device, Stream stream, Event event) = 0;
  /// Blocks the host until `event` has passed.
  virtual Status Synchronize(int device, Event event) = 0;
  /// Blocks the host until `stream` has done what it holds. For failures: needs no event.
  virtual Status Drain(int device, Stream stream) = 0;
  /// kFailedPrecondition while a graph is captured from `stream`.
  virtual Status CheckNotCapturing(int device, Stream stream) = 0;

  /// Asynchronous where the host memory is registered.
  virtual Status CopyToHost(int device, Stream stream, std::span<std::byte> to,
                            const void* from) = 0;
  virtual Status CopyToDevice(int device, Stream stream, void* to,
                              std::span<const std::byte> from) = 0;
  /// Copies several pieces to the host at once, in any order among themselves.
  virtual Status CopyAllToHost(int device, Stream stream, std::span<const Piece> pieces) = 0;
  /// Copies several pieces at once to other memory of the device.
  virtual Status CopyAllOnDevice(int device, Stream stream, std::span<const Piece> pieces) = 0;
  /// Many small copies to registered host memory in few launches; any alignment. REQUIRES: pieces
  /// below 4 GiB.
  virtual Status Gather(int device, Stream stream, std::span<const Piece> pieces) = 0;
};

/// The device runtime of this process, made at the first call; kUnsupported says why there is none.
Result<DeviceBackend*> Devices();

/// Puts `backend` in its place, for tests; null: back to the real one. REQUIRES: no engine and no
/// load is using it.
void ReplaceDevices(DeviceBackend* backend);

/// Bytes at `from`, after what `stream` holds now. Blocks.
Status ReadDevice(int device, Stream stream, const void* from, std::span<std::byte> out);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_DEVICE_H_
