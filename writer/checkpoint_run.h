#ifndef DSCKPT_WRITER_CHECKPOINT_RUN_H_
#define DSCKPT_WRITER_CHECKPOINT_RUN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/status.h"
#include "format/manifest.h"
#include "io/error.h"

namespace dsckpt {

/// The manifest in a directory, parsed.
struct StoredManifest {
  std::vector<std::byte> bytes;
  format::ManifestView view;  // Borrows from `bytes`.
};
/// kNotFound where there is none; else as format::ParseManifest.
Result<StoredManifest> ReadManifest(const std::string& directory);

/// A checkpoint of which everything is there.
struct CompleteCheckpoint {
  std::string name;
  std::string attempt;
  int64_t step = 0;
  std::vector<std::string> shards;
};
/// Its manifest parses and its shards stand with the sizes that it gives. kIncomplete, or why the
/// manifest cannot be read.
Result<CompleteCheckpoint> ReadComplete(const std::string& run, const std::string& name);

/// Makes `latest` name the checkpoint, unless it names a complete one of a higher step.
Status MoveLatest(const std::string& run, const std::string& name, int64_t step);

/// Removes complete checkpoints that no rule keeps. `attempt` makes names that nobody else uses.
Status ApplyRetention(const std::string& run, const Retention& retention,
                      const std::string& attempt);

/// Finishes or undoes what groups other than `session` left behind, and removes the rest of it. The
/// caller is the only rank 0 on this directory.
Status Recover(const std::string& run, const std::string& session, const io::Warn& warn);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_CHECKPOINT_RUN_H_
