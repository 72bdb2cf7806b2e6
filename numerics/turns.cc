#include "numerics/turns.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "numerics/kernels.h"
#include "numerics/sum_tree.h"
#include "numerics/usual_arithmetic.h"
#include "numerics/widen.h"

namespace dsckpt::numerics {
namespace {

/// Elements as numbers: those of a complex one are two.
struct Parts {
  explicit Parts(DType dtype) {
    const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
    const DType part = dtype == DType::kC64    ? DType::kF32
                       : dtype == DType::kC128 ? DType::kF64
                                               : dtype;
    each = complex ? 2 : 1;
    bytes = FindDType(part)->block_bytes;
    widen = FindWiden(part);
  }
  size_t each, bytes;
  Widen widen;
};

/// Numbers of a block at most.
constexpr size_t kMostNumbers = 2 * kBlockElements;
using Numbers = double[kMostNumbers];

bool AllFinite(const double* values, size_t count) {
  // What is not finite makes the sum NaN: an infinity less itself is.
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += values[i + k] - values[i + k];
  }
  for (; i < count; ++i) lanes[0] += values[i] - values[i];
  return JoinLanes(lanes) == 0;
}

/// Number i is part of element i / each, which has a lane.
double Dot(const double* x, const double* y, size_t count, size_t each) {
  double lanes[kLanes] = {};
  size_t i = 0;
  if (each == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k] * y[i + k];
    }
  }
  for (; i < count; ++i) lanes[i / each % kLanes] += x[i] * y[i];
  return JoinLanes(lanes);
}

/// One block of three states, as updates. What is not finite everywhere does not move.
class TurnBlock {
 public:
  TurnSums Sum(const Parts& parts, const std::byte* a, const std::byte* b, const std::byte* c,
               size_t elements) {
    const size_t count = elements * parts.each;
    parts.widen(a, count, a_);
    parts.widen(b, count, b_);
    parts.widen(c, count, c_);
    if (!AllFinite(a_, count) || !AllFinite(b_, count) || !AllFinite(c_, count)) {
      for (size_t i = 0; i < count; i += parts.each) HoldUnlessFinite(i, parts.each);
    }
    for (size_t i = 0; i < count; ++i) {
      c_[i] -= b_[i];
      b_[i] -= a_[i];
    }
    return {Dot(b_, c_, count, parts.each), Dot(c_, c_, count, parts.each),
            Dot(b_, b_, count, parts.each)};
  }

 private:
  void HoldUnlessFinite(size_t first, size_t each) {
    bool finite = true;
    for (size_t i = first; i < first + each; ++i) {
      finite = finite && std::isfinite(a_[i]) && std::isfinite(b_[i]) && std::isfinite(c_[i]);
    }
    for (size_t i = first; i < first + each && !finite; ++i) a_[i] = b_[i] = c_[i] = 0;
  }

  Numbers a_, b_, c_;
};

}  // namespace

TurnSums SumTurns(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::span<const std::byte> c) {
  const UsualArithmetic usual;
  const Parts parts(dtype);
  const size_t element_bytes = parts.each * parts.bytes;
  const size_t block_bytes = kBlockElements * element_bytes;
  const auto block = std::make_unique<TurnBlock>();  // Too large for some stacks.
  PairwiseTree<TurnSums> blocks;
  for (size_t at = 0; at < a.size(); at += block_bytes) {
    const size_t bytes = std::min(block_bytes, a.size() - at);
    blocks.Push(
        block->Sum(parts, a.data() + at, b.data() + at, c.data() + at, bytes / element_bytes));
  }
  return blocks.Root();
}

std::optional<uint64_t> FindNan(DType dtype, std::span<const std::byte> elements) {
  const Parts parts(dtype);
  const size_t block_bytes = kBlockElements * parts.each * parts.bytes;
  double values[kMostNumbers];
  for (size_t at = 0; at < elements.size(); at += block_bytes) {
    const size_t count = std::min(block_bytes, elements.size() - at) / parts.bytes;
    parts.widen(elements.data() + at, count, values);
    const double* const found =
        std::find_if(values, values + count, [](double v) { return std::isnan(v); });
    if (found != values + count) {
      return at / (parts.each * parts.bytes) + static_cast<size_t>(found - values) / parts.each;
    }
  }
  return std::nullopt;
}

}  // namespace dsckpt::numerics
