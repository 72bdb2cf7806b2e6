#include "numerics/pairs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "numerics/kernels.h"
#include "numerics/position.h"
#include "numerics/usual_arithmetic.h"
#include "numerics/widen.h"

namespace dsckpt::numerics {

/// For PairwiseTree.
static PairSums Joined(const PairSums& left, const PairSums& right) {
  return {left.difference + right.difference, left.cross + right.cross, left.first + right.first,
          left.second + right.second};
}

namespace {

/// A real element, or the parts of a complex one.
struct Element {
  double real = 0, imaginary = 0;

  bool IsNan() const { return std::isnan(real) || std::isnan(imaginary); }
  bool IsFinite() const { return std::isfinite(real) && std::isfinite(imaginary); }
  bool operator==(const Element&) const = default;
};

/// What two finite elements have of everything that is summed or compared.
struct FinitePair {
  PairSums terms;
  double difference, size;
};

FinitePair RealPair(double a, double b) {
  const double d = b - a;
  return {{d * d, d * (b + a), a * a, b * b}, std::fabs(d), std::max(std::fabs(a), std::fabs(b))};
}

FinitePair ComplexPair(const Element& a, const Element& b) {
  const FinitePair real = RealPair(a.real, b.real);
  const FinitePair imaginary = RealPair(a.imaginary, b.imaginary);
  const PairSums terms = Joined(real.terms, imaginary.terms);
  return {terms, std::sqrt(terms.difference), std::sqrt(std::max(terms.first, terms.second))};
}

/// One block of two tensors, as bits, values and positions.
class Block {
 public:
  Block(DType dtype, const std::byte* a, const std::byte* b, size_t count)
      : a_(a), b_(b), count_(count), element_bytes_(FindDType(dtype)->block_bytes) {
    complex_ = dtype == DType::kC64 || dtype == DType::kC128;
    const DType part = dtype == DType::kC64    ? DType::kF32
                       : dtype == DType::kC128 ? DType::kF64
                                               : dtype;
    const size_t parts = complex_ ? 2 * count : count;
    FindWiden(part)(a, parts, values_a_);
    FindWiden(part)(b, parts, values_b_);
    PositionsOf(part)(a, parts, positions_a_);
    PositionsOf(part)(b, parts, positions_b_);
  }

  size_t count() const { return count_; }
  bool complex() const { return complex_; }
  const double* values_a() const { return values_a_; }
  const double* values_b() const { return values_b_; }
  Element A(size_t i) const { return At(values_a_, i); }
  Element B(size_t i) const { return At(values_b_, i); }
  bool Changed(size_t i) const {
    return std::memcmp(a_ + i * element_bytes_, b_ + i * element_bytes_, element_bytes_) != 0;
  }
  uint64_t Ulp(size_t i) const {
    if (!complex_) return StepsBetween(positions_a_[i], positions_b_[i]);
    return std::max(StepsBetween(positions_a_[2 * i], positions_b_[2 * i]),
                    StepsBetween(positions_a_[2 * i + 1], positions_b_[2 * i + 1]));
  }
  FinitePair Pair(size_t i) const {
    return complex_ ? ComplexPair(A(i), B(i)) : RealPair(values_a_[i], values_b_[i]);
  }

 private:
  Element At(const double* values, size_t i) const {
    return complex_ ? Element{values[2 * i], values[2 * i + 1]} : Element{values[i], 0};
  }

  const std::byte* a_;
  const std::byte* b_;
  size_t count_, element_bytes_;
  bool complex_;
  double values_a_[2 * kBlockElements], values_b_[2 * kBlockElements];
  int64_t positions_a_[2 * kBlockElements], positions_b_[2 * kBlockElements];
};

double Ratio(const FinitePair& pair) { return pair.size > 0 ? pair.difference / pair.size : 0; }

bool IsClose(const FinitePair& pair, const Tolerance& tolerance) {
  return pair.difference <= tolerance.absolute + tolerance.relative * pair.size;
}

/// Compares a chunk block by block.
class Comparison {
 public:
  Comparison(DType dtype, const std::optional<Tolerance>& tolerance, PairKernel kernel,
             PairKernel widened_kernel)
      : dtype_(dtype), tolerance_(tolerance), kernel_(kernel), widened_kernel_(widened_kernel) {}

