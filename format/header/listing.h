#ifndef DSCKPT_FORMAT_HEADER_LISTING_H_
#define DSCKPT_FORMAT_HEADER_LISTING_H_

#include <cstdint>
#include <string_view>

#include "dsckpt/status.h"
#include "format/columns/columns.h"

// Whether programs that read the JSON header of a shard see the tensors that its index lists: a
// shard is two files over the same bytes.

namespace dsckpt::format {

/// Rule F11 (spec/format.md, "Rules for shards"): the header lists exactly the listed tensors, with
/// their dtype, shape and place, and kTailName; or that alone, where the listing would be too long.
/// What the members of `__metadata__` say, and order, spaces and escapes, are for verification.
///
/// `region`: bytes [0, D). `index` was checked against the footer, whose L is `tail_begin`.
/// kMismatch names the first tensor that differs, or what is wrong with the JSON.
Status CheckListing(std::string_view region, const IndexView& index, uint64_t tail_begin,
                    uint64_t file_bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_HEADER_LISTING_H_
