#ifndef DSCKPT_BASE_ALIGN_H_
#define DSCKPT_BASE_ALIGN_H_

// Rounding of sizes and offsets to multiples of a unit, such as a page.

#include <cstdint>

namespace dsckpt {

/// How many units it takes to hold `value`. REQUIRES: `unit` is not 0.
constexpr uint64_t DivideUp(uint64_t value, uint64_t unit) {
  return value / unit + (value % unit != 0);
}

/// The largest multiple of `unit` that is at most `value`.
constexpr uint64_t RoundDown(uint64_t value, uint64_t unit) { return value / unit * unit; }

/// The smallest multiple of `unit` that is at least `value`. REQUIRES: it is below 2^64.
constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) { return DivideUp(value, unit) * unit; }

}  // namespace dsckpt

#endif  // DSCKPT_BASE_ALIGN_H_
