#ifndef DSCKPT_WRITER_GROUP_RANK_SAVE_H_
#define DSCKPT_WRITER_GROUP_RANK_SAVE_H_

// One checkpoint on one rank, from Save() until it is published or failed.

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/checkpoint_writer.h"
#include "io/lock_file.h"
#include "writer/group/commit.h"
#include "writer/group/report.h"

namespace dsckpt {

/// One checkpoint on one rank, from Save() until it is published or failed.
struct CheckpointHandle::Job {
  // Filled by Save(), then constant.
  Attempt attempt;
  Status refused;  // Why Save() failed here; the other ranks must hear of it.
  std::vector<std::string> shards;
  std::vector<SaveHandle> saves;
  int rank = 0;
  /// Held by rank 0 until the end, where the run is not its own. Guarded by the writer's mutex.
  std::shared_ptr<io::LockFile> name_lock;

  /// Waits for the shards and says what rank 0 needs to know of them.
  RankReport MakeReport() const;
  void SetReport(RankReport made);
  /// The report, or, when it is not there by the deadline, one that says so; the shards are
  /// cancelled then.
  RankReport WaitReport();
  void MarkDone(Status outcome);
  Status WaitCaptured();
  Status WaitDone();
  void AwaitDone();
  bool WasSeen();

  /// In a forked child nothing moves on: waits must not wait there.
  const pid_t process = getpid();

 private:
  Status Summarize(RankReport& report) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by `mutex_`.
  std::optional<RankReport> report_;
  Status status_;
  bool done_ = false, seen_ = false;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_RANK_SAVE_H_
