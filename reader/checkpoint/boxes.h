#ifndef DSCKPT_READER_CHECKPOINT_BOXES_H_
#define DSCKPT_READER_CHECKPOINT_BOXES_H_

// Boxes of logical tensors: intersections, volumes, and how messages name them.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/piece.h"

namespace dsckpt::reader {

/// A box of a logical tensor, one range a dimension. None of rank 0 is empty.
using Box = std::vector<Range>;

std::optional<Box> Intersect(const Box& a, const Box& b);  ///< Nothing when it is empty.
bool Intersects(const Box& a, const Box& b);
uint64_t Volume(std::span<const Range> box);  ///< In elements.
Box WholeBox(std::span<const int64_t> shape);
std::string BoxText(std::span<const Range> box);  ///< "[0:2, 4:8]"

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_BOXES_H_
