#include "writer/engine/scheduler.h"

#include <optional>
#include <string>
#include <utility>

namespace dsckpt {

Scheduler::Scheduler(EngineResources& resources)
    : resources_(resources),
      commit_("dsckpt-commit", [this](const TaskPtr& task) { Finish(task, task->Commit()); }),
      append_("dsckpt-append", [](const TaskPtr& task) { task->RunAppend(); }),
      placed_("dsckpt-placed", [this](const TaskPtr& task) { RunPlaced(task); }) {}

Scheduler::~Scheduler() { saves_.AwaitNone(); }

bool Scheduler::running() const {
  return placed_.threads() == 1 && append_.threads() == 1 && commit_.threads() == 1;
}

bool Scheduler::Admit(const TaskPtr& task) {
  const auto limit = static_cast<size_t>(resources_.options.max_in_flight);
  if (!saves_.AddBelow(limit, task)) {
    if (resources_.options.when_busy == WhenBusy::kSkip) {
      task->Finish(Status(StatusCode::kCancelled, "save of '" + task->plan().path +
                                                      "' was skipped: " + std::to_string(limit) +
                                                      " saves are in flight"));
      return false;
    }
    if (resources_.options.when_busy == WhenBusy::kReplaceQueued) CancelNewestQueued();
    saves_.AwaitAndAddBelow(limit, task);
  }
  ++resources_.counters.saves_started;
  return true;
}

void Scheduler::CancelNewestQueued() {
  const std::optional<TaskPtr> task = placed_.TakeNewest();
  if (!task) return;
  (*task)->AwaitNothingPending();  // Devices may still fill its at-save copies.
  Finish(*task, Status(StatusCode::kCancelled,
                       "save of '" + (*task)->plan().path + "' was replaced by a newer one"));
}

void Scheduler::Start(TaskPtr task) { placed_.Push(std::move(task)); }

void Scheduler::RunPlaced(const TaskPtr& task) {
  task->StartFile();
  append_.Push(task);
  commit_.Push(task);
  task->RunPlaced();
}

void Scheduler::Finish(const TaskPtr& task, Status status) {
  if (status.code() == StatusCode::kDurabilityUnknown) {
    resources_.Emit(Event::Kind::kDurability, status);
  } else if (!status.ok() && status.code() != StatusCode::kCancelled) {
    ++resources_.counters.saves_failed;
    resources_.Emit(Event::Kind::kSaveFailed, status);
  }
  // Before anybody can hear of the end: the next wait has to find it.
  if (!status.ok() && status.code() != StatusCode::kCancelled) saves_.NoteFailure(task);
  saves_.FreePlace();
  task->Finish(std::move(status));
  saves_.Remove(task);
}

Status Scheduler::Fence(std::string_view prefix) {
  const auto start = Clock::now();
  for (const TaskPtr& task : saves_.All()) task->AwaitCaptured(prefix);
  resources_.counters.fence_blocked_ns += NanosecondsSince(start);
  return saves_.TakeUnseenFailure();
}

Status Scheduler::FenceOnStream(Stream stream, std::string_view prefix) {
  const auto start = Clock::now();
  Status status;
  for (const TaskPtr& task : saves_.All()) {
    status = task->OrderStream(stream, prefix);
    if (!status.ok()) break;
  }
  resources_.counters.fence_blocked_ns += NanosecondsSince(start);
  DSCKPT_RETURN_IF_ERROR(std::move(status));
  return saves_.TakeUnseenFailure();
}

}  // namespace dsckpt
