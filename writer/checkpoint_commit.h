#ifndef DSCKPT_WRITER_CHECKPOINT_COMMIT_H_
#define DSCKPT_WRITER_CHECKPOINT_COMMIT_H_

#include <cstdint>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/coordinator.h"
#include "io/error.h"
#include "writer/checkpoint_paths.h"
#include "writer/checkpoint_report.h"

namespace dsckpt {

/// One checkpoint under way, as every rank of its group knows it.
struct Attempt {
  AttemptPaths paths;
  uint64_t sequence = 0;
  int64_t step = 0;
  bool replace = false;
  Coordinator::Clock::time_point deadline;
};

/// The group's part of a commit (spec/commit.md), after this rank's shards are durable or failed:
/// reports, and returns what became of the checkpoint, the same on every rank. Called for one
/// attempt after another. Without `retention`, `latest` and other checkpoints stay as they are.
Status CommitAttempt(Coordinator& coordinator, const Attempt& attempt, Report mine,
                     const Retention* retention, const io::Warn& warn);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_CHECKPOINT_COMMIT_H_
