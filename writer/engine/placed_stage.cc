#include "writer/engine/placed_stage.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "dsckpt/limits.h"
#include "state/source_bytes.h"
#include "writer/engine/fence_scope.h"
#include "writer/engine/image_writer.h"

namespace dsckpt {
namespace {

/// Copied and hashed in one go while it is in a core's cache.
constexpr uint64_t kBlockBytes = 128 * kKiB;

/// A driver takes about fifty marks that a host thread may sleep on before the next Record() blocks
/// until one has passed, and with it the fence of the update.
constexpr uint64_t kFlights = 24;

}  // namespace

PlacedStage::PlacedStage(SaveHandle::Job& job)
    : job_(job),
      base_(RawImageBegin(job.layout)),
      end_(job.layout.shard ? job.layout.log_begin : job.layout.raw_end),
      window_bytes_(job.resources.pool->window_bytes()),
      carries_((end_ - base_ + window_bytes_ - 1) / window_bytes_) {}

void PlacedStage::Dispatch() {
  if (job_.device == nullptr) return DispatchHost();
  Status status = job_.device->BeginWindows();
  if (status.ok()) status = TakeSnapshot();
  if (!status.ok()) return job_.Fail(std::move(status));
  DispatchDevices();
}

Status PlacedStage::TakeSnapshot() {
  if (job_.resources.options.device_snapshot_bytes == 0) return Status();
  const auto& layout = job_.layout;
  std::vector<uint32_t> lazy;
  for (const uint32_t ordinal : layout.raw_order) {
    const uint32_t described = layout.tensors[ordinal];
    const bool until_fence = job_.data.tensor_sources[described].capture == Capture::kUntilFence;
    if (until_fence && layout.raw_bytes[ordinal] > 0 && IsCopiedByDevice(ordinal))
      lazy.push_back(described);
  }
  DSCKPT_ASSIGN_OR_RETURN(auto marks, job_.device->TakeSnapshot(lazy));
  if (marks.empty()) return Status();
  uint64_t bytes = 0;
  bool all = true;
  for (const uint32_t described : lazy) {
    const bool taken = job_.device->InSnapshot(described);
    if (taken) bytes += job_.data.tensor_sources[described].raw_bytes;
    all = all && taken;
  }
  job_.MarkSnapshot(bytes, all);
  job_.AddPending();
  job_.resources.landing.Add([this, marks = std::move(marks)] { return job_.device->Wait(marks); },
                             [this, bytes](Status status) {
                               if (!status.ok()) job_.Fail(std::move(status));
                               job_.AddLanded(bytes, 0);
                               job_.FinishPending();
                             });
  return Status();
}

template <typename Take>
void PlacedStage::ForEachWindow(Take take) {
  const auto& layout = job_.layout;
  size_t first = 0;
  for (uint64_t index = 0; index < carries_.size() && !job_.stop; ++index) {
    const uint64_t begin = WindowBegin(index);
    const auto ends_before = [&](uint32_t ordinal) {
      return layout.offset[ordinal] + layout.raw_bytes[ordinal] <= begin;
    };
    while (first < layout.raw_order.size() && ends_before(layout.raw_order[first])) ++first;
    take(index, first);
  }
}

io::WindowPool::Window PlacedStage::Acquire() {
  uint64_t waited_ns = 0;
  const auto window = job_.resources.pool->Acquire(io::WindowPool::Use::kRaw, &waited_ns);
  // A snapshot on the device makes capture independent of the pool.
  if (job_.capture_ns == 0) {
    job_.window_stall_ns += waited_ns;
    job_.resources.counters.window_stall_ns += waited_ns;
  }
  return window;
}

void PlacedStage::RunFill(const Place& place) {
  job_.resources.workers->Run([this, place] {
    Fill({.index = place.index}, place.first, place.window);
    job_.FinishPending();
  });
}

void PlacedStage::DispatchHost() {
  ForEachWindow([this](uint64_t index, size_t first) {
    const Place place{index, first, Acquire()};
    job_.AddPending();
    RunFill(place);
  });
}

/// Windows go to the workers in file order, those without device pieces too: see Carry.
void PlacedStage::DispatchDevices() {
  const uint64_t flight_bytes = (end_ - base_) / kFlights;
  CopyBatch flight;
  const auto launch = [&] {
    if (!flight.places.empty()) EnqueueBatch(std::exchange(flight, {}));
  };
  ForEachWindow([&](uint64_t index, size_t first) {
    auto window = job_.resources.pool->TryAcquire(io::WindowPool::Use::kRaw);
    if (window.index < 0) {
      // Never wait with a flight on the ground: its windows may be the ones to wait for.
      launch();
      window = Acquire();
    }
    job_.AddPending();
    AddWindow(flight, {index, first, window});
    if (flight.places.size() * window_bytes_ >= flight_bytes) launch();
  });
  launch();
}

bool PlacedStage::IsCopiedByDevice(uint32_t ordinal) const {
  return job_.data.tensor_sources[job_.layout.tensors[ordinal]].producer != 0 &&
         !job_.eager.HoldsTensor(ordinal);
}

void PlacedStage::AddWindow(CopyBatch& flight, Place place) {
  const auto& layout = job_.layout;
  const uint64_t begin = WindowBegin(place.index);
  const uint64_t end = std::min(begin + window_bytes_, end_);
  for (size_t i = place.first; i < layout.raw_order.size(); ++i) {
    const uint32_t ordinal = layout.raw_order[i];
    const uint64_t offset = layout.offset[ordinal];
    if (offset >= end) break;
    if (!IsCopiedByDevice(ordinal)) continue;
    const uint32_t described = layout.tensors[ordinal];
    const uint64_t from = std::max(offset, begin);
    const uint64_t bytes = std::min(offset + layout.raw_bytes[ordinal], end) - from;
    job_.device->Add(described, from - offset, place.window.bytes.subspan(from - begin, bytes));
    if (job_.device->InSnapshot(described)) continue;
    flight.bytes += bytes;
    if (job_.data.tensor_sources[described].capture == Capture::kAtSave) flight.direct += bytes;
  }
  flight.places.push_back(place);
}

void PlacedStage::EnqueueBatch(CopyBatch flight) {
  const uint64_t windows = flight.places.back().index + 1;
  auto marks = job_.device->Enqueue(windows);
  if (marks.ok()) {
    job_.AddEnqueued(flight.bytes, windows);
  } else {
    job_.Fail(marks.status());
    flight.bytes = 0;
  }
  job_.resources.landing.Add(
      [this, marks = std::move(marks)] {
        return marks.ok() ? job_.device->Wait(marks.value()) : Status();
      },
      [this, windows, flight = std::move(flight)](Status status) {
        job_.device->Landed(windows);
        if (!status.ok()) job_.Fail(std::move(status));
        if (flight.bytes != 0) job_.AddLanded(flight.bytes, flight.direct);
        for (const Place& place : flight.places) RunFill(place);
      });
}

void PlacedStage::Fill(Task task, size_t first, io::WindowPool::Window window) {
  const auto start = Clock::now();
  const auto& layout = job_.layout;
  const uint64_t begin = WindowBegin(task.index);
  const uint64_t end = std::min(begin + window_bytes_, end_);
  uint64_t filled = begin;
  const auto zero_until = [&](uint64_t offset) {
    std::memset(window.bytes.data() + (filled - begin), 0, offset - filled);
    filled = offset;
  };
  if (begin < layout.data_begin) {
    FillHeaderTail(window.bytes.first(layout.data_begin - begin));
    filled = layout.data_begin;
  }
  // A chunk that the window before began is left for last: that window may still be at work on it.
  std::optional<Segment> cut;
  for (size_t i = first; i < layout.raw_order.size() && !job_.stop; ++i) {
    const uint32_t ordinal = layout.raw_order[i];
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
      cut = Part(segment, segment.begin, std::min(chunk_end, segment.end));
      segment = Part(segment, cut->end, segment.end);
    }
    FillTensor(task, segment);
  }
  if (cut && !job_.stop) FillChunk(task, *cut);
  carries_[task.index].ready.store(true, std::memory_order_release);
  carries_[task.index].ready.notify_all();
  job_.AddCaptured(task.captured, task.direct);
  job_.MarkWindowRead(task.index);
  if (job_.stop) {
    job_.resources.pool->Release(io::WindowPool::Use::kRaw, window.index);
    return;
  }
  zero_until(end);
  job_.resources.counters.copy_hash_ns += NanosecondsSince(start);
  WriteWindow(job_, io::WindowPool::Use::kRaw, window, end - begin, begin);
}

