#include "writer/group/rank_save.h"

#include <utility>

#include "base/guarded.h"
#include "writer/engine/save_task.h"
#include "writer/group/publish.h"

namespace dsckpt {

Report CheckpointHandle::Job::MakeReport() const {
  Report report;
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

Status CheckpointHandle::Job::Summarize(Report& report) const {
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

void CheckpointHandle::Job::SetReport(Report made) {
  MutexLock lock(mutex_);
  report_ = std::move(made);
  changed_.NotifyAll();
}

Report CheckpointHandle::Job::WaitReport() {
  {
    MutexLock lock(mutex_);
    while (!report_ && changed_.WaitUntil(lock, attempt.deadline)) continue;
    if (report_) return *std::exchange(report_, std::nullopt);
  }
  for (const SaveHandle& save : saves) save.Cancel();
  Report late;
  late.status = Status(StatusCode::kTimedOut,
                       "the shards of '" + attempt.paths.Final() + "' were not durable in time")
                    .WithPath(attempt.paths.Final());
  return late;
}

void CheckpointHandle::Job::MarkDone(Status outcome) {
  MutexLock lock(mutex_);
  status_ = std::move(outcome);
  report_.reset();
  done_ = true;
  changed_.NotifyAll();
}

Status CheckpointHandle::Job::WaitCaptured() {
  if (getpid() != process) return InChildStatus();
  for (const SaveHandle& save : saves) DSCKPT_RETURN_IF_ERROR(save.WaitCaptured());
  return Status();
}

Status CheckpointHandle::Job::WaitDone() {
  if (getpid() != process) return InChildStatus();
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(lock);
  seen_ = true;
  return status_;
}

void CheckpointHandle::Job::AwaitDone() {
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(lock);
}

bool CheckpointHandle::Job::seen() {
  MutexLock lock(mutex_);
  return seen_ || !refused.ok();
}

}  // namespace dsckpt
