#ifndef DSCKPT_NUMERICS_GRAM_KERNELS_H_
#define DSCKPT_NUMERICS_GRAM_KERNELS_H_

// Inner products of many rows of numbers with each other, for each instruction set that may be
// there.

#include <cstddef>
#include <span>

namespace dsckpt::numerics {

/// Elements of a row that are multiplied at a time.
inline constexpr size_t kGramElements = 1024;
/// Lane k of a product sums elements k, k + kGramLanes, ...
inline constexpr size_t kGramLanes = 8;

/// Rows that a kernel takes instead of `rows`: of those that are too many, the last is of zeros.
constexpr size_t GramRows(size_t rows) { return (rows + 1) / 2 * 2; }
/// How many pairs there are of `rows` rows, each with itself and those before it.
constexpr size_t GramPairs(size_t rows) { return rows * (rows + 1) / 2; }
/// Where the pair of row `i` and row `j` stands among them. REQUIRES: j <= i.
constexpr size_t GramPair(size_t i, size_t j) { return i * (i + 1) / 2 + j; }

/// Adds the inner product of each pair to its place among `sums`. `numbers`: GramRows(rows) rows of
/// kGramElements finite numbers.
using GramKernel = void (*)(const double* numbers, size_t rows, double* sums);

struct GramKernels {
  const char* target;
  GramKernel add_products;
};

/// Those that run on this machine, the fastest first; never none. All give the same bits.
std::span<const GramKernels> UsableGramKernels();

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_GRAM_KERNELS_H_
