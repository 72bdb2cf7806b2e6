#ifndef DSCKPT_WRITER_GROUP_RETENTION_H_
#define DSCKPT_WRITER_GROUP_RETENTION_H_

// What rank 0 of a run does besides saving: retention, setting `latest` back, and recovery from
// what crashed groups left behind.

#include <cstdint>
#include <optional>
#include <string>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/status.h"
#include "io/error.h"

namespace dsckpt {

/// Removes complete checkpoints that no rule keeps, but never `published` nor what `latest` names.
/// `attempt` makes names that nobody else uses.
Status ApplyRetention(const std::string& run, const Retention& retention,
                      const std::string& published, const std::string& attempt);

/// Makes the complete checkpoint `name`, or the newest one of `step`, the one that `latest` names.
/// The caller is the only rank 0 on this directory. kNotFound; kIncomplete.
Status MoveLatestBack(const std::string& run, const std::string& name);
Status MoveLatestBack(const std::string& run, int64_t step);

/// Finishes or undoes what groups other than `session` left behind, and removes the rest of it; of
/// the checkpoint `only` alone where that is given. The caller is the only rank 0 on this
/// directory, or holds the lock of that name.
Status Recover(const std::string& run, const std::string& session, const io::Warn& warn,
               const std::optional<std::string>& only = {});

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_RETENTION_H_
