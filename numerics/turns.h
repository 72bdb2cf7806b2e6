#ifndef DSCKPT_NUMERICS_TURNS_H_
#define DSCKPT_NUMERICS_TURNS_H_

// Three states of a tensor: its two updates, and whether they go the same way.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dsckpt/dtype.h"

namespace dsckpt::numerics {

/// Sums over elements that are finite in all three states.
struct TurnSums {
  double dot = 0;      ///< of (b - a)(c - b)
  double later = 0;    ///< of (c - b)^2
  double earlier = 0;  ///< of (b - a)^2
};

inline TurnSums Joined(const TurnSums& left, const TurnSums& right) {
  return {left.dot + right.dot, left.later + right.later, left.earlier + right.earlier};
}

/// Of one chunk of equal size in each state. Its sums are a node of the tensor's tree, as those of
/// ChunkStatistics are. Complex elements are pairs of real ones. REQUIRES: HasStatistics(dtype).
TurnSums SumTurns(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::span<const std::byte> c);

/// The first element that is NaN. REQUIRES: HasStatistics(dtype).
std::optional<uint64_t> FindNan(DType dtype, std::span<const std::byte> elements);

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_TURNS_H_
