#ifndef DSCKPT_NUMERICS_PAIR_KERNELS_H_
#define DSCKPT_NUMERICS_PAIR_KERNELS_H_

// What tells two or three blocks of elements apart, for each instruction set that may be there.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/dtype.h"

namespace dsckpt::numerics {

/// Sums over pairs of elements a and b.
struct PairSums {
  double difference = 0;  ///< of (b - a)^2
  double cross = 0;       ///< of (b - a)(b + a)
  double first = 0;       ///< of a^2
  double second = 0;      ///< of b^2
};

/// What one block of pairs comes to.
struct PairBlock {
  PairSums sums;
  double max_abs = 0;    ///< of |b - a|
  uint64_t changed = 0;  ///< elements of other bits
  uint64_t max_ulp = 0;  ///< steps from a to b among the numbers of the dtype
};

/// Takes kBlockElements pairs. Returns false when an element is not finite; the rest is then of no
/// meaning. `max_rel`, which grows: the greatest |b - a| / max(|a|, |b|).
using PairKernel = bool (*)(const std::byte* a, const std::byte* b, PairBlock& block,
                            double& max_rel);

/// Sums over elements a, b and c of three states that follow each other.
struct TurnSums {
  double dot = 0;      ///< of (b - a)(c - b)
  double later = 0;    ///< of (c - b)^2
  double earlier = 0;  ///< of (b - a)^2
};

/// Takes kBlockElements of each state. Returns false when an element is not finite; `sums` are then
/// of no meaning.
using TurnKernel = bool (*)(const std::byte* a, const std::byte* b, const std::byte* c,
                            TurnSums& sums);

/// The kernels of one element type.
struct StateKernels {
  PairKernel pairs = nullptr;
  PairKernel updates = nullptr;  ///< Leaves `max_abs`, `max_ulp` and `max_rel` as they are or 0.
  TurnKernel turns = nullptr;
};

/// The kernels of one instruction set. All give the same bits.
struct PairKernels {
  const char* target;
  StateKernels f16, bf16, f32, f64;
};

/// Those of an element type; none for one that has to be widened to doubles first.
StateKernels KernelsOf(DType dtype, const PairKernels& kernels);

/// Those that run on this machine, the fastest first; never none.
std::span<const PairKernels> UsablePairKernels();

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_PAIR_KERNELS_H_
