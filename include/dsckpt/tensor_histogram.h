#ifndef DSCKPT_TENSOR_HISTOGRAM_H_
#define DSCKPT_TENSOR_HISTOGRAM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dsckpt/export.h"

namespace DSCKPT_EXPORT dsckpt {

/// How often finite elements of each size occur in a tensor, or in several together. Complex
/// elements count by their modulus.
struct TensorHistogram {
  /// Elements from `low` on and below `high`, or where both are equal, of this value.
  struct Bin {
    double low = 0, high = 0;  ///< See above.
    uint64_t count = 0;        ///< At least 1.
  };
  /// In ascending order; of one dtype without overlaps. Of dtypes of 8 and 16 bits each value has a
  /// bin of its own; of others zeros have one, and the others are as wide as a step of BF16: less
  /// than 0.8 % of their values, as far as a normal float tells them.
  std::vector<Bin> bins;

  /// Returns the number of finite elements.
  uint64_t finite() const;
  /// Returns the value that a share `q` of the elements does not exceed, the middle of its bin:
  /// the element at position floor(q x (finite() - 1)) in ascending order. It is nothing where
  /// there is no finite element. REQUIRES: 0 <= q <= 1.
  std::optional<double> Quantile(double q) const;
  /// Returns the counts between powers of two, by sign, and that of zeros, without empty bins.
  /// Negative bins go from `low` to `high` as positive ones do, but do not hold `low` but `high`.
  std::vector<Bin> Log2() const;
  /// Returns the counts in `count` bins of equal width from `least` to `greatest`, which the last
  /// one holds too, such as TensorMoments::min and max; empty where there is no finite element.
  /// Elements of one of `bins` are counted together, where its middle is; what lies outside, in the
  /// first or last bin. REQUIRES: count > 0, least <= greatest.
  std::vector<Bin> Linear(uint32_t count, double least, double greatest) const;
  /// Returns the histogram of the elements of both.
  TensorHistogram With(const TensorHistogram& other) const;
};

}  // namespace dsckpt

#endif  // DSCKPT_TENSOR_HISTOGRAM_H_
