#include "writer/engine/save_task.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/guarded.h"
#include "writer/engine/append_stage.h"
#include "writer/engine/finish.h"
#include "writer/engine/placed_image.h"

namespace dsckpt {
namespace {

SourcesLeft LeftOf(const SavePlan& plan) {
  SourcesLeft left;
  for (const auto& source : plan.data.sources.tensors) left.bytes += source.raw_bytes;
  for (const SourceIndex alias : plan.layout.aliases) {
    left.bytes -= plan.data.sources.tensors[alias].raw_bytes;
  }
  for (const auto& object : plan.data.sources.objects) {
    left.bytes += object.size;
    left.callbacks += object.write != nullptr;
  }
  left.unordered_bytes = left.bytes;
  return left;
}

}  // namespace

Status InChildStatus() {
  return Status(StatusCode::kFailedPrecondition,
                "this engine belongs to the parent process: create one after fork()");
}

SaveOutputs::SaveOutputs(const SavePlan& plan)
    : tensor_sums(plan.layout.columns.tensors.chunk_end.empty()
                      ? 0
                      : plan.layout.columns.tensors.chunk_end.back()),
      statistics(plan.data, plan.layout, plan.options.statistics),
      appended(plan.layout.appended.size()) {}

SaveTask::SaveTask(EngineResources& resources, std::string path, SaveOptions options,
                   std::shared_ptr<LaidOutState> state)
    : resources_(resources),
      state_(std::move(state)),
      kept_plan_(std::make_shared<SavePlan>(std::move(path), std::move(options), state_)),
      plan_(*kept_plan_),
      sources_{AtSaveCopies(*resources.pool)},
      outputs_(plan_),
      progress_(plan_.started, LeftOf(plan_), state_->TakeOwners(), resources.counters) {
  progress_.counters().total_bytes = PlacedImageEnd(plan_.layout);
}

SaveTask::~SaveTask() = default;

Status SaveTask::MarkProducers() {
  if (plan_.data.sources.producers.empty()) return Status();
  MutexLock lock(mutex_);
  DSCKPT_ASSIGN_OR_RETURN(device_, DeviceCapture::Begin(*resources_.devices, plan_.data));
  sources_.device = device_.get();
  return Status();
}

void SaveTask::MakeAtSaveCopies(uint64_t* waited_ns) {
  AtSaveCopies& copies = sources_.at_save;
  DeviceCapture* const device = sources_.device;
  const auto enqueue = [&](SourceIndex tensor, uint64_t begin, std::span<std::byte> out) {
    Status enqueued = device->CopyAtSave(tensor, begin, out);
    if (!enqueued.ok()) progress_.Fail(std::move(enqueued));
  };
  progress_.RunGuarded([&] {
    progress_.LeaveToStages(copies.Copy(plan_.data, plan_.layout, waited_ns, enqueue));
    progress_.Captured(copies.bytes() - copies.device_bytes());
    return Status();
  });
  resources_.counters.at_save_bytes += copies.bytes();
  // Also after a failure copies may be under way, which their memory has to outlive.
  if (copies.device_bytes() == 0) return;
  Status finished = Guarded([&] { return FinishAtSaveCopies(copies.device_bytes()); });
  if (!finished.ok()) progress_.Fail(std::move(finished));
}

Status SaveTask::FinishAtSaveCopies(uint64_t bytes) {
  DeviceCapture* const device = sources_.device;
  auto marks = device->FinishAtSave();
  if (!marks.ok()) progress_.Fail(marks.status());
  progress_.AtSaveEnqueued(bytes);
  progress_.AddPending();
  resources_.completion.Add(
      [device, marks = std::move(marks)] {
        if (marks.ok()) return device->Wait(marks.value());
        device->DrainAtSave();
        return marks.status();
      },
      [this, bytes](Status copied) {
        if (!copied.ok()) progress_.Fail(std::move(copied));
        progress_.AtSaveCopied(bytes);
        progress_.FinishPending();
      });
  return Status();
}

void SaveTask::StartFile() {
  progress_.AddPending();
  resources_.workers->Run([this] {
    progress_.RunGuarded([this] { return OpenFile(); });
    progress_.FileReady();
    progress_.FinishPending();
  });
}

Status SaveTask::OpenFile() {
  const auto warn = [this](Status status) {
    const bool slow_only = status.code() != StatusCode::kDurabilityUnknown;
    resources_.Emit(slow_only ? Event::Kind::kFallback : Event::Kind::kDurability, status);
  };
  DSCKPT_ASSIGN_OR_RETURN(outputs_.file,
                          io::OutputFile::Create(plan_.path, resources_.options.direct_io, warn));
  return outputs_.file->Reserve(progress_.counters().total_bytes);
}

void SaveTask::RunPlaced() {
  progress_.RunGuarded([this] {
    placed_ = std::make_unique<PlacedStage>(plan_, sources_, outputs_, progress_, resources_);
    placed_->Dispatch();
    return Status();
  });
  progress_.PlacedDispatched();
}

void SaveTask::RunAppend() {
  // A small pool has no window to spare beside those of the placed stage (io/pool.h).
  const bool may_run = resources_.pool->count() >= 4 || progress_.AwaitPlacedDispatched();
  if (may_run && plan_.layout.shard) {
    progress_.RunGuarded([this] {
      outputs_.append_writer = std::make_unique<ImageWriter>(outputs_, progress_, resources_,
                                                             io::WindowPool::Use::kAppended,
                                                             plan_.layout.appended_begin);
      AppendStage(plan_, sources_, outputs_, progress_, resources_).Run();
      outputs_.append_writer->Park();
      return Status();
    });
  }
  progress_.AppendDone();
}

Status SaveTask::Commit() {
  Status status = CommitSave(plan_, outputs_, progress_, resources_);
  if (status.ok()) {
    resources_.counters.last_durable_ns = NanosecondsSince(plan_.started);
    resources_.counters.suggested_pool_bytes = SuggestedPoolBytes();
    ++resources_.counters.saves_durable;
  }
  return status;
}

void SaveTask::Finish(Status status) {
  placed_.reset();
  outputs_.append_writer.reset();
  outputs_.file.reset();
  outputs_.tensor_sums = {};
  outputs_.appended = {};
  outputs_.statistics.Clear();
  sources_.at_save.Clear();
  // The engine keeps the description for its layout: nothing of the caller's may stay in it.
  state_->DropSources();
  std::shared_ptr<const SavePlan> plan;
  std::shared_ptr<DeviceCapture> device;
  {
    MutexLock lock(mutex_);
    plan.swap(kept_plan_);
    device.swap(device_);
  }
  state_.reset();
  progress_.MarkDone(std::move(status));
}

std::optional<FenceScope> SaveTask::FindScope(std::string_view prefix) {
  if (progress_.sources_free()) return std::nullopt;
  std::shared_ptr<const SavePlan> plan;
  {
    MutexLock lock(mutex_);
    plan = kept_plan_;
  }
  if (plan == nullptr) return std::nullopt;
  return FindFenceScope(plan->layout, plan->data, prefix, resources_.pool->window_bytes());
}

void SaveTask::AwaitCaptured(std::string_view prefix) {
  if (prefix.empty()) return progress_.AwaitCaptured();
  if (const auto scope = FindScope(prefix)) progress_.AwaitRead(*scope);
}

Status SaveTask::OrderStream(Stream stream, std::string_view prefix) {
  std::optional<uint64_t> windows;
  if (prefix.empty()) {
    if (progress_.AwaitOrdered()) windows = DeviceCapture::kAllWindows;
  } else if (const auto scope = FindScope(prefix)) {
    windows = progress_.AwaitOrdered(*scope);
  }
  std::shared_ptr<DeviceCapture> device;
  if (windows) {
    MutexLock lock(mutex_);
    device = device_;
  }
  return device == nullptr ? Status() : device->MakeWait(stream, *windows);
}

Status SaveTask::WaitCaptured() {
  return getpid() == process_ ? progress_.WaitCaptured() : InChildStatus();
}

Status SaveTask::WaitDone() {
  return getpid() == process_ ? progress_.WaitDone() : InChildStatus();
}

void SaveTask::Cancel() {
  if (getpid() != process_) return;
  std::shared_ptr<const SavePlan> plan;
  {
    MutexLock lock(mutex_);
    plan = kept_plan_;
  }
  if (plan == nullptr) return;
  progress_.Cancel(Status(StatusCode::kCancelled,
                          "save of '" + plan->path + "' was cancelled; the file is as before"));
}

Progress SaveTask::progress() const {
  if (getpid() != process_) return {};  // Another thread may have held the lock at the fork.
  const SaveCounters& counters = progress_.counters();
  Progress progress;
  progress.total_bytes = counters.total_bytes;
  progress.captured_bytes = counters.captured_bytes;
  progress.flushed_bytes = counters.flushed_bytes;
  progress.captured = progress_.captured();
  progress.durable = progress_.durable();
  return progress;
}

uint64_t SaveTask::SuggestedPoolBytes() const {
  // While capture ran at its own pace, storage drained the pool at flush speed; the pool must hold
  // the difference.
  const SaveCounters& counters = progress_.counters();
  const uint64_t stalled = counters.window_stall_ns;
  const uint64_t captured_after = counters.capture_ns;
  const double total = static_cast<double>(counters.captured_bytes);
  const double flushing = static_cast<double>(NanosecondsSince(plan_.started));
  const double capturing =
      static_cast<double>(captured_after > stalled ? captured_after - stalled : uint64_t{0});
  const double drained = std::min(1.0, flushing > 0 ? capturing / flushing : 0.0) * total;
  const uint64_t window = resources_.pool->window_bytes();
  const auto backlog = static_cast<uint64_t>(total - drained);
  // Round up, and the two windows that keep storage fed.
  const uint64_t suggested = (backlog / window + 3) * window;
  const uint64_t pool = static_cast<uint64_t>(resources_.pool->count()) * window;
  return stalled == 0 ? std::min(suggested, pool) : suggested;
}

}  // namespace dsckpt