PlacedStage::Segment PlacedStage::Part(const Segment& segment, uint64_t begin, uint64_t end) const {
  return {segment.ordinal, begin, end, segment.out.subspan(begin - segment.begin, end - begin)};
}

void PlacedStage::FillTensor(Task& task, Segment segment) {
  while (segment.begin < segment.end && !job_.stop) {
    const uint64_t chunk_end = std::min(segment.begin + kChunkBytes, segment.end);
    FillChunk(task, Part(segment, segment.begin, chunk_end));
    segment = Part(segment, chunk_end, segment.end);
  }
}

/// Copies and hashes the part of one chunk that lies in this window.
void PlacedStage::FillChunk(Task& task, Segment segment) {
  const auto& layout = job_.layout;
  const uint64_t chunk = segment.begin / kChunkBytes;
  const uint64_t chunk_end = std::min((chunk + 1) * kChunkBytes, layout.raw_bytes[segment.ordinal]);
  const auto& totals = layout.columns.tensors.chunk_end;
  const uint64_t first_sum = segment.ordinal == 0 ? 0 : totals[segment.ordinal - 1];
  Hash128& sum = job_.tensor_sums[first_sum + chunk];

  const bool begins = segment.begin == chunk * kChunkBytes;
  const bool ends = segment.end == chunk_end;
  if (begins && ends && segment.out.size() <= kBlockBytes) {
    Copy(task, segment, nullptr);
    sum = format::HashChunk(segment.out);
    return;
  }
  std::optional<format::ChunkHasher> begun;
  if (begins) {
    task.hasher.Reset();
  } else {
    Carry& before = carries_[task.index - 1];
    before.ready.wait(false, std::memory_order_acquire);
    begun = std::exchange(before.hasher, {});
    if (!begun) return;  // The save stopped before that window was full.
  }
  format::ChunkHasher& hasher = begins ? task.hasher : *begun;
  Copy(task, segment, &hasher);
  if (ends) {
    sum = hasher.Digest();
  } else {
    carries_[task.index].hasher = std::move(hasher);
  }
}

