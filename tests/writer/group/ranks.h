#ifndef DSCKPT_TESTS_WRITER_GROUP_RANKS_H_
#define DSCKPT_TESTS_WRITER_GROUP_RANKS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/coordinator.h"
#include "dsckpt/engine.h"
#include "dsckpt/state.h"

/// How a rank's process ended.
struct Ended {
  bool killed = false;
  dsckpt::StatusCode code = dsckpt::StatusCode::kInternal;
  std::string message;
};

/// Processes of one group, each made by fork(). The process that makes them must have no threads.
class Ranks {
 public:
  /// `body` runs in each; what it returns is how the rank ended.
  Ranks(int size, std::function<dsckpt::Status(int rank)> body);
  /// Kills those that still run.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void Signal(int rank, int signal);
  /// Blocks until the rank has stopped itself.
  void AwaitStopped(int rank);
  /// Blocks until it has ended; one that has not within a minute is killed and fails the test.
  Ended Wait(int rank);
  std::vector<Ended> WaitAll();

 private:
  struct Process {
    pid_t pid = -1;
    int pipe = -1;
    bool reaped = false;
  };
  std::vector<Process> processes_;
};

/// In a rank's process: it kills or stops itself at the `count`th time (from 0) that `step` is
/// taken.
void KillAt(const std::string& step, int count = 0);
void StopAt(const std::string& step, int count = 0);

/// What a rank needs to save: an engine, the group, a writer; and a state that tells ranks, steps
/// and attempts apart.
struct RankRun {
  std::string run;         ///< The run directory.
  std::string coordinate;  ///< The directory to coordinate in.
  int rank = 0;
  int size = 1;
  std::string job = {};
  std::chrono::milliseconds timeout{20'000};
  dsckpt::Retention retention = {};

  std::unique_ptr<dsckpt::Engine> engine = {};
  std::shared_ptr<dsckpt::Coordinator> coordinator = {};
  std::unique_ptr<dsckpt::CheckpointWriter> writer = {};

  /// Joins and creates all.
  dsckpt::Status Start();
  /// Saves `Filled(value)` as this rank's shard and waits.
  dsckpt::Status Save(int64_t step, float value, const dsckpt::CheckpointSaveOptions& options = {});
};

std::unique_ptr<dsckpt::Engine> SmallEngine();

/// A state of one tensor of `elements` elements, all of them `value`, that is part `rank` of
/// `size` of a logical tensor "w"; of "w1", "w2" and so on where there are to be several.
class Part {
 public:
  Part(int rank, int size, float value, int64_t rows = 64, int tensors = 1);
  const dsckpt::State& state() const { return state_; }

 private:
  std::vector<float> elements_;
  dsckpt::State state_;
};

/// Names in a run directory that readers take for checkpoints.
std::vector<std::string> VisibleNames(const std::string& run);
/// Names that only a commit under way, or one that a crash stopped, leaves there.
std::vector<std::string> LeftOvers(const std::string& run);
/// Empty when the checkpoint is whole: the manifest parses, each shard opens and is the one that it
/// names. Else why not.
std::string WhyIncomplete(const std::string& directory);
/// First element of each shard, in the manifest's order.
std::vector<float> ShardValues(const std::string& directory);
std::string Latest(const std::string& run);

#endif  // DSCKPT_TESTS_WRITER_GROUP_RANKS_H_
