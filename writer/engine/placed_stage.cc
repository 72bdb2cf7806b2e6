#include "writer/engine/placed_stage.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "state/source_bytes.h"
#include "writer/engine/image_writer.h"
#include "writer/engine/placed_image.h"

namespace dsckpt {
namespace {

/// Copied and hashed in one go while it is in a core's cache.
constexpr uint64_t kBlockBytes = 128 * kKiB;

/// A driver takes about fifty marks that a host thread may sleep on before the next Record() blocks
/// until one has passed, and with it the fence of the update.
constexpr uint64_t kBatches = 24;

}  // namespace

PlacedStage::PlacedStage(const SavePlan& plan, SaveSources& sources, SaveOutputs& outputs,
                         SaveProgress& progress, EngineResources& resources)
    : plan_(plan),
      sources_(sources),
      outputs_(outputs),
      progress_(progress),
      resources_(resources),
      base_(PlacedImageBegin(plan.layout)),
      end_(PlacedImageEnd(plan.layout)),
      window_bytes_(resources.pool->window_bytes()),
      carries_((end_ - base_ + window_bytes_ - 1) / window_bytes_) {}

void PlacedStage::Dispatch() {
  if (sources_.device == nullptr) return DispatchHost();
  Status status = sources_.device->BeginWindows();
  if (status.ok()) status = TakeSnapshot();
  if (!status.ok()) return progress_.Fail(std::move(status));
  DispatchDevices();
}

Status PlacedStage::TakeSnapshot() {
  if (resources_.options.device_snapshot_bytes == 0) return Status();
  const auto& layout = plan_.layout;
  std::vector<SourceIndex> lazy;
  for (const TensorOrdinal ordinal : layout.placed_order) {
    const SourceIndex source_index = layout.tensors[ordinal];
    const bool until_fence =
        plan_.data.sources.tensors[source_index].capture == Capture::kUntilFence;
    if (until_fence && layout.raw_bytes[ordinal] > 0 && IsCopiedByDevice(ordinal))
      lazy.push_back(source_index);
  }
  DSCKPT_ASSIGN_OR_RETURN(auto marks, sources_.device->TakeSnapshot(lazy));
  if (marks.empty()) return Status();
  uint64_t bytes = 0;
  bool all = true;
  for (const SourceIndex source_index : lazy) {
    const bool taken = sources_.device->InSnapshot(source_index);
    if (taken) bytes += plan_.data.sources.tensors[source_index].raw_bytes;
    all = all && taken;
  }
  progress_.SnapshotEnqueued(bytes, all);
  progress_.AddPending();
  resources_.completion.Add(
      [this, marks = std::move(marks)] { return sources_.device->Wait(marks); },
      [this, bytes](Status status) {
        if (!status.ok()) progress_.Fail(std::move(status));
        progress_.Copied(bytes);
        progress_.FinishPending();
      });
  return Status();
}

template <typename Take>
void PlacedStage::ForEachWindow(Take take) {
  const auto& layout = plan_.layout;
  size_t first = 0;
  for (uint64_t index = 0; index < carries_.size() && !progress_.stopped(); ++index) {
    const uint64_t begin = WindowBegin(index);
    const auto ends_before = [&](TensorOrdinal ordinal) {
      return layout.offset[ordinal] + layout.raw_bytes[ordinal] <= begin;
    };
    while (first < layout.placed_order.size() && ends_before(layout.placed_order[first])) ++first;
    take(index, first);
  }
}

io::WindowPool::Window PlacedStage::Acquire() {
  uint64_t waited_ns = 0;
  const auto window = resources_.pool->Acquire(io::WindowPool::Use::kPlaced, &waited_ns);
  // A snapshot on the device makes capture independent of the pool.
  if (progress_.counters().capture_ns == 0) progress_.AddWindowStall(waited_ns);
  return window;
}

void PlacedStage::RunFill(const Place& place) {
  resources_.workers->Run([this, place] {
    Fill({.index = place.index}, place.first, place.window);
    progress_.FinishPending();
  });
}

void PlacedStage::DispatchHost() {
  ForEachWindow([this](uint64_t index, size_t first) {
    const Place place{index, first, Acquire()};
    progress_.AddPending();
    RunFill(place);
  });
}

/// Windows go to the workers in file order, those without device pieces too: see Carry.
void PlacedStage::DispatchDevices() {
  const uint64_t batch_bytes = (end_ - base_) / kBatches;
  CopyBatch batch;
  const auto enqueue = [&] {
    if (!batch.places.empty()) EnqueueBatch(std::exchange(batch, {}));
  };
  ForEachWindow([&](uint64_t index, size_t first) {
    auto window = resources_.pool->TryAcquire(io::WindowPool::Use::kPlaced);
    if (window.index < 0) {
      // Never wait while a batch is being gathered: its windows may be the ones to wait for.
      enqueue();
      window = Acquire();
    }
    progress_.AddPending();
    AddWindow(batch, {index, first, window});
    if (batch.places.size() * window_bytes_ >= batch_bytes) enqueue();
  });
  enqueue();
}

bool PlacedStage::IsCopiedByDevice(TensorOrdinal tensor) const {
  return plan_.data.sources.tensors[plan_.layout.tensors[tensor]].producer &&
         !sources_.at_save.HoldsTensor(tensor);
}

void PlacedStage::AddWindow(CopyBatch& batch, Place place) {
  const auto& layout = plan_.layout;
  const uint64_t begin = WindowBegin(place.index);
  const uint64_t end = std::min(begin + window_bytes_, end_);
  for (size_t i = place.first; i < layout.placed_order.size(); ++i) {
    const TensorOrdinal ordinal = layout.placed_order[i];
    const uint64_t offset = layout.offset[ordinal];
    if (offset >= end) break;
    if (!IsCopiedByDevice(ordinal)) continue;
    const SourceIndex source_index = layout.tensors[ordinal];
    const uint64_t from = std::max(offset, begin);
    const uint64_t bytes = std::min(offset + layout.raw_bytes[ordinal], end) - from;
    sources_.device->Add(source_index, from - offset,
                         place.window.bytes.subspan(from - begin, bytes));
    if (sources_.device->InSnapshot(source_index)) continue;
    batch.bytes += bytes;
    if (plan_.data.sources.tensors[source_index].capture == Capture::kAtSave)
      batch.awaited += bytes;
  }
  batch.places.push_back(place);
}

void PlacedStage::EnqueueBatch(CopyBatch batch) {
  const uint64_t windows = batch.places.back().index + 1;
  auto marks = sources_.device->Enqueue(windows);
  if (marks.ok()) {
    progress_.WindowsEnqueued(batch.bytes, windows);
  } else {
    progress_.Fail(marks.status());
    batch.bytes = 0;
  }
  resources_.completion.Add(
      [this, marks = std::move(marks)] {
        return marks.ok() ? sources_.device->Wait(marks.value()) : Status();
      },
      [this, windows, batch = std::move(batch)](Status status) {
        sources_.device->MarkCopied(windows);
        if (!status.ok()) progress_.Fail(std::move(status));
        if (batch.bytes != 0) progress_.Copied(batch.bytes, batch.awaited);
        for (const Place& place : batch.places) RunFill(place);
      });
}

void PlacedStage::Fill(Task task, size_t first, io::WindowPool::Window window) {
  const auto start = Clock::now();
  const auto& layout = plan_.layout;
  const uint64_t begin = WindowBegin(task.index);
  const uint64_t end = std::min(begin + window_bytes_, end_);
  uint64_t filled = begin;
  const auto zero_until = [&](uint64_t offset) {
    std::memset(window.bytes.data() + (filled - begin), 0, offset - filled);
    filled = offset;
  };
  if (begin < layout.data_begin) {
    const auto header = HeaderInImage(layout);
    std::memcpy(window.bytes.data(), header.data(), header.size());
    filled = layout.data_begin;
  }
  // A chunk that the window before began is left for last: that window may still be at work on it.
  std::optional<Segment> cut;
  for (size_t i = first; i < layout.placed_order.size() && !progress_.stopped(); ++i) {
    const TensorOrdinal ordinal = layout.placed_order[i];
    const uint64_t offset = layout.offset[ordinal];
    const uint64_t bytes = layout.raw_bytes[ordinal];
    if (offset >= end) break;
    if (bytes == 0) continue;
    Segment segment{
        ordinal, std::max(offset, begin) - offset, std::min(offset + bytes, end) - offset, {}};
    zero_until(offset + segment.begin);
    segment.out = window.bytes.subspan(filled - begin, segment.end - segment.begin);
    filled = offset + segment.end;
    if (segment.begin % kChunkBytes != 0) {
      const uint64_t chunk_end = segment.begin / kChunkBytes * kChunkBytes + kChunkBytes;
      cut = SubSegment(segment, segment.begin, std::min(chunk_end, segment.end));
      segment = SubSegment(segment, cut->end, segment.end);
    }
    FillTensor(task, segment);
  }
  if (cut && !progress_.stopped()) FillChunk(task, *cut);
  carries_[task.index].ready.store(true, std::memory_order_release);
  carries_[task.index].ready.notify_all();
  progress_.Captured(task.captured, task.awaited);
  progress_.WindowRead(task.index);
  if (progress_.stopped()) {
    resources_.pool->Release(io::WindowPool::Use::kPlaced, window.index);
    return;
  }
  zero_until(end);
  resources_.counters.copy_hash_ns += NanosecondsSince(start);
  WriteWindow(outputs_, progress_, resources_,
              {io::WindowPool::Use::kPlaced, window, end - begin, begin});
}

PlacedStage::Segment PlacedStage::SubSegment(const Segment& segment, uint64_t begin, uint64_t end) {
  return {segment.tensor, begin, end, segment.out.subspan(begin - segment.begin, end - begin)};
}

void PlacedStage::FillTensor(Task& task, Segment segment) {
  while (segment.begin < segment.end && !progress_.stopped()) {
    const uint64_t chunk_end = std::min(segment.begin + kChunkBytes, segment.end);
    FillChunk(task, SubSegment(segment, segment.begin, chunk_end));
    segment = SubSegment(segment, chunk_end, segment.end);
  }
}

/// Copies and hashes the part of one chunk that lies in this window.
void PlacedStage::FillChunk(Task& task, Segment segment) {
  const auto& layout = plan_.layout;
  const uint64_t chunk = segment.begin / kChunkBytes;
  const uint64_t chunk_end = std::min((chunk + 1) * kChunkBytes, layout.raw_bytes[segment.tensor]);
  Hash128& sum = outputs_.tensor_sums[layout.FirstSum(segment.tensor) + chunk];

  const bool begins = segment.begin == chunk * kChunkBytes;
  const bool ends = segment.end == chunk_end;
  if (begins && ends && segment.out.size() <= kBlockBytes) {
    Copy(task, segment, nullptr);
    sum = format::HashChunk(segment.out);
    outputs_.statistics.Measure(segment.tensor, chunk, segment.out);
    return;
  }
  std::optional<ChunkMeter> begun;
  if (begins) {
    task.meter.Begin(outputs_.statistics.CountedAs(segment.tensor));
  } else {
    Carry& before = carries_[task.index - 1];
    before.ready.wait(false, std::memory_order_acquire);
    begun = std::exchange(before.meter, {});
    if (!begun) return;  // The save stopped before that window was full.
  }
  ChunkMeter& meter = begins ? task.meter : *begun;
  Copy(task, segment, &meter);
  if (!ends) {
    carries_[task.index].meter = std::move(meter);
    return;
  }
  sum = meter.Digest();
  if (const auto* statistics = meter.statistics(); statistics != nullptr) {
    outputs_.statistics.Put(segment.tensor, chunk, statistics->Finish());
  }
}

void PlacedStage::Copy(Task& task, const Segment& segment, ChunkMeter* meter) {
  if (IsCopiedByDevice(segment.tensor)) {
    if (meter != nullptr) meter->Update(segment.out);
    return;
  }
  const SourceIndex source_index = plan_.layout.tensors[segment.tensor];
  if (plan_.data.sources.tensors[source_index].reader) {
    Status status = ReadHostTensor(plan_.data, source_index, segment.begin, segment.out);
    if (!status.ok()) return progress_.Fail(std::move(status));
    if (meter != nullptr) meter->Update(segment.out);
    task.captured += segment.out.size();
    return;
  }
  bool copied = true;
  for (uint64_t done = 0; done < segment.out.size();) {
    const auto block = segment.out.subspan(done, std::min(kBlockBytes, segment.out.size() - done));
    copied = copied && sources_.at_save.TakeTensor(segment.tensor, segment.begin + done, block);
    if (!copied) CopyFromMemory(plan_.data, source_index, segment.begin + done, block);
    if (meter != nullptr) meter->Update(block);
    done += block.size();
  }
  if (copied) return;
  task.captured += segment.out.size();
  if (plan_.data.sources.tensors[source_index].capture == Capture::kAtSave) {
    task.awaited += segment.out.size();
  }
}

}  // namespace dsckpt
