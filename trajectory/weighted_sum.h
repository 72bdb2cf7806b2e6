#ifndef DSCKPT_TRAJECTORY_WEIGHTED_SUM_H_
#define DSCKPT_TRAJECTORY_WEIGHTED_SUM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lru.h"
#include "base/mutex.h"
#include "dsckpt/average.h"
#include "dsckpt/dtype.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"
#include "trajectory/tensor_reader.h"

// The elements of averages, as they are asked for.

namespace dsckpt::trajectory {

/// Numbers of a dtype that has averages; complex ones are two parts.
struct Parts {
  DType dtype;         ///< of a part
  uint64_t bytes = 0;  ///< of a part
};
/// Nothing: tensors of the dtype have no average.
std::optional<Parts> PartsOf(DType dtype);

/// What the elements of one average were.
struct SumCounts {
  std::atomic<uint64_t> nan = 0, inf = 0, overflows = 0;
};

/// The weighted averages of tensors of a trajectory. Thread-safe.
class WeightedSum {
 public:
  /// `terms`: without those of weight 0, at least one.
  WeightedSum(const Trajectory& run, std::vector<AverageTerm> terms, bool verify);

  /// Makes bytes [offset, offset + out.size()) of the average of a tensor, of which all terms have
  /// parts, in the dtype `to`, which has some too.
  Status Read(uint32_t tensor, DType to, uint64_t offset, std::span<std::byte> out);

  /// Makes Read() fail soon (kCancelled).
  void Stop() { stopped_ = true; }
  const SumCounts& counts(uint32_t tensor) const { return counts_[tensor]; }
  uint64_t read_bytes() const { return read_bytes_; }

 private:
  struct Memory;
  std::shared_ptr<TensorReader> ReaderOf(uint32_t tensor);
  Result<uint64_t> PartsAtATime(uint32_t tensor);
  Status Sum(uint32_t tensor, uint64_t first, std::span<double> sums, Memory& memory);

  const Trajectory run_;
  MappedCheckpoints checkpoints_;
  const std::vector<AverageTerm> terms_;
  const bool verify_;
  double total_ = 0;
  std::vector<SumCounts> counts_;  // By tensor.
  std::atomic<uint64_t> read_bytes_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  LruCache<uint32_t, std::shared_ptr<TensorReader>> readers_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_WEIGHTED_SUM_H_
