#include "writer/engine/save_task.h"

#include <algorithm>
#include <utility>

#include "writer/engine/image_writer.h"
#include "writer/engine/placed_stage.h"

namespace dsckpt {

SaveHandle::Job::Job(EngineResources& resources_in, std::string path_in, SaveOptions options_in,
                     std::shared_ptr<LaidOutState> described_in)
    : resources(resources_in),
      path(std::move(path_in)),
      options(std::move(options_in)),
      described(std::move(described_in)),
      layout(*described->layout),
      data(std::as_const(*described).data()),
      eager(*resources.pool) {
  for (const auto& source : data.tensor_sources) uncaptured += source.raw_bytes;
  for (uint32_t alias : layout.aliases) uncaptured -= data.tensor_sources[alias].raw_bytes;
  for (const auto& object : data.object_sources) {
    uncaptured += object.size;
    callbacks_left += object.write != nullptr;
  }
  unordered = uncaptured;
  tensor_sums.resize(
      layout.columns.tensors.chunk_end.empty() ? 0 : layout.columns.tensors.chunk_end.back());
  log.resize(layout.log.size());
  if (uncaptured == 0 && callbacks_left == 0) CheckCaptured();
  total_bytes = (layout.shard ? layout.log_begin : layout.raw_end);
}

SaveHandle::Job::~Job() = default;

Status InChildStatus() {
  return Status(StatusCode::kFailedPrecondition,
                "this engine belongs to the parent process: create one after fork()");
}

void SaveHandle::Job::Fail(Status failure) {
  std::lock_guard lock(mutex);
  if (status.ok()) status = std::move(failure);
  stop = true;
  changed.notify_all();
}

void SaveHandle::Job::AddPending(uint64_t count) {
  std::lock_guard lock(mutex);
  pending += count;
}

void SaveHandle::Job::FinishPending() {
  std::lock_guard lock(mutex);
  if (--pending == 0) changed.notify_all();
}

void SaveHandle::Job::CaptureAtSave(uint64_t* waited_ns) {
  const auto copy = [this](uint32_t tensor, uint64_t begin, std::span<std::byte> out) {
    Status copied = device->CopyAtSave(tensor, begin, out);
    if (!copied.ok()) Fail(std::move(copied));
  };
  // Also after a failure copies may be under way, which the arena has to outlive.
  Attempt([&] {
    direct_at_save = eager.Capture(data, layout, waited_ns, copy);
    AddCaptured(eager.captured_bytes() - eager.device_bytes(), 0);
    return Status();
  });
  if (eager.device_bytes() == 0) return;
  auto marks = device->FinishAtSave();
  if (!marks.ok()) Fail(marks.status());
  const uint64_t bytes = eager.device_bytes();
  at_save_landed = false;
  AddEnqueued(bytes);
  AddPending();
  resources.landing.Add(
      [this, marks = std::move(marks)] {
        if (marks.ok()) return device->Wait(marks.value());
        device->DrainAtSave();
        return marks.status();
      },
      [this, bytes](Status landed) {
        if (!landed.ok()) Fail(std::move(landed));
        AddLanded(bytes, 0);
        {
          std::lock_guard lock(mutex);
          at_save_landed = true;
          changed.notify_all();
        }
        FinishPending();
      });
}

void SaveHandle::Job::AddCaptured(uint64_t bytes, uint64_t at_save_direct) {
  Account(bytes, bytes, at_save_direct);
}

void SaveHandle::Job::AddEnqueued(uint64_t bytes, uint64_t windows) {
  Account(0, bytes, 0);
  std::lock_guard lock(mutex);
  windows_enqueued = std::max(windows_enqueued, windows);
  if (group_fences > 0) changed.notify_all();
}

void SaveHandle::Job::MarkSnapshot(uint64_t bytes, bool all) {
  Account(0, bytes, 0);
  std::lock_guard lock(mutex);
  all_in_snapshot = all;
  if (group_fences > 0) changed.notify_all();
}

void SaveHandle::Job::AddLanded(uint64_t bytes, uint64_t at_save_direct) {
  Account(bytes, 0, at_save_direct);
}

void SaveHandle::Job::Account(uint64_t bytes, uint64_t ordered, uint64_t at_save_direct) {
  captured_bytes += bytes;
  resources.counters.captured_bytes += bytes;
  std::vector<std::shared_ptr<const void>> released;
  std::lock_guard lock(mutex);
  uncaptured -= bytes;
  unordered -= ordered;
  direct_at_save -= at_save_direct;
  if (at_save_direct != 0 && direct_at_save == 0) changed.notify_all();
  if (ordered != 0 && unordered == 0) changed.notify_all();
  released = CheckCaptured();
}

void SaveHandle::Job::MarkWindowRead(uint64_t window) {
  std::lock_guard lock(mutex);
  if (window_read.size() <= window) window_read.resize(window + 1);
  window_read[window] = true;
  while (windows_read < window_read.size() && window_read[windows_read]) ++windows_read;
  if (group_fences > 0) changed.notify_all();
}

void SaveHandle::Job::MarkLogItemRead() {
  std::lock_guard lock(mutex);
  ++log_items_read;
  if (group_fences > 0) changed.notify_all();
}

void SaveHandle::Job::MarkFileReady() {
  std::lock_guard lock(mutex);
  file_ready = true;
  changed.notify_all();
}

void SaveHandle::Job::FinishCallback() {
  std::vector<std::shared_ptr<const void>> released;
  std::lock_guard lock(mutex);
  --callbacks_left;
  released = CheckCaptured();
}

std::vector<std::shared_ptr<const void>> SaveHandle::Job::CheckCaptured() {
  if (captured || uncaptured != 0 || callbacks_left != 0) return {};
  captured = true;
  capture_ns = NanosecondsSince(started);
  resources.counters.last_capture_ns = capture_ns.load();
  changed.notify_all();
  return std::exchange(described->description.data().owners, {});
}

void SaveHandle::Job::MarkRawDispatched() {
  std::lock_guard lock(mutex);
  raw_dispatched = true;
  changed.notify_all();
}

void SaveHandle::Job::MarkLogDone() {
  std::lock_guard lock(mutex);
  log_done = true;
  changed.notify_all();
}

void SaveHandle::Job::MarkDone(Status final_status) {
  placed_stage.reset();
  log_writer.reset();
  file.reset();
  eager.Clear();
  tensor_sums = {};
  log = {};
  // The engine keeps the description for its layout: nothing of the caller's may stay in it.
  Description::Data& sources = described->description.data();
  sources.owners = {};
  sources.readers = {};
  sources.object_sources = {};
  std::shared_ptr<LaidOutState> released;
  std::shared_ptr<DeviceCapture> device_released;
  std::lock_guard lock(mutex);
  if (!final_status.ok()) status = std::move(final_status);
  done = true;
  released.swap(described);
  device_released.swap(device);
  changed.notify_all();
}

bool SaveHandle::Job::WaitFile() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return file_ready; });
  return !stop;
}

