#include "writer/group/rank_save.h"

#include <utility>

#include "base/guarded.h"
#include "writer/engine/save_task.h"
#include "writer/group/publish.h"

namespace dsckpt {

RankReport RankSave::MakeReport() const {
  RankReport report;
  report.step = attempt.step;
  report.name = attempt.paths.name;
  report.replace = attempt.replace;
  report.in_place = attempt.paths.in_place;
  report.status = Guarded([&]() -> Status {
    Status first = refused;
    // All of them, so that nothing is being written any more when the others hear of a failure.
    for (const SaveHandle& save : saves) {
      Status durable = save.WaitDurable();
      if (first.ok()) first = AsFailure(std::move(durable));
    }
    DSCKPT_RETURN_IF_ERROR(std::move(first));
    CheckpointStep("durable");
    return Summarize(report);
  });
  return report;
}

Status RankSave::Summarize(RankReport& report) const {
  std::vector<ShardSummary> parts;
  for (const std::string& shard : shards) {
    DSCKPT_ASSIGN_OR_RETURN(parts.emplace_back(),
                            SummaryOfFile(attempt.paths.Directory() + "/" + shard, shard, rank));
  }
  DSCKPT_ASSIGN_OR_RETURN(RankSummary all, Merge(std::move(parts)));
  all.manifest.attempt = attempt.paths.attempt;
  all.manifest.step = attempt.step;
  all.manifest.ranks = static_cast<uint32_t>(rank) + 1;
  DSCKPT_ASSIGN_OR_RETURN(report.manifest, format::EncodeManifest(all.manifest));
  report.contents = std::move(all.contents);
  return Status();
}

void RankSave::SetReport(RankReport made) {
  MutexLock lock(mutex_);
  report_ = std::move(made);
  changed_.NotifyAll();
}

RankReport RankSave::WaitReport() {
  {
    MutexLock lock(mutex_);
    while (!report_ && changed_.WaitUntil(lock, attempt.deadline)) continue;
    if (report_) return *std::exchange(report_, std::nullopt);
  }
  for (const SaveHandle& save : saves) save.Cancel();
  RankReport late;
  late.status = Status(StatusCode::kTimedOut,
                       "the shards of '" + attempt.paths.Final() + "' were not durable in time")
                    .WithPath(attempt.paths.Final());
  return late;
}

Status RankSave::Cancelled() const {
  return Status(StatusCode::kCancelled, "checkpoint '" + attempt.paths.Final() +
                                            "' was cancelled; what stood before is as it was")
      .WithPath(attempt.paths.Final());
}

RankReport RankSave::TakeReport() {
  RankReport report = WaitReport();
  MutexLock lock(mutex_);
  if (cancelled_) {
    report.status = Cancelled();
  } else if (rank != 0) {
    past_cancel_ = true;
  }
  return report;
}

Status RankSave::BeginPublishing() {
  MutexLock lock(mutex_);
  if (cancelled_) return Cancelled();
  past_cancel_ = true;
  return Status();
}

void RankSave::Cancel() {
  if (getpid() != process_) return;
  {
    MutexLock lock(mutex_);
    if (past_cancel_ || done_) return;
    cancelled_ = true;
  }
  for (const SaveHandle& save : saves) save.Cancel();
}

bool RankSave::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

Progress RankSave::progress() const {
  if (getpid() != process_) return {};  // Another thread may have held the lock at the fork.
  Progress sum;
  sum.captured = true;
  for (const SaveHandle& save : saves) {
    const Progress each = save.progress();
    sum.total_bytes += each.total_bytes;
    sum.captured_bytes += each.captured_bytes;
    sum.flushed_bytes += each.flushed_bytes;
    sum.captured = sum.captured && each.captured;
  }
  MutexLock lock(mutex_);
  sum.durable = done_ && status_.ok();
  return sum;
}

void RankSave::MarkDone(Status outcome) {
  MutexLock lock(mutex_);
  status_ = std::move(outcome);
  report_.reset();
  done_ = true;
  changed_.NotifyAll();
}

Status RankSave::WaitCaptured() {
  if (getpid() != process_) return InChildStatus();
  for (const SaveHandle& save : saves) DSCKPT_RETURN_IF_ERROR(save.WaitCaptured());
  return Status();
}

Status RankSave::WaitDone() {
  if (getpid() != process_) return InChildStatus();
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(lock);
  seen_ = true;
  return status_;
}

void RankSave::AwaitDone() {
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(lock);
}

bool RankSave::seen() {
  MutexLock lock(mutex_);
  return seen_ || !refused.ok();
}

}  // namespace dsckpt
