#ifndef DSCKPT_RUN_COMPLETE_H_
#define DSCKPT_RUN_COMPLETE_H_

// The one rule of which checkpoints of a run are complete (spec/commit.md, "Files"): the manifest
// parses, and every part and every shard stands as a regular file of the size that the manifest
// gives.

#include <initializer_list>
#include <string>
#include <vector>

#include "dsckpt/status.h"
#include "format/manifest/manifest.h"
#include "run/save_order.h"

namespace dsckpt::run {

/// Whether each shard of `manifest` stands, with its size, in one of `directories`, of which the
/// first that has an entry of its name counts. kIncomplete names the first shard that does not.
Status CheckShards(std::initializer_list<std::string> directories,
                   const format::ManifestView& manifest);

/// A complete checkpoint of a run.
struct CompleteCheckpoint : SaveRecord {
  std::string attempt;
  std::vector<std::string> shards;  ///< File names.
  uint32_t parts = 0;               ///< Of the manifest.
};
/// kIncomplete, or why the manifest cannot be read.
Result<CompleteCheckpoint> ReadComplete(const std::string& run, const std::string& name);
/// All complete checkpoints of a run, in the order of saves.
Result<std::vector<CompleteCheckpoint>> CompleteCheckpoints(const std::string& run);

/// Whether `name` is a complete checkpoint that training has left behind, so that a save may take
/// its place.
bool IsAbandoned(const std::string& run, const std::string& name);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_COMPLETE_H_
