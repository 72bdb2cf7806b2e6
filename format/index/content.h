#ifndef DSCKPT_FORMAT_INDEX_CONTENT_H_
#define DSCKPT_FORMAT_INDEX_CONTENT_H_

#include <optional>

#include "format/columns/columns.h"

namespace dsckpt::format {

/// One digest for all that a shard holds: items, aliases, pieces, the tree, what belongs to the
/// rank (spec/format.md, "Digest of the content"). Attributes are left out: two steps with equal
/// state have equal digests. Nothing where the hash of the chunks is not XXH3-128. Linear time.
/// REQUIRES: a checked index, its sums and places filled in.
std::optional<Hash128> ContentDigest(const IndexView& index);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_INDEX_CONTENT_H_