void SaveHandle::Job::WaitAtSaveLanded() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return at_save_landed; });
}

void SaveHandle::Job::WaitNothingPending() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return pending == 0; });
}

bool SaveHandle::Job::WaitRawDispatched() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return raw_dispatched || stop; });
  return !stop;
}

void SaveHandle::Job::WaitStagesIdle() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return raw_dispatched && log_done && pending == 0; });
}

void SaveHandle::Job::WaitDirectCaptured() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return direct_at_save == 0 || done; });
}

void SaveHandle::Job::AwaitCapturedOrDone() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return captured || done; });
}

std::shared_ptr<DeviceCapture> SaveHandle::Job::AwaitOrderedOrDone() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return unordered == 0 || done; });
  return captured ? nullptr : device;
}

template <typename Reached>
FenceScope SaveHandle::Job::AwaitGroup(std::string_view prefix, Reached reached) {
  std::shared_ptr<LaidOutState> kept;
  {
    std::lock_guard lock(mutex);
    if (captured || done) return {};
    kept = described;
  }
  const FenceScope ends = FindFenceScope(*kept->layout, std::as_const(*kept).data(), prefix,
                                         resources.pool->window_bytes());
  std::unique_lock lock(mutex);
  ++group_fences;
  changed.wait(lock, [&] {
    return done || captured || (log_items_read >= ends.log_items && reached(ends));
  });
  --group_fences;
  return captured || done ? FenceScope() : ends;
}

SaveHandle::Job::Ordered SaveHandle::Job::AwaitGroupOrderedOrDone(std::string_view prefix) {
  const FenceScope ends = AwaitGroup(prefix, [this](const FenceScope& wanted) {
    return windows_read >= wanted.host_windows &&
           (windows_enqueued >= wanted.device_windows || all_in_snapshot);
  });
  std::lock_guard lock(mutex);
  return {captured ? nullptr : device, all_in_snapshot ? 0 : ends.device_windows};
}

void SaveHandle::Job::AwaitGroupCapturedOrDone(std::string_view prefix) {
  AwaitGroup(prefix, [this](const FenceScope& wanted) {
    return windows_read >= std::max(wanted.host_windows, wanted.device_windows);
  });
}

void SaveHandle::Job::AwaitDone() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

Status SaveHandle::Job::WaitCaptured() {
  if (getpid() != process) return InChildStatus();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return captured || done; });
  if (!done || status.ok()) return Status();
  seen = true;
  return status;
}

Status SaveHandle::Job::WaitDone() {
  if (getpid() != process) return InChildStatus();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
  seen = true;
  return status;
}

bool SaveHandle::Job::WasSeen() {
  std::lock_guard lock(mutex);
  return seen;
}

uint64_t SaveHandle::Job::SuggestedPoolBytes() const {
  // While capture ran at its own pace, storage drained the pool at flush speed; the pool must hold
  // the difference.
  const double total = static_cast<double>(captured_bytes);
  const double flushing = static_cast<double>(NanosecondsSince(started));
  const double capturing = static_cast<double>(
      capture_ns > window_stall_ns ? capture_ns - window_stall_ns : uint64_t{0});
  const double drained = std::min(1.0, flushing > 0 ? capturing / flushing : 0.0) * total;
  const uint64_t window = resources.pool->window_bytes();
  const auto backlog = static_cast<uint64_t>(total - drained);
  // Round up, and the two windows that keep storage fed.
  const uint64_t suggested = (backlog / window + 3) * window;
  const uint64_t pool = static_cast<uint64_t>(resources.pool->count()) * window;
  return window_stall_ns == 0 ? std::min(suggested, pool) : suggested;
}

void SaveHandle::Job::Cancel() {
  if (getpid() != process) return;
  std::lock_guard lock(mutex);
  if (publishing || done) return;
  if (status.ok()) {
    status = Status(StatusCode::kCancelled,
                    "save of '" + path + "' was cancelled; the file is as before");
  }
  stop = true;
  changed.notify_all();
}

bool SaveHandle::Job::BeginPublishing() {
  std::lock_guard lock(mutex);
  publishing = !stop;
  return publishing;
}

}  // namespace dsckpt