  void Add(std::span<const std::byte> a, std::span<const std::byte> b) {
    const size_t element_bytes = FindDType(dtype_)->block_bytes;
    const size_t block_bytes = kBlockElements * element_bytes;
    for (size_t at = 0; at < a.size(); at += block_bytes) {
      const size_t bytes = std::min(block_bytes, a.size() - at);
      AddBlock(a.data() + at, b.data() + at, bytes / element_bytes);
    }
  }

  void AddBlock(const std::byte* a, const std::byte* b, size_t count) {
    PairBlock found;
    if (kernel_ != nullptr && Run(a, b, count, found)) return Include(a, b, count, found);
    const Block block(dtype_, a, b, count);
    if (count < kBlockElements || kernel_ != nullptr || block.complex()) return AddSingly(block);
    const auto bytes = [](const double* v) { return reinterpret_cast<const std::byte*>(v); };
    if (!widened_kernel_(bytes(block.values_a()), bytes(block.values_b()), found, found_.max_rel)) {
      return AddSingly(block);
    }
    found.changed = found.max_ulp = 0;
    for (size_t i = 0; i < count; ++i) {
      found.changed += block.Changed(i) ? 1 : 0;
      found.max_ulp = std::max(found.max_ulp, block.Ulp(i));
    }
    Include(a, b, count, found);
  }

  PairStatistics Finish() {
    FindGreatest();
    const PairSums sums = blocks_.Root();
    const auto one_nan = [](double value) {
      return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
    };
    found_.sums = {one_nan(sums.difference), one_nan(sums.cross), one_nan(sums.first),
                   one_nan(sums.second)};
    return found_;
  }

 private:
  /// The kernel on one block. The last one of a tensor is filled with zeros, which change no bit.
  bool Run(const std::byte* a, const std::byte* b, size_t count, PairBlock& found) {
    if (count == kBlockElements) return kernel_(a, b, found, found_.max_rel);
    const size_t element_bytes = FindDType(dtype_)->block_bytes;
    std::vector<std::byte> filled(2 * kBlockElements * element_bytes);
    std::byte* const second = filled.data() + kBlockElements * element_bytes;
    std::memcpy(filled.data(), a, count * element_bytes);
    std::memcpy(second, b, count * element_bytes);
    return kernel_(filled.data(), second, found, found_.max_rel);
  }
  /// A block of finite elements, as a kernel saw it.
  void Include(const std::byte* a, const std::byte* b, size_t count, const PairBlock& found) {
    if (found.max_abs > found_.max_abs) {
      found_.max_abs = found.max_abs;
      found_.max_index = found_.count;
      greatest_a_ = a;
      greatest_b_ = b;
      greatest_count_ = count;
    }
    if (tolerance_ && found.max_abs > tolerance_->absolute) {
      const Block block(dtype_, a, b, count);
      for (size_t i = 0; i < block.count(); ++i) {
        found_.beyond += IsClose(block.Pair(i), *tolerance_) ? 0 : 1;
      }
    }
    found_.changed += found.changed;
    found_.max_ulp = std::max(found_.max_ulp, found.max_ulp);
    found_.finite += count;
    found_.count += count;
    blocks_.Push(found.sums);
  }
  void NoteGreatest(double difference, uint64_t index) {
    if (!(difference > found_.max_abs)) return;
    found_.max_abs = difference;
    found_.max_index = index;
    greatest_a_ = nullptr;
  }
  /// Kernels do not say which element of a block has the greatest difference.
  void FindGreatest() {
    if (greatest_a_ == nullptr) return;
    const Block block(dtype_, greatest_a_, greatest_b_, greatest_count_);
    size_t i = 0;
    while (block.Pair(i).difference < found_.max_abs) ++i;
    found_.max_index += i;
  }

