#ifndef DSCKPT_WRITER_GROUP_RANK_SAVE_H_
#define DSCKPT_WRITER_GROUP_RANK_SAVE_H_

// One checkpoint on one rank, from Save() until it is published or failed.

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/checkpoint_writer.h"
#include "io/lock_file.h"
#include "writer/group/commit.h"
#include "writer/group/report.h"

namespace dsckpt {

/// One checkpoint on one rank, from Save() until it is published or failed.
class DSCKPT_HIDDEN RankSave {
 public:
  // Filled by Save(), then constant.
  Attempt attempt;
  Status refused;  // Why Save() failed here; the other ranks must hear of it.
  std::vector<std::string> shards;
  std::vector<SaveHandle> saves;
  int rank = 0;
  /// Held by rank 0 until the end, where the run is not its own. Guarded by the writer's
  /// names_mutex.
  std::shared_ptr<io::LockFile> name_lock;

  /// Waits for the shards and says what rank 0 needs to know of them.
  RankReport MakeReport() const;
  void SetReport(RankReport made);
  /// The report for the group: the one that was set, or, when it is not there by the deadline, one
  /// that says so; the shards are cancelled then. A cancelled save has failed. After this only rank
  /// 0 can still be cancelled.
  RankReport TakeReport();
  /// On rank 0: the point after which Cancel() has no effect; kCancelled when it came before.
  Status BeginPublishing();
  void MarkDone(Status outcome);

  void Cancel();
  /// Whether Cancel() was called on this rank.
  bool cancelled() const;
  Progress progress() const;
  Status WaitCaptured();
  Status WaitDone();
  void AwaitDone();
  bool seen();

 private:
  RankReport WaitReport();
  Status Summarize(RankReport& report) const;
  Status Cancelled() const;

  /// In a forked child nothing moves on: waits must not wait there.
  const pid_t process_ = getpid();
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<RankReport> report_ DSCKPT_GUARDED_BY(mutex_);
  Status status_ DSCKPT_GUARDED_BY(mutex_);
  bool cancelled_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool past_cancel_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool done_ DSCKPT_GUARDED_BY(mutex_) = false;
  bool seen_ DSCKPT_GUARDED_BY(mutex_) = false;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_RANK_SAVE_H_
