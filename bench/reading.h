#ifndef DSCKPT_BENCH_READING_H_
#define DSCKPT_BENCH_READING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/dtype.h"

// What analyses read, and the limit that they are compared with: a loop that only reads.

namespace dsckpt::bench {

constexpr int kReadingThreads = 2;

/// Fills memory with normally distributed elements, so that none is like its neighbours; `seed`
/// tells files apart. REQUIRES: BF16 or F32.
void FillWeights(DType dtype, uint32_t seed, std::span<std::byte> bytes);

/// Reads all bytes with as many threads as the analysis has; returns how long it took.
double ReadSeconds(const std::vector<std::span<const std::byte>>& spans);

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_READING_H_
