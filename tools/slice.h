#ifndef DSCKPT_TOOLS_SLICE_H_
#define DSCKPT_TOOLS_SLICE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/piece.h"
#include "dsckpt/status.h"

namespace dsckpt::tools {

/// A part of a tensor as it is written behind its name: "[5, :64, ::]".
struct Slice {
  std::vector<Range> box;      ///< One range for each dimension of the tensor.
  std::vector<int64_t> shape;  ///< Of the part: an index alone drops its dimension.
};

/// The brackets at the end of `text`, without their name; nothing where there are none.
std::optional<std::string> SliceIn(const std::string& text);

/// By Python's rules: begin:end, negative numbers count from the end, ranges are cut to the shape,
/// missing dimensions are whole. kInvalidArgument: no such text, an index outside, a step that is
/// not 1, too many dimensions.
Result<Slice> ParseSlice(const std::string& brackets, std::span<const int64_t> shape);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_SLICE_H_
