#ifndef DSCKPT_NUMERICS_SUM_TREE_H_
#define DSCKPT_NUMERICS_SUM_TREE_H_

// The order in which sums are joined, whoever computes them.

#include <array>
#include <cstddef>
#include <cstdint>

namespace dsckpt::numerics {

/// Sums of some elements, and of their squares.
struct SumPair {
  double sum = 0;
  double squares = 0;
};

/// Joins sums level by level: the first two of a level make the first of the next one, and so on;
/// the odd last one of a level passes up as it is.
class SumTree {
 public:
  void Push(SumPair next);
  /// 0 of none.
  SumPair Root() const;

 private:
  uint64_t count_ = 0;
  /// Level i is in use while bit i of `count_` is set: it joins 2^i of what was pushed.
  std::array<SumPair, 64> levels_;
};

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_SUM_TREE_H_
