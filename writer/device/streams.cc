#include "writer/device/streams.h"

#include <algorithm>
#include <utility>

namespace dsckpt {

DeviceStreams::~DeviceStreams() {
  if (backend_ == nullptr) return;
  for (const auto& part : registered_parts_) backend_->UnregisterHost(registered_by_, part);
  for (const auto& [device, events] : free_events_) {
    for (const auto event : events) backend_->DestroyEvent(device, event);
  }
  for (const auto& [device, queue] : queues_) {
    for (const Stream stream : {queue->copy, queue->gather, queue->at_save, queue->read}) {
      backend_->DestroyStream(device, stream);
    }
    if (!queue->snapshot.empty()) backend_->Free(device, queue->snapshot.data());
  }
}

Result<const DeviceStreams::Queue*> DeviceStreams::Open(int device) {
  MutexLock lock(mutex_);
  if (const auto found = queues_.find(device); found != queues_.end()) return found->second.get();
  if (backend_ == nullptr) {
    DSCKPT_ASSIGN_OR_RETURN(backend_, io::Devices());
  }
  DSCKPT_ASSIGN_OR_RETURN(Queue queue, MakeQueue(device));
  auto& slot = queues_[device];
  slot = std::make_unique<const Queue>(queue);
  return slot.get();
}

Result<DeviceStreams::Queue> DeviceStreams::MakeQueue(int device) {
  Queue queue{
      .device = device, .copy = {}, .gather = {}, .at_save = {}, .read = {}, .snapshot = {}};
  std::vector<Stream> made;
  for (Stream* stream : {&queue.copy, &queue.gather, &queue.at_save, &queue.read}) {
    auto created = backend_->CreateStream(device, /*urgent=*/stream == &queue.gather);
    if (!created.ok()) {
      for (const Stream other : made) backend_->DestroyStream(device, other);
      return created.status();
    }
    *stream = *created;
    made.push_back(*created);
  }
  if (snapshot_bytes_ != 0) {
    const auto memory = backend_->Allocate(device, snapshot_bytes_);
    if (memory.ok()) {
      queue.snapshot = {*memory, snapshot_bytes_};
    } else if (warn_) {
      warn_(Status(memory.status().code(), "no snapshots on device " + std::to_string(device) +
                                               ", so that fences wait for copies to the host: " +
                                               memory.status().message()));
    }
  }
  return queue;
}

Result<DeviceStreams::EventPtr> DeviceStreams::TakeEvent(int device) {
  const auto give_back = [this, device](void* event) {
    if (event == nullptr) return;
    MutexLock lock(mutex_);
    free_events_[device].push_back(event);
  };
  {
    MutexLock lock(mutex_);
    auto& events = free_events_[device];
    if (!events.empty()) {
      EventPtr event(events.back(), give_back);
      events.pop_back();
      return event;
    }
  }
  DSCKPT_ASSIGN_OR_RETURN(const auto event, backend_->CreateEvent(device));
  return EventPtr(event, give_back);
}

bool DeviceStreams::RegisteredTogether(const std::byte* a, const std::byte* b) const {
  const std::byte* const begin = pool_.windows().front().data();
  const uint64_t bytes = register_step_ * pool_.window_bytes();
  return static_cast<uint64_t>(a - begin) / bytes == static_cast<uint64_t>(b - begin) / bytes;
}

void DeviceStreams::RegisterPool(int device) {
  MutexLock lock(register_mutex_);
  if (std::exchange(register_tried_, true)) return;
  registered_by_ = device;
  const auto& windows = pool_.windows();
  for (size_t i = 0; i < windows.size(); i += register_step_) {
    const size_t last = std::min(i + register_step_, windows.size()) - 1;
    const std::span<std::byte> part(windows[i].data(), windows[last].data() + windows[last].size());
    Status status = backend_->RegisterHost(device, part);
    if (!status.ok()) {
      for (const auto& done : registered_parts_) backend_->UnregisterHost(device, done);
      registered_parts_.clear();
      if (warn_) {
        warn_(Status(status.code(),
                     "the staging pool is not pinned, so that copies from devices "
                     "are slower and block: " +
                         status.message()));
      }
      return;
    }
    registered_parts_.push_back(part);
  }
  registered_ = true;
}

}  // namespace dsckpt
