#ifndef DSCKPT_NUMERICS_KERNELS_H_
#define DSCKPT_NUMERICS_KERNELS_H_

// Sums, zeros and extremes of many elements at once, for each instruction set that may be there.

#include <cstddef>
#include <cstdint>
#include <span>

#include "numerics/sum_tree.h"

namespace dsckpt::numerics {

/// Lane k of a block sums its elements k, k + kLanes, ... (spec/format.md, "Statistics").
inline constexpr size_t kLanes = 16;

/// Elements whose lanes are joined to one sum.
inline constexpr size_t kBlockElements = 4096;

/// The running sums of one block.
struct Lanes {
  alignas(64) double sum[kLanes] = {};
  alignas(64) double squares[kLanes] = {};
};

/// Joins the lanes of a block pairwise: k with k + 8, then with k + 4, k + 2 and k + 1.
inline double JoinLanes(const double (&lanes)[kLanes]) {
  double sums[kLanes / 2];
  for (size_t i = 0; i < kLanes / 2; ++i) sums[i] = lanes[i] + lanes[i + kLanes / 2];
  for (size_t width = kLanes / 4; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

/// What else there is to say of some elements. The extremes are finite elements as they are stored,
/// of no meaning when there is none; -0 is less than 0.
struct Extent {
  uint64_t nan = 0, inf = 0, zero = 0;
  uint64_t min = 0, max = 0;
};

/// Adds `groups` x kLanes elements, at least one group, each less `shift`, to the lanes. Returns
/// false when one of them is not finite; `lanes` and `extent` are then as they were.
using FiniteKernel = bool (*)(const std::byte* elements, size_t groups, double shift, Lanes& lanes,
                              Extent& extent);
/// The same for 2 x `pairs` whole blocks: writes the sums of each.
using BlockKernel = bool (*)(const std::byte* elements, size_t pairs, double shift, SumPair* sums,
                             Extent& extent);
/// As FiniteKernel, for any elements.
using AnyKernel = void (*)(const std::byte* elements, size_t groups, double shift, Lanes& lanes,
                           Extent& extent);

/// The kernels of one element type.
struct TypeKernels {
  FiniteKernel groups = nullptr;
  BlockKernel blocks = nullptr;  // Null where it would be no faster.
};

/// Those that take every shift for 0, and those that do not.
struct ShiftedKernels {
  TypeKernels unshifted, shifted;
};

/// The kernels of one instruction set. All give the same bits.
struct Kernels {
  const char* target;
  ShiftedKernels f16, bf16, f32, f64;
  AnyKernel any_f64;
};

/// Those that run on this machine, the fastest first; never none.
std::span<const Kernels> UsableKernels();

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_KERNELS_H_
