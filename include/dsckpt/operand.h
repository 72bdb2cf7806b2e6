#ifndef DSCKPT_OPERAND_H_
#define DSCKPT_OPERAND_H_

#include <string>

#include "dsckpt/checkpoint.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"

// What a path that names a checkpoint stands for: the rule of all commands.

namespace DSCKPT_EXPORT dsckpt {

/// Returns the path of the checkpoint that "RUN@STEP", "RUN@latest" or "RUN@-N" means, where RUN is
/// a directory: the complete checkpoint of a step, of several the one that was saved last; the one
/// to resume from; or the N-th from the end in the order of steps. It is that of a directory with a
/// manifest, of a file, or of the index of a model. Any other path, and one at which something
/// stands, is returned as it is. Thread-safe.
/// Errors: kInvalidArgument where RUN is no run, or what follows is none of these; kNotFound, with
/// the steps next to it.
Result<std::string> FindCheckpoint(const std::string& path);

/// Opens what a path stands for: a file, a directory with a manifest, the directory or the index of
/// a model, the latest checkpoint of a run, or what FindCheckpoint() finds. Thread-safe.
/// Errors: those of FindCheckpoint() and of Checkpoint::Open(); kIncomplete for a run without a
/// checkpoint; kUnsupported for a directory that takes Python to read.
Result<Checkpoint> OpenCheckpoint(const std::string& path, const CheckpointOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_OPERAND_H_
