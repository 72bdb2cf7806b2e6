#ifndef DSCKPT_TOOLS_OPERAND_H_
#define DSCKPT_TOOLS_OPERAND_H_

#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "tools/metadata.h"

// What a path on the command line stands for: one rule for all commands.

namespace dsckpt::tools {

class Console;

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
/// not exist counts as a file. kUnsupported: a directory that takes Python to read (says which);
/// kInvalidArgument: a directory of two models; kIncomplete: one of a model whose index is missing.
Result<Operand> ToOperand(const std::string& path);

/// Inputs of a conversion, put together.
struct Inputs {
  Checkpoint checkpoint;
  /// All files that are read: none of them may be written.
  std::vector<std::string> files;
  /// Members of a model's index that are kept; without files of their own.
  Members index_members;
};

/// Opens one operand, or several files as the shards of one checkpoint, in rank order. Of a run its
/// latest checkpoint, which a note names.
Result<Inputs> OpenInputs(Console& console, const std::vector<std::string>& paths);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_OPERAND_H_
