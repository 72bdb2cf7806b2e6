#ifndef DSCKPT_NUMERICS_LARGEST_PAIRS_H_
#define DSCKPT_NUMERICS_LARGEST_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/dtype.h"

// The elements of two tensors that differ most.

namespace dsckpt::numerics {

/// Two elements of other bits at one place.
struct ElementPair {
  uint64_t index = 0;
  /// As doubles; of complex elements the moduli.
  double a = 0, b = 0;
  /// |b - a|; infinite where it is no finite number, but 0 of two NaN.
  double distance = 0;
  /// Steps from a to b among the numbers of the dtype; of no meaning where one is NaN.
  uint64_t ulp = 0;
};

/// Keeps so many pairs of elements at most: those with the greatest distance, of equal distances
/// those with the lowest index. What it keeps does not depend on the order in which it is told.
class LargestPairs {
 public:
  explicit LargestPairs(size_t most) : most_(most) {}

  /// Looks at two pieces of equal size, whose first element has this index.
  /// REQUIRES: HasStatistics(dtype).
  void Look(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
            uint64_t first_index);
  void Add(const ElementPair& pair);
  void Add(const LargestPairs& other);
  /// The greatest distance first.
  std::vector<ElementPair> Sorted() const;

 private:
  size_t most_;
  std::vector<ElementPair> heap_;  // The one to give way first is at the front.
};

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_LARGEST_PAIRS_H_
