#ifndef DSCKPT_RUN_RUN_LAYOUT_H_
#define DSCKPT_RUN_RUN_LAYOUT_H_

// Every name in a run directory and in a checkpoint's directory: made, parsed and refused here and
// nowhere else (spec/commit.md, "Files"). Nothing here touches a file. What programs outside the
// library need of it is in dsckpt/run_layout.h.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/run_layout.h"
#include "dsckpt/status.h"

namespace dsckpt::run {

/// Locked by the one live rank 0 on a run directory.
inline constexpr std::string_view kRunLockName = ".dsckpt.lock";
/// Locked by whoever writes the one checkpoint `name` without being the run's rank 0; removed by
/// its holder.
std::string EntryLockName(std::string_view name);

/// What a commit puts behind a checkpoint's name, with the attempt's id behind it.
enum class Mark { kIncomplete, kRemoved, kReplaced };  // As format::kCommitMarks.

/// What an entry is, as far as its name tells.
enum class EntryKind {
  kOther,      ///< A checkpoint, a shard or another program's: what stands there decides.
  kLatest,     ///< `latest`.
  kManifest,   ///< `dsckpt.manifest`, or a part of it.
  kRunLock,    ///< kRunLockName.
  kEntryLock,  ///< EntryLockName(name).
  kTemporary,  ///< A file that has not got its name yet (io/temporary.h).
  kMarked,     ///< What only a commit makes: `name`, `mark`, `attempt`.
  kHidden,     ///< Nothing of dsckpt's, but never taken for a checkpoint.
};

struct EntryName {
  EntryKind kind = EntryKind::kOther;
  /// The mark in the name. Also of a hidden entry that has a mark with nothing behind it, which no
  /// commit makes.
  std::optional<Mark> mark = {};
  /// Of the checkpoint that a lock or a mark is about; empty for a mark inside its directory.
  std::string name = {};
  /// The id of the attempt, of a marked entry.
  std::string attempt = {};
};
EntryName ParseEntry(std::string_view entry);
/// ParseEntry() where it is what a commit makes, else nothing.
std::optional<EntryName> ParseMarkedEntry(std::string_view entry);

/// The id of an attempt: "SESSION-SEQUENCE". A session has no two attempts of one sequence.
std::string AttemptId(std::string_view session, std::string_view sequence);
/// Whether `attempt` is an id of that session.
bool IsAttemptOf(std::string_view attempt, std::string_view session);
/// The session of directories of files without a manifest (OutputDirectory), which groups, whose
/// sessions are hexadecimal numbers, never have.
inline constexpr std::string_view kFilesSession = "files";

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

/// Whether a checkpoint that stands in a run can be called so. Broader than what new ones may be
/// called: earlier versions wrote names that other systems take for something else.
bool IsCheckpointName(std::string_view name);
/// kInvalidArgument: no new checkpoint may be called so. None may that no shard may
/// (format::WhyNoShardName); nor may one that `latest` would not keep, or that is too long with the
/// mark and the id of `attempt` behind it.
Status CheckCheckpointName(std::string_view name, std::string_view attempt);
/// kInvalidArgument: no shard may be called so.
Status CheckShardName(std::string_view name);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_RUN_LAYOUT_H_
