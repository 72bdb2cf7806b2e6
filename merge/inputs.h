#ifndef DSCKPT_MERGE_INPUTS_H_
#define DSCKPT_MERGE_INPUTS_H_

#include <span>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "merge/metadata.h"

// What a path stands for: one rule for merging, verification and all commands.

namespace dsckpt::merge {

enum class OperandKind {
  kFile,        ///< one file; also that of a model's directory
  kCheckpoint,  ///< a directory with a manifest
  kIndex,       ///< the index of a model in several files; also that of its directory
  kRun,         ///< any other directory
};

struct Operand {
  OperandKind kind = OperandKind::kFile;
  /// What to open: a file, an index or a directory.
  std::string path;
};

/// Looks at names only; whether the file is any good shows when it is opened, and a path that does
/// not exist counts as a file. Where "RUN@STEP", "RUN@latest" or "RUN@-N" is no path and RUN is a
/// directory, it is that checkpoint of the run, and the checkpoints of the run are opened to find
/// it; see ChooseMember() for its errors. kUnsupported: a directory that takes Python to read (says
/// which); kInvalidArgument: a directory of two models; kIncomplete: one of a model whose index is
/// missing.
Result<Operand> ToOperand(const std::string& path);

/// Inputs of a conversion, put together.
struct Inputs {
  Checkpoint checkpoint;
  /// All files that are read: none of them may be written.
  std::vector<std::string> files;
  /// Members of a model's index that are kept; without files of their own.
  Members index_members;
  /// Of a run, the path of its latest checkpoint, which was opened; else empty.
  std::string latest_of_run;
};

/// The files of a checkpoint: its manifest's and its shards.
std::vector<std::string> FilesOf(const Checkpoint& checkpoint);

/// Opens one operand, and does not list its files.
Result<Inputs> OpenOperand(const Operand& operand, const CheckpointOptions& options);
/// Opens one operand, or several files as the shards of one checkpoint, in rank order. Of a run its
/// latest checkpoint. `ignore_header`: as in MergeOptions. `map`: as in OpenOptions.
Result<Inputs> OpenInputs(std::span<const std::string> paths, bool ignore_header, bool map = false);

/// kUnsupported where items of a shard have sums of a hash that this release does not know: what is
/// read of it becomes sums that hold, whatever it was.
Status CheckVerifiable(const File& file);
/// The same for every shard.
Status CheckVerifiable(const Checkpoint& checkpoint);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_INPUTS_H_
