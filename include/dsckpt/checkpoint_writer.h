#ifndef DSCKPT_CHECKPOINT_WRITER_H_
#define DSCKPT_CHECKPOINT_WRITER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/coordinator.h"
#include "dsckpt/engine.h"
#include "dsckpt/export.h"
#include "dsckpt/provider.h"
#include "dsckpt/run_layout.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// Which complete checkpoints of a run directory stay. Applied by rank 0 after a checkpoint was
/// published and is durable; incomplete ones count for nothing. What was just published and what
/// `latest` names always stay. The newest are those saved last, whatever their steps: after a run
/// was rolled back, what it has left behind ages like any other save.
struct Retention {
  int keep_last = 0;       ///< The N saved last stay. 0: all stay, the rest of this struct unused.
  int64_t keep_every = 0;  ///< Steps that are multiples of this stay. 0: none for this reason.
  std::vector<int64_t> keep = {};  ///< These steps stay.
};

/// How a CheckpointWriter works.
struct CheckpointWriterOptions {
  /// Where the checkpoints of the run stand, one directory each. Made where missing.
  std::string run_directory;
  /// The group; null: one rank alone.
  std::shared_ptr<Coordinator> coordinator = {};
  /// From Save() until all ranks' shards are durable and the manifest stands. When it has passed,
  /// every rank that is alive gets kTimedOut and nothing is published.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Which complete checkpoints stay.
  Retention retention = {};
  /// For tools that put one checkpoint beside a run that may be under way: `latest` and other
  /// checkpoints stay as they are, and of left-overs only those of the same name are cleared. Two
  /// of these cannot write one name at a time: kFailedPrecondition. They may save kUnknownStep.
  bool standalone = false;
  /// Called from engine and commit threads, one call at a time, with warnings.
  std::function<void(const Event&)> on_event = {};
};

/// How CheckpointWriter::Save() saves one checkpoint.
struct CheckpointSaveOptions {
  /// Name of the checkpoint's directory in the run directory; empty: "step-" and the step, ten
  /// digits.
  std::string name = {};
  /// Replace a complete checkpoint of this name instead of refusing it. Not needed for one that
  /// training has left behind (RunEntry::abandoned): a save takes its place.
  bool replace = false;
  /// The directory belongs to another program as well (DeepSpeed's `save_dir/tag`): shards and
  /// manifest are moved into it one by one, the manifest last, and other files stay.
  bool in_place = false;
  /// How each file is written.
  SaveOptions file = {};
};

/// One shard that a rank adds to a checkpoint.
struct ShardSource {
  /// File name in the checkpoint's directory; empty: DefaultShardName(). Names that mean something
  /// else on another system are refused: "a:b", "nul", two that differ in the case of letters
  /// alone.
  std::string name = {};
  /// What the file holds. It is not null, and is used during the call only.
  const StateProvider* provider = nullptr;
};

class RankSave;

/// One checkpoint under way, on one rank. As SaveHandle.
class CheckpointHandle {
 public:
  CheckpointHandle();
  ~CheckpointHandle();
  CheckpointHandle(const CheckpointHandle&);
  CheckpointHandle& operator=(const CheckpointHandle&);

  /// Blocks until this rank's source memory has been read, or its saves failed.
  Status WaitCaptured() const;
  /// Blocks until the checkpoint of all ranks is published, durable and what `latest` names, or it
  /// failed: the same answer on every rank that is alive. kTimedOut: some rank did not finish in
  /// time. kDurabilityUnknown: it is published, but a power cut may undo that, or `latest` may name
  /// the one before; nothing older was removed.
  Status WaitDurable() const;
  /// Asks the checkpoint to stop before it is published: it then fails on all ranks (kCancelled),
  /// what stood before stays, and nothing of it is left. Any rank may ask. It has no effect once
  /// this rank's part is durable and handed to the group; on rank 0, once the checkpoint is being
  /// published. Does not wait.
  void Cancel() const;
  /// The sums over this rank's shards. `durable`: the checkpoint is published and durable.
  Progress progress() const;

  /// For the writer, which makes handles.
  explicit CheckpointHandle(std::shared_ptr<RankSave> save);

 private:
  std::shared_ptr<RankSave> save_;
};

/// Writes checkpoints of a group of ranks, each complete or not there (spec/commit.md). Every rank
/// creates one and calls Save() in the same order with the same step and name.
/// Thread-safe. Uses `engine`, which must outlive it. Destroying it waits until every checkpoint
/// is published or failed.
class CheckpointWriter {
 public:
  /// Rank 0 also repairs what a crash left: a replacement that stopped half-way is finished or
  /// undone, directories of incomplete attempts are removed. kInvalidArgument, I/O.
  static Result<std::unique_ptr<CheckpointWriter>> Create(Engine& engine,
                                                          CheckpointWriterOptions options);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Saves this rank's part and returns as Engine::Save() does; nothing waits for other ranks. A
  /// save that fails, is refused here or is skipped by a busy engine fails the checkpoint on all
  /// ranks.
  ///
  /// A tensor that several ranks save under one name, or as the same part of one, is one tensor and
  /// has to be equal on all of them: else the checkpoint fails with kMismatch. What differs from
  /// rank to rank is declared with RankOwn(), of the coordinator's rank.
  Result<CheckpointHandle> Save(int64_t step, const StateProvider& state,
                                const CheckpointSaveOptions& options = {});
  /// The same with any number of shards of this rank; none is legal.
  Result<CheckpointHandle> Save(int64_t step, std::span<const ShardSource> shards,
                                const CheckpointSaveOptions& options = {});
  /// Makes an earlier complete checkpoint the one that `latest` names, after all checkpoints
  /// accepted so far have ended. As RollBack() below. On rank 0 alone, while no rank saves:
  /// kFailedPrecondition on others, and for a standalone writer.
  Status RollBack(int64_t step);
  Status RollBack(std::string_view name);
  /// Waits for all checkpoints accepted so far. Returns the first error that no handle has shown,
  /// once.
  Status WaitDurable();

 private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Sets a run back: makes its newest complete checkpoint of `step`, or the complete one called
/// `name`, the one that `latest` names and a resume takes. Atomic and durable. Nothing is removed;
/// what was saved later counts as abandoned, and its steps can be saved again. kFailedPrecondition:
/// a writer on the run is alive; its own RollBack() does it. kNotFound, kIncomplete, I/O.
Status RollBack(const std::string& run_directory, int64_t step);
Status RollBack(const std::string& run_directory, std::string_view name);

}  // namespace dsckpt

#endif  // DSCKPT_CHECKPOINT_WRITER_H_
