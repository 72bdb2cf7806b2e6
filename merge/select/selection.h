#ifndef DSCKPT_MERGE_SELECT_SELECTION_H_
#define DSCKPT_MERGE_SELECT_SELECTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/merge.h"
#include "dsckpt/status.h"

// What becomes of the names of tensors.

namespace dsckpt::merge {

/// What each of `names` is called in the output; nothing for those that are left out. `paths`: they
/// are paths in a state tree, of which a last segment that is left alone becomes the key again that
/// it stands for ("model/a~1b" without "model/" is "a/b").
/// kInvalidArgument: a pattern or a replacement that no name meets, names that become one, a name
/// that no file may bear, or an expression that cannot be read.
Result<std::vector<std::optional<std::string>>> SelectNames(
    const TensorSelection& selection, const std::vector<std::string_view>& names, bool paths);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_SELECT_SELECTION_H_
