#include "reader/chunk/device_load.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dsckpt/limits.h"
#include "format/names.h"

namespace dsckpt::reader {

Result<std::unique_ptr<DeviceLoad>> DeviceLoad::Begin(std::span<const LoadRequest> requests) {
  const bool any = std::any_of(requests.begin(), requests.end(), [](const LoadRequest& request) {
    return request.device != kHostMemory && request.bytes > 0;
  });
  if (!any) return std::unique_ptr<DeviceLoad>();
  DSCKPT_ASSIGN_OR_RETURN(io::DeviceBackend* const backend, io::Devices());
  std::unique_ptr<DeviceLoad> load(new DeviceLoad(*backend, requests));
  DSCKPT_RETURN_IF_ERROR(load->Prepare());
  return load;
}

Status DeviceLoad::Prepare() {
  std::set<std::pair<int, Stream>> marked;
  device_of_.assign(requests_.size(), kHostMemory);
  for (size_t i = 0; i < requests_.size(); ++i) {
    const LoadRequest& request = requests_[i];
    if (request.device == kHostMemory || request.bytes == 0) continue;
    int device = request.device;
    if (device == kDeviceOfPointer) {
      const auto found = backend_.DeviceOf(request.data);
      if (!found.ok()) {
        return Status(found.status().code(),
                      "tensor '" + Printable(request.name) + "': " + found.status().message());
      }
      device = *found;
    }
    device_of_[i] = device;
    if (!marked.emplace(device, request.stream).second) continue;
    DSCKPT_RETURN_IF_ERROR(backend_.CheckNotCapturing(device, request.stream));
    DSCKPT_ASSIGN_OR_RETURN(const auto event, backend_.CreateEvent(device));
    devices_[device].ready.push_back(event);
    DSCKPT_RETURN_IF_ERROR(backend_.Record(device, event, request.stream));
  }
  return Status();
}

DeviceLoad::~DeviceLoad() {
  for (const auto& [device, state] : devices_) {
    for (const auto event : state.ready) backend_.DestroyEvent(device, event);
  }
  for (const auto& [device, lanes] : free_) {
    for (const Lane& lane : lanes) {
      backend_.DestroyEvent(device, lane.event);
      backend_.DestroyStream(device, lane.stream);
    }
  }
}

void DeviceLoad::Register(std::span<std::byte> memory) {
  registered_ = backend_.RegisterHost(devices_.begin()->first, memory).ok();
}

void DeviceLoad::Unregister(std::span<std::byte> memory) {
  if (registered_) backend_.UnregisterHost(devices_.begin()->first, memory);
}

Result<DeviceLoad::Lane> DeviceLoad::MakeLane(int device, const Device& state) {
  Lane lane{};
  DSCKPT_ASSIGN_OR_RETURN(lane.stream, backend_.CreateStream(device, /*urgent=*/false));
  auto event = backend_.CreateEvent(device);
  Status status = event.status();
  if (event.ok()) lane.event = *event;
  for (const auto ready : state.ready) {
    if (status.ok()) status = backend_.Wait(device, lane.stream, ready);
  }
  if (status.ok()) return lane;
  if (lane.event != nullptr) backend_.DestroyEvent(device, lane.event);
  backend_.DestroyStream(device, lane.stream);
  return status;
}

Result<DeviceLoad::Lane> DeviceLoad::TakeLane(int device) {
  {
    MutexLock lock(mutex_);
    auto& free = free_[device];
    if (!free.empty()) {
      const Lane lane = free.back();
      free.pop_back();
      return lane;
    }
  }
  return MakeLane(device, devices_.find(device)->second);
}

Status DeviceLoad::PlaceChunk(const StoredItem& item, uint64_t chunk,
                              std::span<const std::byte> stored, size_t request, bool verify,
                              Scratch& scratch) {
  const int device = device_of_[request];
  std::span<const std::byte> raw = stored;
  if (item.encoded()) {
    DSCKPT_ASSIGN_OR_RETURN(raw, RawChunk(item, chunk, stored, verify, scratch));
  }
  DSCKPT_ASSIGN_OR_RETURN(const Lane lane, TakeLane(device));
  std::byte* const to = static_cast<std::byte*>(requests_[request].data) + chunk * kChunkBytes;
  Status status = backend_.CopyToDevice(device, lane.stream, to, raw);
  if (status.ok()) status = backend_.Record(device, lane.event, lane.stream);
  // Hashed while it is copied.
  Status checked;
  if (!item.encoded()) checked = RawChunk(item, chunk, stored, verify, scratch).status();
  if (status.ok()) status = backend_.Synchronize(device, lane.event);
  // What `stored` and the scratch hold is overwritten next.
  if (!status.ok()) static_cast<void>(backend_.Drain(device, lane.stream));
  {
    MutexLock lock(mutex_);
    free_[device].push_back(lane);
  }
  DSCKPT_RETURN_IF_ERROR(std::move(status));
  return checked;
}

}  // namespace dsckpt::reader
