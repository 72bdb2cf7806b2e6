#ifndef DSCKPT_WRITER_GROUP_COMMIT_H_
#define DSCKPT_WRITER_GROUP_COMMIT_H_

// A group agrees on one checkpoint: rank 0 and the others.

#include <cstdint>
#include <functional>
#include <optional>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/coordinator.h"
#include "io/error.h"
#include "run/run_layout.h"
#include "writer/group/report.h"

namespace dsckpt {

/// One checkpoint under way, as every rank of its group knows it.
struct Attempt {
  run::AttemptPaths paths;
  uint64_t sequence = 0;
  int64_t step = 0;
  bool replace = false;
  Coordinator::Clock::time_point deadline;
};

/// What the rank 0 of a run keeps from one commit to the next.
struct RunState {
  Retention retention;
  /// At least that of every complete checkpoint of the run; nothing before the first commit.
  std::optional<uint64_t> last_serial = {};
  /// The name that the last commit put into `latest`, and its serial.
  std::string latest = {};
  uint64_t latest_serial = 0;
};

/// The group's part of a commit (spec/commit.md), after this rank's shards are durable or failed:
/// reports, and returns what became of the checkpoint, the same on every rank. Called for one
/// attempt after another. Without `run`, `latest` and other checkpoints stay as they are.
/// `begin_publishing` is asked on rank 0, once, when all parts are there: an error fails the
/// attempt.
Status CommitAttempt(Coordinator& coordinator, const Attempt& attempt, Report mine,
                     const std::function<Status()>& begin_publishing, RunState* run,
                     const io::Warn& warn);

/// The status of an attempt's part as that of an attempt that publishes nothing: in an attempt, a
/// shard whose durability is unknown has failed.
Status AsFailure(Status status);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_COMMIT_H_
