#ifndef DSCKPT_FORMAT_RANK_OWN_H_
#define DSCKPT_FORMAT_RANK_OWN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/piece.h"
#include "dsckpt/status.h"
#include "format/columns/names.h"

// Subtrees that belong to one rank (spec/format.md, "What belongs to a rank").

namespace dsckpt::format {

/// The position in `roots` of `name`, or of what it lies below. REQUIRES: `roots` meet
/// CheckRankOwn().
std::optional<uint32_t> FindRoot(const NameView& roots, std::string_view name);
inline bool IsRankOwn(const NameView& roots, std::string_view name) {
  return FindRoot(roots, name).has_value();
}

/// The roots as a shard stores them: ascending, each once, without those below another.
NameColumns SortedRoots(const NameColumns& described);

/// Legal names, strictly ascending, none below another. kCorrupt. Linear in the bytes of the names.
Status CheckRankOwn(const NameView& roots);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_RANK_OWN_H_