  void AddSingly(const Block& block) {
    double lanes[4][kLanes] = {};
    for (size_t i = 0; i < block.count(); ++i) {
      const Element a = block.A(i), b = block.B(i);
      const bool changed = block.Changed(i), nan_a = a.IsNan(), nan_b = b.IsNan();
      found_.nan_a += nan_a ? 1 : 0;
      found_.nan_b += nan_b ? 1 : 0;
      found_.changed += changed ? 1 : 0;
      found_.changed_nan += changed && nan_a && nan_b ? 1 : 0;
      found_.one_nan += nan_a != nan_b ? 1 : 0;
      if (!nan_a && !nan_b) found_.max_ulp = std::max(found_.max_ulp, block.Ulp(i));
      if (!a.IsFinite() || !b.IsFinite()) {
        if (tolerance_ && !(nan_a && nan_b) && !(a == b)) ++found_.beyond;
        continue;
      }
      AddFinite(block.Pair(i), found_.count + i, i % kLanes, lanes);
    }
    found_.count += block.count();
    blocks_.Push(
        {JoinLanes(lanes[0]), JoinLanes(lanes[1]), JoinLanes(lanes[2]), JoinLanes(lanes[3])});
  }
  void AddFinite(const FinitePair& pair, uint64_t index, size_t lane, double (&lanes)[4][kLanes]) {
    lanes[0][lane] += pair.terms.difference;
    lanes[1][lane] += pair.terms.cross;
    lanes[2][lane] += pair.terms.first;
    lanes[3][lane] += pair.terms.second;
    ++found_.finite;
    NoteGreatest(pair.difference, index);
    found_.max_rel = std::max(found_.max_rel, Ratio(pair));
    if (tolerance_ && !IsClose(pair, *tolerance_)) ++found_.beyond;
  }

  const DType dtype_;
  const std::optional<Tolerance> tolerance_;
  const PairKernel kernel_, widened_kernel_;
  PairStatistics found_;  // Without the sums.
  /// The block from element `found_.max_index` on has the greatest difference, unless null.
  const std::byte* greatest_a_ = nullptr;
  const std::byte* greatest_b_ = nullptr;
  size_t greatest_count_ = 0;
  PairwiseTree<PairSums> blocks_;
};

}  // namespace

PairStatistics ComparePairs(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                            const std::optional<Tolerance>& tolerance, const PairKernels& kernels) {
  const UsualArithmetic usual;
  Comparison comparison(dtype, tolerance, KernelsOf(dtype, kernels).pairs, kernels.f64.pairs);
  comparison.Add(a, b);
  return comparison.Finish();
}

PairStatistics SumUpdates(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                          const PairKernels& kernels) {
  const UsualArithmetic usual;
  Comparison comparison(dtype, std::nullopt, KernelsOf(dtype, kernels).updates,
                        kernels.f64.updates);
  comparison.Add(a, b);
  PairStatistics found = comparison.Finish();
  found.max_abs = found.max_rel = 0;
  found.max_index = found.max_ulp = 0;
  return found;
}

PairStatistics JoinPairs(std::span<const PairStatistics> chunks) {
  PairStatistics joined;
  PairwiseTree<PairSums> sums;
  for (const PairStatistics& chunk : chunks) {
    joined.finite += chunk.finite;
    joined.nan_a += chunk.nan_a;
    joined.nan_b += chunk.nan_b;
    joined.changed += chunk.changed;
    joined.changed_nan += chunk.changed_nan;
    joined.one_nan += chunk.one_nan;
    joined.beyond += chunk.beyond;
    if (chunk.max_abs > joined.max_abs) {
      joined.max_abs = chunk.max_abs;
      joined.max_index = joined.count + chunk.max_index;
    }
    joined.max_rel = std::max(joined.max_rel, chunk.max_rel);
    joined.max_ulp = std::max(joined.max_ulp, chunk.max_ulp);
    joined.count += chunk.count;
    sums.Push(chunk.sums);
  }
  joined.sums = sums.Root();
  return joined;
}

}  // namespace dsckpt::numerics
