#ifndef DSCKPT_NUMERICS_SUM_TREE_H_
#define DSCKPT_NUMERICS_SUM_TREE_H_

// The order in which sums are joined, whoever computes them.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dsckpt::numerics {

/// Sums of some elements, and of their squares.
struct SumPair {
  double sum = 0;
  double squares = 0;
};

inline SumPair Joined(const SumPair& left, const SumPair& right) {
  return {left.sum + right.sum, left.squares + right.squares};
}

/// Joins what Joined() takes level by level: the first two of a level make the first of the next
/// one, and so on; the odd last one of a level passes up as it is.
template <typename Sums>
class PairwiseTree {
 public:
  void Push(Sums next) {
    const auto full = static_cast<size_t>(std::countr_one(count_));
    for (size_t level = 0; level < full; ++level) next = Joined(levels_[level], next);
    levels_[full] = next;
    ++count_;
  }
  /// Sums() of none.
  Sums Root() const {
    Sums root;
    bool begun = false;
    for (size_t level = 0; level < levels_.size(); ++level) {
      if ((count_ >> level & 1) == 0) continue;
      root = begun ? Joined(levels_[level], root) : levels_[level];
      begun = true;
    }
    return root;
  }

 private:
  uint64_t count_ = 0;
  /// Level i is in use while bit i of `count_` is set: it joins 2^i of what was pushed.
  std::array<Sums, 64> levels_;
};

using SumTree = PairwiseTree<SumPair>;

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_SUM_TREE_H_
