#ifndef DSCKPT_NUMERICS_POSITION_H_
#define DSCKPT_NUMERICS_POSITION_H_

#include <cstddef>
#include <cstdint>

#include "dsckpt/dtype.h"

namespace dsckpt::numerics {

/// Writes where `count` elements stand among all numbers of their dtype, in ascending order: the
/// neighbour above has the next position. Zeros of both signs have one. NaN has a position of no
/// meaning.
using FindPositions = void (*)(const std::byte* elements, size_t count, int64_t* out);

/// Null: the dtype is complex, packed or unknown.
FindPositions PositionsOf(DType dtype);

/// Steps between two positions.
inline uint64_t StepsBetween(int64_t a, int64_t b) {
  return a < b ? static_cast<uint64_t>(b) - static_cast<uint64_t>(a)
               : static_cast<uint64_t>(a) - static_cast<uint64_t>(b);
}

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_POSITION_H_
