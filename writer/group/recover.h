#ifndef DSCKPT_WRITER_GROUP_RECOVER_H_
#define DSCKPT_WRITER_GROUP_RECOVER_H_

// What rank 0 does with the left-overs of crashed groups (spec/commit.md, "Recovery").

#include <optional>
#include <string>

#include "dsckpt/status.h"
#include "io/error.h"

namespace dsckpt {

/// Finishes or undoes what groups other than `session` left behind, and removes the rest of it; of
/// the checkpoint `only` alone where that is given. The caller is the only rank 0 on this
/// directory, or holds the lock of that name.
Status Recover(const std::string& run, const std::string& session, const io::Warn& warn,
               const std::optional<std::string>& only = {});

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_RECOVER_H_
