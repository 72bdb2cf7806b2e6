#ifndef DSCKPT_NUMERICS_PAIRS_H_
#define DSCKPT_NUMERICS_PAIRS_H_

// What tells two tensors of one dtype and shape apart, in numbers.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dsckpt/dtype.h"
#include "numerics/pair_kernels.h"

namespace dsckpt::numerics {

/// Elements a and b are close when |b - a| <= absolute + relative * max(|a|, |b|).
struct Tolerance {
  double relative = 0, absolute = 0;
};

/// Of complex elements, sizes and differences are moduli.
struct PairStatistics {
  uint64_t count = 0;
  /// Pairs of finite elements: sums, greatest differences and `max_rel` are of these.
  uint64_t finite = 0;
  /// Elements that are NaN.
  uint64_t nan_a = 0, nan_b = 0;
  /// Elements of other bits; of those the pairs of two NaN, and of one.
  uint64_t changed = 0, changed_nan = 0, one_nan = 0;
  /// Pairs that are not close: of finite elements beyond the tolerance, of others that are neither
  /// equal nor both NaN. Without a tolerance not counted.
  uint64_t beyond = 0;
  PairSums sums;
  /// Greatest |b - a|, and the first element that has it; of no meaning where that is 0.
  double max_abs = 0;
  uint64_t max_index = 0;
  /// Greatest |b - a| / max(|a|, |b|); two zeros have 0.
  double max_rel = 0;
  /// Steps from a to b among the numbers of the dtype, at most, of pairs without NaN. Both zeros
  /// are one number; of complex elements the parts count.
  uint64_t max_ulp = 0;
};

/// Compares one chunk of two tensors, of equal size. Its sums are a node of the tensor's tree, as
/// those of ChunkStatistics are. REQUIRES: HasStatistics(dtype).
PairStatistics ComparePairs(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                            const std::optional<Tolerance>& tolerance = std::nullopt,
                            const PairKernels& kernels = UsablePairKernels().front());

/// The same sums and counts, without the greatest differences, in half the time.
PairStatistics SumUpdates(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                          const PairKernels& kernels = UsablePairKernels().front());

/// Of a whole tensor from its chunks, in their order.
PairStatistics JoinPairs(std::span<const PairStatistics> chunks);

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_PAIRS_H_
