#ifndef DSCKPT_RUN_RUN_LAYOUT_H_
#define DSCKPT_RUN_RUN_LAYOUT_H_

// Every name in it: made, parsed, refused.

#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/run_layout.h"
#include "dsckpt/status.h"
#include "format/file_names.h"

namespace dsckpt::run {

/// Text: the name of a checkpoint and a newline.
using format::kLatestName;
/// Locked by the one live rank 0 on a run directory.
inline constexpr std::string_view kLockName = ".dsckpt.lock";

/// What a commit puts behind a checkpoint's name, with the attempt's id behind it.
enum class Mark { kIncomplete, kRemoved, kReplaced };  // As format::kCommitMarks.

/// An entry of a run directory, or inside a checkpoint's, that only a commit makes.
struct MarkedName {
  Mark mark;
  std::string name;  ///< Of the checkpoint; empty inside its directory.
  std::string attempt;
};
std::optional<MarkedName> ParseMarkedName(std::string_view entry);
/// The mark in a name that readers hide, also with nothing behind it.
std::optional<Mark> FindMark(std::string_view entry);

/// Where one attempt to write a checkpoint keeps its files (spec/commit.md, "Files").
struct AttemptPaths {
  std::string run;
  std::string name;
  std::string attempt;
  bool in_place = false;

  std::string Final() const { return run + "/" + name; }
  /// Shards are written here, each by its rank.
  std::string Directory() const;
  /// Standing here, it says that the attempt was given up.
  std::string Tombstone() const;
  /// The checkpoint that this one replaces, for a moment.
  std::string Replaced() const;
  /// What Directory() and Tombstone() are entries of.
  std::string Parent() const { return in_place ? Final() : run; }
};

/// Locked by whoever writes the one checkpoint `name` without being the run's rank 0; removed by
/// its holder.
std::string NameLock(std::string_view name);

/// kInvalidArgument: no bare name, hidden from readers, or too long with the attempt's id added.
Status CheckCheckpointName(std::string_view name, std::string_view attempt);
Status CheckShardName(std::string_view name);

/// What `latest` says: the text without white space at either end, where that is a name that a
/// checkpoint may have.
std::optional<std::string> ParseLatest(std::string_view text);
std::string LatestText(std::string_view name);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_RUN_LAYOUT_H_
