#ifndef DSCKPT_MERGE_CHECKPOINT_HEALTH_H_
#define DSCKPT_MERGE_CHECKPOINT_HEALTH_H_

// What is wrong with a checkpoint directory.

#include <cstdint>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"

namespace dsckpt::merge {

/// Bytes of one piece of the tensor.
uint64_t PieceBytes(const LogicalTensorInfo& tensor, const OwnedPiece& piece);

/// What a checkpoint directory holds, and what is wrong with it. Tensor data is not read.
struct CheckpointHealth {
  struct Shard {
    ShardInfo info;
    uint64_t pieces = 0;
    uint64_t piece_bytes = 0;
    uint8_t unknown_hash = 0;  ///< id of a hash that this release does not know; 0: it knows it
    Status status;             ///< missing, or another shard than the manifest describes
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
CheckpointHealth HealthOf(const Checkpoint& checkpoint);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_CHECKPOINT_HEALTH_H_
