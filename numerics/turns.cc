#include "numerics/turns.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

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

/// Number i is part of element i / each, which has a lane.
double Dot(const double* x, const double* y, size_t count, size_t each) {
  double lanes[kLanes] = {};
  for (size_t i = 0; i < count; ++i) lanes[i / each % kLanes] += x[i] * y[i];
  return JoinLanes(lanes);
}

const std::byte* BytesOf(const double* values) {
  return reinterpret_cast<const std::byte*>(values);
}

/// One block of three states, as numbers.
class TurnBlock {
 public:
  TurnBlock(DType dtype, const PairKernels& kernels)
      : parts_(dtype), stored_(KernelsOf(dtype, kernels).turns), widened_(kernels.f64.turns) {}

  size_t element_bytes() const { return parts_.each * parts_.bytes; }

  TurnSums Sum(const std::byte* a, const std::byte* b, const std::byte* c, size_t elements) {
    const bool whole = elements == kBlockElements;
    TurnSums sums;
    if (stored_ != nullptr &&
        (whole ? stored_(a, b, c, sums) : SumFilled(a, b, c, elements, sums))) {
      return sums;
    }
    const size_t count = elements * parts_.each;
    parts_.widen(a, count, a_);
    parts_.widen(b, count, b_);
    parts_.widen(c, count, c_);
    const bool kernel = whole && stored_ == nullptr && parts_.each == 1;
    if (kernel && widened_(BytesOf(a_), BytesOf(b_), BytesOf(c_), sums)) return sums;
    return SumNumbers(count);
  }

 private:
  /// The last block of a tensor, filled with zeros, which change no bit.
  bool SumFilled(const std::byte* a, const std::byte* b, const std::byte* c, size_t elements,
                 TurnSums& sums) {
    const size_t bytes = elements * element_bytes(), all = kBlockElements * element_bytes();
    std::vector<std::byte> filled(3 * all);
    std::memcpy(filled.data(), a, bytes);
    std::memcpy(filled.data() + all, b, bytes);
    std::memcpy(filled.data() + 2 * all, c, bytes);
    return stored_(filled.data(), filled.data() + all, filled.data() + 2 * all, sums);
  }
  /// What is not finite in all three states does not move.
  TurnSums SumNumbers(size_t count) {
    for (size_t first = 0; first < count; first += parts_.each) {
      bool finite = true;
      for (size_t i = first; i < first + parts_.each; ++i) {
        finite = finite && std::isfinite(a_[i]) && std::isfinite(b_[i]) && std::isfinite(c_[i]);
      }
      for (size_t i = first; i < first + parts_.each; ++i) {
        c_[i] = finite ? c_[i] - b_[i] : 0;
        b_[i] = finite ? b_[i] - a_[i] : 0;
      }
    }
    return {Dot(b_, c_, count, parts_.each), Dot(c_, c_, count, parts_.each),
            Dot(b_, b_, count, parts_.each)};
  }

  const Parts parts_;
  const TurnKernel stored_, widened_;
  double a_[kMostNumbers], b_[kMostNumbers], c_[kMostNumbers];
};

}  // namespace

TurnSums SumTurns(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::span<const std::byte> c, const PairKernels& kernels) {
  const UsualArithmetic usual;
  // Too large for some stacks.
  const auto block = std::make_unique<TurnBlock>(dtype, kernels);
  const size_t block_bytes = kBlockElements * block->element_bytes();
  PairwiseTree<TurnSums> blocks;
  for (size_t at = 0; at < a.size(); at += block_bytes) {
    const size_t bytes = std::min(block_bytes, a.size() - at);
    blocks.Push(
        block->Sum(a.data() + at, b.data() + at, c.data() + at, bytes / block->element_bytes()));
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
