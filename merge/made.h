#ifndef DSCKPT_MERGE_MADE_H_
#define DSCKPT_MERGE_MADE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dsckpt/dtype.h"
#include "dsckpt/merge.h"
#include "dsckpt/status.h"
#include "merge/inputs.h"

// Merges whose tensors are not those of the input.

namespace dsckpt::merge {

/// Makes bytes [offset, offset + out.size()) of a tensor, by its ordinal, as it goes into the
/// output: `dtype` is its dtype there. Several threads call it at once.
using MakeTensor =
    std::function<Status(uint32_t tensor, DType dtype, uint64_t offset, std::span<std::byte> out)>;

/// Merge() of inputs that are open: names, shapes, trees, objects and attributes are theirs, and
/// the elements of tensors those that `make` makes; null: theirs too. `path`: what the user calls
/// the input. `files`: further ones that the output must not replace.
Result<MergeReport> MergeInputs(const Inputs& inputs, const std::string& path,
                                const std::string& output, const MergeOptions& options,
                                const MakeTensor& make, std::span<const std::string> files);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_MADE_H_
