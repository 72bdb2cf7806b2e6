#ifndef DSCKPT_ANALYSIS_VALUE_COUNTS_H_
#define DSCKPT_ANALYSIS_VALUE_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/tensor_histogram.h"

// How often elements of each size occur.

namespace dsckpt::analysis {

/// Counts by the bits of narrow elements, by the upper half of others as floats. Not thread-safe.
class ValueCounts {
 public:
  /// REQUIRES: HasStatistics(dtype).
  explicit ValueCounts(DType dtype);
  void Add(std::span<const std::byte> elements);
  void Add(const ValueCounts& other);
  TensorHistogram ToHistogram() const;

 private:
  void AddNumbers(const double* values, size_t count);

  DType dtype_;
  size_t element_bytes_;
  std::vector<uint64_t> counts_;
};

}  // namespace dsckpt::analysis

#endif  // DSCKPT_ANALYSIS_VALUE_COUNTS_H_
