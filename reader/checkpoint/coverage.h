#ifndef DSCKPT_READER_CHECKPOINT_COVERAGE_H_
#define DSCKPT_READER_CHECKPOINT_COVERAGE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dsckpt/status.h"
#include "reader/checkpoint/boxes.h"

// Do boxes overlap, and what do they leave uncovered? Anybody may have written the boxes: both
// questions take near-linear time or say that they would take longer.

namespace dsckpt::reader {

/// Counts steps, each about one comparison of two boxes.
class WorkMeter {
 public:
  /// What may be spent on `boxes` boxes: a second or so, and more for more of them.
  explicit WorkMeter(size_t boxes) : limit_((uint64_t{1} << 26) + 512 * uint64_t{boxes}) {}
  /// False once the limit is passed.
  bool Spend(uint64_t steps) { return (spent_ += steps) <= limit_; }
  uint64_t spent() const { return spent_; }

 private:
  uint64_t limit_;
  uint64_t spent_ = 0;
};

/// By box: has it elements in common with another? Exact in one dimension; else, where it would
/// take too long to tell, true of all. REQUIRES: none is empty, all have one rank.
std::vector<bool> FindOverlaps(std::span<const Box* const> boxes, WorkMeter& work);

/// Some box inside `wanted`, which is not empty, that none of `boxes` covers; nothing when all of
/// it is covered. kLimitExceeded when that takes too long to tell: n boxes of rank d may take
/// n^(d/2) steps, although those of real splits take n log n.
Result<std::optional<Box>> FindGap(const Box& wanted, std::span<const Box* const> boxes,
                                   WorkMeter& work);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_COVERAGE_H_
