#ifndef DSCKPT_WRITER_CHECKPOINT_PATHS_H_
#define DSCKPT_WRITER_CHECKPOINT_PATHS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/status.h"

namespace dsckpt {

/// Where one attempt to write a checkpoint keeps its files (spec/commit.md, "Files").
struct AttemptPaths {
  std::string run;
  std::string name;
  std::string attempt;
  bool in_place = false;

  std::string Final() const { return run + "/" + name; }
  /// Shards are written here, each by its rank.
  std::string Directory() const { return WithMark(".incomplete-"); }
  /// Standing here, it says that the attempt was given up.
  std::string Tombstone() const { return WithMark(".removed-"); }
  /// The checkpoint that this one replaces, for a moment.
  std::string Replaced() const { return Final() + ".replaced-" + attempt; }

 private:
  std::string WithMark(std::string_view mark) const {
    return Final() + (in_place ? "/" : "") + std::string(mark) + attempt;
  }
};

/// An entry of a run directory, or in place of a checkpoint's, that only a commit makes.
struct LeftOver {
  enum class Kind { kIncomplete, kRemoved, kReplaced };
  Kind kind;
  std::string name;  // Of the checkpoint; empty in place.
  std::string attempt;
};
std::optional<LeftOver> ParseLeftOver(std::string_view entry);

std::string DefaultCheckpointName(int64_t step);
std::string DefaultShardName(int rank);

/// kInvalidArgument: no bare name, hidden, reserved, or too long with the attempt's id added.
Status CheckCheckpointName(std::string_view name, std::string_view attempt);
Status CheckShardName(std::string_view name);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_CHECKPOINT_PATHS_H_
