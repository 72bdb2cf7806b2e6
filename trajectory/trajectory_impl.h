#ifndef DSCKPT_TRAJECTORY_TRAJECTORY_IMPL_H_
#define DSCKPT_TRAJECTORY_TRAJECTORY_IMPL_H_

// What an open trajectory holds.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/lru.h"
#include "base/mutex.h"
#include "dsckpt/trajectory.h"
#include "merge/inputs.h"
#include "merge/run_members.h"
#include "trajectory/index_columns.h"

namespace dsckpt {

namespace trajectory {

/// One checkpoint, without its file.
struct Member {
  std::string name;  ///< In its run; its path where it was named itself.
  merge::Operand operand;
  std::string text;  ///< Stands for it in commands.
  std::string run;   ///< Empty where it was named itself.
  merge::MemberStep step;
  uint64_t serial = 0;
  uint64_t parent = 0;
  uint32_t shards = 1;
  std::optional<Hash128> tree_digest, stored_digest;
  std::vector<std::pair<std::string, Value>> attributes;
  Column column;
};

/// What is known of a name over all checkpoints.
struct Span {
  uint32_t first = 0, last = 0, checkpoints = 0, forms = 0, last_form = 0;
};

using OpenCheckpoints = LruCache<uint32_t, Checkpoint>;

}  // namespace trajectory

struct DSCKPT_HIDDEN Trajectory::Impl {
  /// Each of them may keep 64 MiB of chunks.
  static constexpr size_t kReaders = 4;
  /// As many of its shards an open checkpoint keeps open.
  static constexpr uint32_t kOpenShards = 64;

  TrajectoryOptions options;
  std::vector<trajectory::Member> members;
  trajectory::Tables tables;
  std::vector<trajectory::Span> spans;  // by name
  std::vector<std::pair<std::string, std::string>> skipped;
  uint64_t index_bytes = 0;

  mutable Mutex mutex;
  /// Set when all is known.
  mutable std::optional<trajectory::OpenCheckpoints> open DSCKPT_GUARDED_BY(mutex);
  mutable std::optional<trajectory::OpenCheckpoints> readers DSCKPT_GUARDED_BY(mutex);

  /// Divides TrajectoryOptions::max_open_files among both.
  void LimitOpen();
  /// From `kept`, which becomes the one used last.
  Result<Checkpoint> Open(uint32_t t, trajectory::OpenCheckpoints& kept) const;
};

}  // namespace dsckpt

#endif  // DSCKPT_TRAJECTORY_TRAJECTORY_IMPL_H_
