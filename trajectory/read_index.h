#ifndef DSCKPT_TRAJECTORY_READ_INDEX_H_
#define DSCKPT_TRAJECTORY_READ_INDEX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "trajectory/index_columns.h"

// What the index of one checkpoint says, read once and then let go.

namespace dsckpt::trajectory {

struct TensorRecord {
  std::string name;
  DTypeInfo dtype;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  Cell cell;  ///< Its form is not filled.
};

struct IndexRecord {
  std::vector<TensorRecord> tensors;
  std::vector<std::pair<std::string, Value>> attributes;
  std::optional<Hash128> tree_digest, stored_digest;
  uint64_t bytes_read = 0;
};

/// Opens each shard once, one after another. Errors: those of Checkpoint::OpenShard().
Result<IndexRecord> ReadIndex(const Checkpoint& checkpoint);

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_READ_INDEX_H_
