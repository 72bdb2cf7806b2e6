#ifndef DSCKPT_STATE_RANK_OWN_H_
#define DSCKPT_STATE_RANK_OWN_H_

#include "dsckpt/status.h"
#include "format/columns/names.h"
#include "state/description.h"

namespace dsckpt {

/// The subtrees that a description declares to be the rank's own (spec/format.md, "What
/// belongs to a rank"), as a shard stores them. Refuses names of what ranks share that a rank's own
/// would meet: kInvalidArgument below its roots (names without a tree), kAlreadyExists where the
/// states of all ranks together keep it, at "ranks".
Result<format::NameColumns> RankOwnRoots(const Description::Data& description);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_RANK_OWN_H_
