#include "writer/engine/scheduler.h"

#include <utility>

#include "writer/engine/append_stage.h"
#include "writer/engine/finish.h"
#include "writer/engine/image_writer.h"
#include "writer/engine/placed_stage.h"

namespace dsckpt {

Scheduler::Scheduler(EngineResources& resources) : resources_(resources) {
  StartStage(raw_, "dsckpt-raw", &Scheduler::RunRaw);
  StartStage(log_, "dsckpt-log", &Scheduler::RunLog);
  StartStage(commit_, "dsckpt-commit", &Scheduler::RunCommit);
}

Scheduler::~Scheduler() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return active_.empty(); });
    closing_ = true;
    changed_.notify_all();
  }
  for (Stage* stage : {&raw_, &log_, &commit_}) {
    if (stage->thread.joinable()) stage->thread.join();
  }
}

bool Scheduler::running() const {
  return raw_.thread.joinable() && log_.thread.joinable() && commit_.thread.joinable();
}

void Scheduler::StartStage(Stage& stage, const char* name,
                           void (Scheduler::*handle)(const JobPtr&)) {
  stage.thread = io::StartThread(name, [this, &stage, handle] {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || !stage.queue.empty(); });
      if (stage.queue.empty()) return;
      JobPtr job = std::move(stage.queue.front());
      stage.queue.pop_front();
      lock.unlock();
      (this->*handle)(job);
      job.reset();
      lock.lock();
    }
  });
}

void Scheduler::Push(Stage& stage, JobPtr job) {
  std::lock_guard lock(mutex_);
  stage.queue.push_back(std::move(job));
  changed_.notify_all();
}

bool Scheduler::Admit(const JobPtr& job) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return active_.size() < static_cast<size_t>(resources_.options.max_in_flight);
  };
  if (!has_room()) {
    if (resources_.options.when_busy == WhenBusy::kSkip) {
      lock.unlock();
      job->MarkDone(
          Status(StatusCode::kCancelled, "save of '" + job->path + "' was skipped: " +
                                             std::to_string(resources_.options.max_in_flight) +
                                             " saves are in flight"));
      return false;
    }
    if (resources_.options.when_busy == WhenBusy::kReplaceQueued) CancelNewestQueued(lock);
    changed_.wait(lock, has_room);
  }
  active_.push_back(job);
  ++resources_.counters.saves_started;
  return true;
}

void Scheduler::CancelNewestQueued(std::unique_lock<std::mutex>& lock) {
  if (raw_.queue.empty()) return;
  const JobPtr job = std::move(raw_.queue.back());
  raw_.queue.pop_back();
  lock.unlock();
  job->WaitNothingPending();  // Its at-save copies from devices may still fill the arena.
  Finish(job,
         Status(StatusCode::kCancelled, "save of '" + job->path + "' was replaced by a newer one"));
  lock.lock();
}

void Scheduler::Start(JobPtr job) { Push(raw_, std::move(job)); }

void Scheduler::RunRaw(const JobPtr& job) {
  // Reserving the file takes long enough to be worth doing beside the first copies.
  job->AddPending();
  resources_.workers->Run([this, job = job.get()] {
    job->Attempt([&] { return OpenFile(*job); });
    job->MarkFileReady();
    job->FinishPending();
  });
  Push(log_, job);
  Push(commit_, job);
  job->Attempt([&] {
    job->placed_stage = std::make_unique<PlacedStage>(*job);
    job->placed_stage->Dispatch();
    return Status();
  });
  job->MarkRawDispatched();
}

Status Scheduler::OpenFile(SaveHandle::Job& job) {
  const auto warn = [this](Status status) {
    const bool slow_only = status.code() != StatusCode::kDurabilityUnknown;
    resources_.Emit(slow_only ? Event::Kind::kFallback : Event::Kind::kDurability, status);
  };
  DSCKPT_ASSIGN_OR_RETURN(job.file,
                          io::OutputFile::Create(job.path, resources_.options.direct_io, warn));
  return job.file->Reserve(job.total_bytes);
}

void Scheduler::RunLog(const JobPtr& job) {
  // A small pool has no window to spare beside those of the raw stage (io/pool.h).
  const bool may_run = resources_.pool->count() >= 4 || job->WaitRawDispatched();
  if (may_run && job->layout.shard) {
    job->Attempt([&] {
      job->log_writer =
          std::make_unique<ImageWriter>(*job, io::WindowPool::Use::kLog, job->layout.log_begin);
      AppendStage(*job, *job->log_writer).Run();
      job->log_writer->Park();
      return Status();
    });
  }
  job->MarkLogDone();
}

void Scheduler::RunCommit(const JobPtr& job) {
  Status status = CommitSave(*job);
  if (status.ok()) {
    resources_.counters.last_durable_ns = NanosecondsSince(job->started);
    resources_.counters.suggested_pool_bytes = job->SuggestedPoolBytes();
    ++resources_.counters.saves_durable;
  }
  Finish(job, std::move(status));
}

void Scheduler::Finish(const JobPtr& job, Status status) {
  if (status.code() == StatusCode::kDurabilityUnknown) {
    resources_.Emit(Event::Kind::kDurability, status);
  } else if (!status.ok() && status.code() != StatusCode::kCancelled) {
    ++resources_.counters.saves_failed;
    resources_.Emit(Event::Kind::kSaveFailed, status);
  }
  if (!status.ok() && status.code() != StatusCode::kCancelled) {
    std::lock_guard lock(mutex_);
    failed_.push_back(job);
  }
  job->MarkDone(std::move(status));
  std::lock_guard lock(mutex_);
  std::erase(active_, job);
  changed_.notify_all();
}

std::vector<Scheduler::JobPtr> Scheduler::Active() {
  std::lock_guard lock(mutex_);
  return active_;
}

Status Scheduler::Fence(std::string_view prefix) {
  const auto start = Clock::now();
  for (const JobPtr& job : Active()) {
    if (prefix.empty()) {
      job->AwaitCapturedOrDone();
    } else {
      job->AwaitGroupCapturedOrDone(prefix);
    }
  }
  resources_.counters.fence_blocked_ns += NanosecondsSince(start);
  return TakeUnseenFailure();
}

Status Scheduler::FenceOnStream(Stream stream, std::string_view prefix) {
  const auto start = Clock::now();
  Status status;
  for (const JobPtr& job : Active()) {
    const auto [device, windows] =
        prefix.empty()
            ? SaveHandle::Job::Ordered{job->AwaitOrderedOrDone(), DeviceCapture::kAllWindows}
            : job->AwaitGroupOrderedOrDone(prefix);
    if (device == nullptr) continue;
    status = device->MakeWait(stream, windows);
    if (!status.ok()) break;
  }
  resources_.counters.fence_blocked_ns += NanosecondsSince(start);
  DSCKPT_RETURN_IF_ERROR(std::move(status));
  return TakeUnseenFailure();
}

Status Scheduler::WaitDurable() {
  for (const JobPtr& job : Active()) job->AwaitDone();
  return TakeUnseenFailure();
}

Status Scheduler::TakeUnseenFailure() {
  std::lock_guard lock(mutex_);
  while (!failed_.empty()) {
    const JobPtr job = std::move(failed_.front());
    failed_.erase(failed_.begin());
    if (!job->WasSeen()) return job->WaitDone();
  }
  return Status();
}

}  // namespace dsckpt
