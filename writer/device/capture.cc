#include "writer/device/capture.h"

#include <algorithm>
#include <utility>

namespace dsckpt {
namespace {

/// What the bus moves in the microsecond or two that a copy of its own costs: below, one kernel
/// that copies many pieces is faster.
constexpr uint64_t kSmallPieceBytes = 64 * 1024;
/// Of tensors in a snapshot; what device memory is best copied by.
constexpr uint64_t kSnapshotAlignment = 256;
/// A launch costs as much as a few copies.
constexpr size_t kFewPieces = 4;

}  // namespace

Result<std::unique_ptr<DeviceCapture>> DeviceCapture::Begin(DeviceStreams& queues,
                                                            const Description::Data& data) {
  std::unique_ptr<DeviceCapture> capture(new DeviceCapture(queues, data));
  DSCKPT_RETURN_IF_ERROR(capture->MarkProducers());
  return capture;
}

Status DeviceCapture::MarkProducers() {
  for (const auto& [device, stream] : data_.sources.producers) {
    // Producers whose device had to be asked for have been replaced (writer/engine/describe.cc).
    if (device == kDeviceOfPointer) {
      producers_.push_back({device, stream, {}});
      continue;
    }
    DSCKPT_ASSIGN_OR_RETURN(const DeviceStreams::Queue* const queue, queues_.Open(device));
    parts_[device].queue = queue;
    DSCKPT_RETURN_IF_ERROR(queues_.backend().CheckNotCapturing(device, stream));
    DSCKPT_ASSIGN_OR_RETURN(const Event event, queues_.TakeEvent(device));
    producers_.push_back({device, stream, event});
    DSCKPT_RETURN_IF_ERROR(queues_.backend().Record(device, event.get(), stream));
  }
  return Status();
}

DeviceCapture::DevicePart& DeviceCapture::PartOf(SourceIndex source_index) {
  return parts_.find(data_.sources.ProducerOf(source_index).device)->second;
}

const std::byte* DeviceCapture::Source(SourceIndex source_index, uint64_t begin) const {
  return static_cast<const std::byte*>(data_.sources.tensors[source_index].data) + begin;
}

Status DeviceCapture::OrderAfterProducers(int device, Stream stream) {
  for (const Producer& producer : producers_) {
    if (producer.device != device) continue;
    DSCKPT_RETURN_IF_ERROR(queues_.backend().Wait(device, stream, producer.event.get()));
  }
  return Status();
}

Status DeviceCapture::CopyAtSave(SourceIndex source_index, uint64_t begin,
                                 std::span<std::byte> out) {
  DevicePart& part = PartOf(source_index);
  const int device = part.queue->device;
  if (!std::exchange(part.used_at_save, true)) {
    queues_.RegisterPool(device);
    DSCKPT_RETURN_IF_ERROR(OrderAfterProducers(device, part.queue->at_save));
  }
  return queues_.backend().CopyToHost(device, part.queue->at_save, out,
                                      Source(source_index, begin));
}

Result<std::vector<DeviceCapture::Mark>> DeviceCapture::FinishAtSave() {
  std::vector<Mark> marks;
  for (auto& [device, part] : parts_) {
    if (!part.used_at_save) continue;
    DSCKPT_ASSIGN_OR_RETURN(const Mark mark,
                            MarkEnd(device, part.queue->at_save, &LastEvents::at_save));
    marks.push_back(mark);
    for (const Producer& producer : producers_) {
      if (producer.device != device) continue;
      DSCKPT_RETURN_IF_ERROR(queues_.backend().Wait(device, producer.stream, mark.event.get()));
    }
  }
  return marks;
}

void DeviceCapture::DrainAtSave() {
  for (const auto& [device, part] : parts_) {
    if (part.used_at_save) Drain(part, part.queue->at_save);
  }
}

// A device that cannot even be waited for runs nothing any more.
void DeviceCapture::Drain(const DevicePart& part, Stream stream) {
  static_cast<void>(queues_.backend().Drain(part.queue->device, stream));
}

Status DeviceCapture::BeginWindows() {
  for (const auto& [device, part] : parts_) {
    DSCKPT_RETURN_IF_ERROR(OrderAfterProducers(device, part.queue->copy));
    DSCKPT_RETURN_IF_ERROR(OrderAfterProducers(device, part.queue->gather));
  }
  return Status();
}

Result<std::vector<DeviceCapture::Mark>> DeviceCapture::TakeSnapshot(
    std::span<const SourceIndex> tensors) {
  std::vector<Mark> marks;
  std::map<int, uint64_t> used;
  for (const SourceIndex source_index : tensors) {
    DevicePart& part = PartOf(source_index);
    const auto room = part.queue->snapshot;
    if (room.empty()) continue;
    uint64_t& end = used[part.queue->device];
    const uint64_t bytes = data_.sources.tensors[source_index].raw_bytes;
    if (bytes > room.size() - end) continue;
    snapshot_.resize(data_.sources.tensors.size());
    snapshot_[source_index] = room.data() + end;
    part.snapshot.push_back({Source(source_index, 0), room.data() + end, bytes});
    const uint64_t padded =
        (bytes + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
    end = std::min<uint64_t>(end + padded, room.size());
  }
  for (auto& [device, part] : parts_) {
    if (part.snapshot.empty()) continue;
    Status status = SnapshotPart(part, marks);
    if (status.ok()) continue;
    for (auto& [other, each] : parts_) Drain(each, each.queue->copy);
    return status;
  }
  return marks;
}

Status DeviceCapture::SnapshotPart(DevicePart& part, std::vector<Mark>& marks) {
  // On `copy`, behind all that reads the snapshot before from it; `gather` may still do so.
  const int device = part.queue->device;
  DSCKPT_ASSIGN_OR_RETURN(const Mark before, MarkEnd(device, part.queue->gather, nullptr));
  DSCKPT_RETURN_IF_ERROR(queues_.backend().Wait(device, part.queue->copy, before.event.get()));
  DSCKPT_RETURN_IF_ERROR(
      queues_.backend().CopyAllOnDevice(device, part.queue->copy, part.snapshot));
  DSCKPT_ASSIGN_OR_RETURN(const Mark taken,
                          MarkEnd(device, part.queue->copy, &LastEvents::snapshot));
  DSCKPT_RETURN_IF_ERROR(queues_.backend().Wait(device, part.queue->gather, taken.event.get()));
  marks.push_back(taken);
  return Status();
}

void DeviceCapture::Add(SourceIndex source_index, uint64_t begin, std::span<std::byte> out) {
  DevicePart& part = PartOf(source_index);
  const bool snapshot = InSnapshot(source_index);
  const std::byte* const from =
      snapshot ? snapshot_[source_index] + begin : Source(source_index, begin);
  part.reads_sources = part.reads_sources || !snapshot;
  if (!part.added.empty() && part.newest == source_index) {
    // A tensor that goes on in the next window: the driver takes about a microsecond a copy, and
    // the fence of an update waits for all of them to be enqueued.
    Piece& last = part.added.back();
    if (static_cast<const std::byte*>(last.from) + last.bytes == from &&
        last.to + last.bytes == out.data() && queues_.RegisteredTogether(last.to, out.data())) {
      last.bytes += out.size();
      return;
    }
  }
  part.added.push_back({from, out.data(), out.size()});
  part.newest = source_index;
}

Status DeviceCapture::EnqueuePart(DevicePart& part, std::vector<Mark>& marks) {
  const int device = part.queue->device;
  // Not before: it takes long, and a snapshot does without.
  queues_.RegisterPool(device);
  const auto small =
      std::stable_partition(part.added.begin(), part.added.end(),
                            [](const Piece& piece) { return piece.bytes > kSmallPieceBytes; });
  const auto larges = static_cast<size_t>(small - part.added.begin());
  const bool gather = part.added.size() - larges > kFewPieces && queues_.pool_registered();
  const std::span<const Piece> all(part.added);
  const auto copied = gather ? all.first(larges) : all;
  const auto gathered = all.subspan(copied.size());
  Event LastEvents::*const last_gather = part.reads_sources ? &LastEvents::gather : nullptr;
  Event LastEvents::*const last_copy = part.reads_sources ? &LastEvents::copy : nullptr;
  if (!gathered.empty()) {
    DSCKPT_RETURN_IF_ERROR(queues_.backend().Gather(device, part.queue->gather, gathered));
    DSCKPT_ASSIGN_OR_RETURN(const Mark mark, MarkEnd(device, part.queue->gather, last_gather));
    marks.push_back(mark);
  }
  if (!copied.empty()) {
    DSCKPT_RETURN_IF_ERROR(queues_.backend().CopyAllToHost(device, part.queue->copy, copied));
    DSCKPT_ASSIGN_OR_RETURN(const Mark mark, MarkEnd(device, part.queue->copy, last_copy));
    marks.push_back(mark);
  }
  return Status();
}

Result<std::vector<DeviceCapture::Mark>> DeviceCapture::Enqueue(uint64_t windows) {
  std::vector<Mark> marks;
  Status failure;
  for (auto& [device, part] : parts_) {
    Status status = EnqueuePart(part, marks);
    part.added.clear();
    part.reads_sources = false;
    if (!status.ok() && failure.ok()) failure = std::move(status);
  }
  if (failure.ok()) {
    MutexLock lock(mutex_);
    stops_.push_back({windows, LastMarks()});
    return marks;
  }
  // Nothing may write into windows once their failure is known, because they are given away.
  for (const auto& [device, part] : parts_) {
    for (const Stream stream : {part.queue->copy, part.queue->gather}) Drain(part, stream);
  }
  return failure;
}

Status DeviceCapture::Read(SourceIndex source_index, uint64_t begin, std::span<std::byte> out) {
  Event done;
  DevicePart& part = PartOf(source_index);
  const int device = part.queue->device;
  {
    // Encoders read from several threads: their copies and marks must not mix.
    MutexLock lock(read_mutex_);
    if (read_ready_.insert(device).second) {
      DSCKPT_RETURN_IF_ERROR(OrderAfterProducers(device, part.queue->read));
    }
    DSCKPT_ASSIGN_OR_RETURN(done, queues_.TakeEvent(device));
    DSCKPT_RETURN_IF_ERROR(
        queues_.backend().CopyToHost(device, part.queue->read, out, Source(source_index, begin)));
    Status status = queues_.backend().Record(device, done.get(), part.queue->read);
    if (!status.ok()) {
      Drain(part, part.queue->read);
      return status;
    }
  }
  return Wait({{device, done}});
}

Result<DeviceCapture::Mark> DeviceCapture::MarkEnd(int device, Stream stream,
                                                   Event LastEvents::*last) {
  DSCKPT_ASSIGN_OR_RETURN(const Event event, queues_.TakeEvent(device));
  DSCKPT_RETURN_IF_ERROR(queues_.backend().Record(device, event.get(), stream));
  if (last != nullptr) {
    MutexLock lock(mutex_);
    last_[device].*last = event;
  }
  return Mark{device, event};
}

Status DeviceCapture::Wait(const std::vector<Mark>& marks) {
  Status failure;
  for (const Mark& mark : marks) {
    Status status = queues_.backend().Synchronize(mark.device, mark.event.get());
    if (status.ok()) continue;
    const DevicePart& part = parts_.find(mark.device)->second;
    for (const Stream stream :
         {part.queue->copy, part.queue->gather, part.queue->at_save, part.queue->read}) {
      Drain(part, stream);
    }
    if (failure.ok()) failure = std::move(status);
  }
  return failure;
}

std::vector<DeviceCapture::Mark> DeviceCapture::LastMarks() const {
  std::vector<Mark> marks;
  for (const auto& [device, last] : last_) {
    for (const Event* event : {&last.copy, &last.gather}) {
      if (*event != nullptr) marks.push_back({device, *event});
    }
  }
  return marks;
}

void DeviceCapture::MarkCopied(uint64_t windows) {
  std::deque<Stop> passed;  // Their events are given back outside of the lock.
  MutexLock lock(mutex_);
  copied_windows_ = windows;
  while (!stops_.empty() && stops_.front().windows <= windows) {
    passed.push_back(std::move(stops_.front()));
    stops_.pop_front();
  }
}

Status DeviceCapture::MakeWait(Stream stream, uint64_t windows) {
  MutexLock lock(mutex_);
  std::vector<Mark> marks;
  if (windows == kAllWindows) {
    marks = LastMarks();
  } else if (windows != 0) {
    // What has been copied needs no waiting; the next stop may then be one that is not needed
    // either.
    const auto stop = std::find_if(stops_.begin(), stops_.end(),
                                   [&](const Stop& each) { return each.windows >= windows; });
    if (stop != stops_.end() && windows > copied_windows_) marks = stop->marks;
  }
  for (const auto& [device, part] : parts_) {
    DSCKPT_RETURN_IF_ERROR(queues_.backend().CheckNotCapturing(device, stream));
  }
  for (const auto& [device, last] : last_) {
    for (const Event* event : {&last.at_save, &last.snapshot}) {
      if (*event != nullptr) marks.push_back({device, *event});
    }
  }
  for (const Mark& mark : marks) {
    DSCKPT_RETURN_IF_ERROR(queues_.backend().Wait(mark.device, stream, mark.event.get()));
  }
  return Status();
}

}  // namespace dsckpt
