#ifndef DSCKPT_NUMERICS_NARROW_H_
#define DSCKPT_NUMERICS_NARROW_H_

// Doubles as elements of floating-point dtypes, each alone.

#include <cstddef>
#include <cstdint>

#include "dsckpt/dtype.h"

namespace dsckpt::numerics {

/// Writes `count` doubles as elements: each becomes the nearest number of the dtype, or of two that
/// are equally near the even one. Too large a number becomes infinite, or NaN where the dtype has
/// no infinities. Returns how many finite ones did.
using Narrow = uint64_t (*)(const double* numbers, size_t count, std::byte* out);

/// Null: the dtype is not floating-point, or complex, packed, unknown or F8_E8M0, which has powers
/// of two alone.
Narrow FindNarrow(DType dtype);

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_NARROW_H_
