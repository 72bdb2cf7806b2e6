#include "numerics/sum_tree.h"

#include <bit>

namespace dsckpt::numerics {
namespace {

SumPair JoinPair(SumPair left, SumPair right) {
  return {left.sum + right.sum, left.squares + right.squares};
}

}  // namespace

void SumTree::Push(SumPair next) {
  const auto full = static_cast<size_t>(std::countr_one(count_));
  for (size_t level = 0; level < full; ++level) next = JoinPair(levels_[level], next);
  levels_[full] = next;
  ++count_;
}

SumPair SumTree::Root() const {
  SumPair root;
  bool begun = false;
  for (size_t level = 0; level < levels_.size(); ++level) {
    if ((count_ >> level & 1) == 0) continue;
    root = begun ? JoinPair(levels_[level], root) : levels_[level];
    begun = true;
  }
  return root;
}

}  // namespace dsckpt::numerics
