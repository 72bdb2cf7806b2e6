#ifndef DSCKPT_READER_CHUNK_DEVICE_LOAD_H_
#define DSCKPT_READER_CHUNK_DEVICE_LOAD_H_

// Chunks into device memory.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/file.h"
#include "io/device.h"
#include "reader/chunk/reader.h"

namespace dsckpt::reader {

/// The device side of one load. Each thread that places chunks has a lane of its own on every
/// device, so that while one waits for its copy others read and hash. Thread-safe.
class DeviceLoad {
 public:
  /// `requests` decides which devices take part: kInvalidArgument, kUnsupported,
  /// kFailedPrecondition (a graph is captured from one of their streams). Null: none does.
  static Result<std::unique_ptr<DeviceLoad>> Begin(std::span<const LoadRequest> requests);
  ~DeviceLoad();

  /// Makes the read buffers reachable by copy engines. Where that fails copies are slower.
  void Register(std::span<std::byte> memory);
  void Unregister(std::span<std::byte> memory);

  /// Checks and decodes chunk `chunk` as PlaceChunk() does and copies it to its place in the device
  /// memory of request `request`, an index into what Begin() was given; returns when it is there.
  Status PlaceChunk(const StoredItem& item, uint64_t chunk, std::span<const std::byte> stored,
                    size_t request, bool verify, Scratch& scratch);

 private:
  struct Lane {
    Stream stream;
    io::DeviceBackend::Event event;
  };
  struct Device {
    std::vector<io::DeviceBackend::Event> ready;  // What the caller's streams held at Begin().
  };

  DeviceLoad(io::DeviceBackend& backend, std::span<const LoadRequest> requests)
      : backend_(backend), requests_(requests) {}
  Status Prepare();
  Result<Lane> MakeLane(int device, const Device& state);
  Result<Lane> TakeLane(int device);

  io::DeviceBackend& backend_;
  const std::span<const LoadRequest> requests_;
  std::vector<int> device_of_;  // By request.
  std::map<int, Device> devices_;
  bool registered_ = false;
  Mutex mutex_;
  std::map<int, std::vector<Lane>> free_ DSCKPT_GUARDED_BY(mutex_);  // By device.
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHUNK_DEVICE_LOAD_H_