void PlacedStage::Copy(Task& task, const Segment& segment, format::ChunkHasher* hasher) {
  if (IsCopiedByDevice(segment.ordinal)) {
    if (hasher != nullptr) hasher->Update(segment.out);
    return;
  }
  const uint32_t described = job_.layout.tensors[segment.ordinal];
  if (job_.data.tensor_sources[described].reader != 0) {
    Status status = ReadHostTensor(job_.data, described, segment.begin, segment.out);
    if (!status.ok()) return job_.Fail(std::move(status));
    if (hasher != nullptr) hasher->Update(segment.out);
    task.captured += segment.out.size();
    return;
  }
  bool eager = true;
  for (uint64_t done = 0; done < segment.out.size();) {
    const auto block = segment.out.subspan(done, std::min(kBlockBytes, segment.out.size() - done));
    eager = eager && job_.eager.TakeTensor(segment.ordinal, segment.begin + done, block);
    if (!eager) CopyFromMemory(job_.data, described, segment.begin + done, block);
    if (hasher != nullptr) hasher->Update(block);
    done += block.size();
  }
  if (eager) return;
  task.captured += segment.out.size();
  if (job_.data.tensor_sources[described].capture == Capture::kAtSave) {
    task.direct += segment.out.size();
  }
}

void PlacedStage::FillHeaderTail(std::span<std::byte> out) const {
  const auto& header = job_.layout.header;
  std::memcpy(out.data(), header.data() + (header.size() - out.size()), out.size());
}

}  // namespace dsckpt
