#ifndef DSCKPT_TOOLS_CHECKPOINT_HEALTH_H_
#define DSCKPT_TOOLS_CHECKPOINT_HEALTH_H_

// What is wrong with a checkpoint directory.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"

namespace dsckpt::tools {

/// How the command line opens checkpoints: it waits for no lagging file system.
inline const CheckpointOptions kAtOnce{.file = {.map = false},
                                       .retry = std::chrono::milliseconds(0)};

/// The file that makes a directory a checkpoint.
inline constexpr const char* kManifestName = "dsckpt.manifest";

/// Bytes of one piece of the tensor.
uint64_t PieceBytes(const LogicalTensorInfo& tensor, const OwnedPiece& piece);

bool IsDirectory(const std::string& path);
/// The names in a directory, in byte order. Whatever keeps it from being read is an error.
Result<std::vector<std::string>> EntriesOf(const std::string& directory);
/// Anything of that name, a directory too.
bool FileExists(const std::string& path);
/// A directory with a manifest; other directories are taken for run directories.
bool IsCheckpointDirectory(const std::string& path);

/// What a checkpoint directory holds, and what is wrong with it. Tensor data is not read.
struct CheckpointHealth {
  struct Shard {
    ShardInfo info;
    uint64_t pieces = 0;
    uint64_t piece_bytes = 0;
    Status status;  ///< missing, or another shard than the manifest describes
  };
  struct Gap {
    std::string tensor;
    Status status;
  };
  std::vector<Shard> shards;
  std::vector<Gap> gaps;                     ///< logical tensors that the pieces do not cover
  std::vector<std::string> ignored_entries;  ///< files that the manifest does not name
  uint64_t bytes = 0;                        ///< of all shards
  bool complete = true;
};
CheckpointHealth MakeSurvey(const Checkpoint& checkpoint);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_CHECKPOINT_HEALTH_H_
