#ifndef DSCKPT_NUMERICS_WIDEN_H_
#define DSCKPT_NUMERICS_WIDEN_H_

// Stored elements as doubles, each alone.

#include <cstddef>

#include "dsckpt/dtype.h"

namespace dsckpt::numerics {

/// Writes `count` elements as doubles. All values are exact but those of 64-bit integers, which
/// are rounded to the nearest double. A boolean is 1 when its byte is not 0.
using Widen = void (*)(const std::byte* elements, size_t count, double* out);

/// Null: the dtype is complex, packed or unknown.
Widen FindWiden(DType dtype);

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_WIDEN_H_
