#ifndef DSCKPT_NUMERICS_TURNS_H_
#define DSCKPT_NUMERICS_TURNS_H_

// Three states of a tensor: its two updates, and whether they go the same way.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dsckpt/dtype.h"
#include "numerics/pair_kernels.h"

namespace dsckpt::numerics {

inline TurnSums Joined(const TurnSums& left, const TurnSums& right) {
  return {left.dot + right.dot, left.later + right.later, left.earlier + right.earlier};
}

/// Of the elements of one chunk that are finite in all three states, which have equal sizes. Its
/// sums are a node of the tensor's tree, as those of ChunkStatistics are. Complex elements are
/// pairs of real ones. REQUIRES: HasStatistics(dtype).
TurnSums SumTurns(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::span<const std::byte> c,
                  const PairKernels& kernels = UsablePairKernels().front());

/// The first element that is NaN. REQUIRES: HasStatistics(dtype).
std::optional<uint64_t> FindNan(DType dtype, std::span<const std::byte> elements);

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_TURNS_H_
