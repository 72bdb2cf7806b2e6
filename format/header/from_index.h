#ifndef DSCKPT_FORMAT_HEADER_FROM_INDEX_H_
#define DSCKPT_FORMAT_HEADER_FROM_INDEX_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"
#include "format/columns/columns.h"
#include "format/header/header.h"

// The one header that an index and a producer's metadata lead to: writers write it, verification
// compares with it.

namespace dsckpt::format {

/// Is a member of the header's metadata the format's own, so that neither aliases nor producers
/// have one of its name? `format`, and what begins with `dsckpt`.
bool IsReservedMember(std::string_view key);

/// The ordinals of the tensors that a shard's header lists, in file order. REQUIRES: the index was
/// checked.
std::vector<uint32_t> ListedTensors(const IndexView& index);

/// The whole header region, file size and tail entry not yet patched in (PatchSizes). `listed`:
/// ordinals of the listed tensors in file order. `producer`: members besides those that the format
/// makes; `format` among them is the producer's value for it. `lists` becomes false where the
/// region names no tensor (spec/format.md, "Headers that would be too long"). kInvalidArgument: a
/// producer's member has the name of an alias and another value than its target; kUnsupported:
/// plain safetensors cannot express an alias; kLimitExceeded.
Result<std::string> HeaderOfIndex(const IndexView& index, std::span<const uint32_t> listed,
                                  bool shard, const Metadata& producer, bool* lists);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_HEADER_FROM_INDEX_H_
