#include "numerics/largest_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/kernels.h"
#include "numerics/position.h"
#include "numerics/usual_arithmetic.h"
#include "numerics/widen.h"

namespace dsckpt::numerics {

namespace {

bool Precedes(const ElementPair& one, const ElementPair& other) {
  if (one.distance != other.distance) return one.distance > other.distance;
  return one.index < other.index;
}

/// `squares`: the square of the distance between two complex elements, else of no meaning.
double DistanceOf(const ElementPair& pair, bool complex, double squares) {
  if (std::isnan(pair.a) && std::isnan(pair.b)) return 0;
  const double distance = complex ? std::sqrt(squares) : std::fabs(pair.b - pair.a);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

/// One block of both pieces as doubles: one an element, or two of a complex one.
class LargestBlock {
 public:
  LargestBlock(DType dtype, const std::byte* a, const std::byte* b, size_t count)
      : a_(a), b_(b), element_bytes_(FindDType(dtype)->block_bytes) {
    complex_ = dtype == DType::kC64 || dtype == DType::kC128;
    part_ = dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
    FindWiden(part_)(a, complex_ ? 2 * count : count, values_a_);
    FindWiden(part_)(b, complex_ ? 2 * count : count, values_b_);
  }

  bool Changed(size_t i) const {
    return std::memcmp(a_ + i * element_bytes_, b_ + i * element_bytes_, element_bytes_) != 0;
  }

  ElementPair Pair(size_t i) const {
    ElementPair pair;
    double squares = 0;
    if (!complex_) {
      pair.a = values_a_[i];
      pair.b = values_b_[i];
    } else {
      const double *a = values_a_ + 2 * i, *b = values_b_ + 2 * i;
      const double real = b[0] - a[0], imaginary = b[1] - a[1];
      pair.a = std::sqrt(a[0] * a[0] + a[1] * a[1]);
      pair.b = std::sqrt(b[0] * b[0] + b[1] * b[1]);
      squares = real * real + imaginary * imaginary;
    }
    pair.distance = DistanceOf(pair, complex_, squares);
    return pair;
  }

  uint64_t Ulp(size_t i) const {
    int64_t a[2] = {}, b[2] = {};
    PositionsOf(part_)(a_ + i * element_bytes_, complex_ ? 2 : 1, a);
    PositionsOf(part_)(b_ + i * element_bytes_, complex_ ? 2 : 1, b);
    return std::max(StepsBetween(a[0], b[0]), StepsBetween(a[1], b[1]));
  }

 private:
  const std::byte* a_;
  const std::byte* b_;
  size_t element_bytes_;
  bool complex_;
  DType part_;
  double values_a_[2 * kBlockElements], values_b_[2 * kBlockElements];
};

}  // namespace

void LargestPairs::Look(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                        uint64_t first_index) {
  const UsualArithmetic usual;
  const size_t element_bytes = FindDType(dtype)->block_bytes;
  const size_t count = a.size() / element_bytes;
  for (size_t first = 0; first < count; first += kBlockElements) {
    const size_t size = std::min(kBlockElements, count - first), at = first * element_bytes;
    if (std::memcmp(a.data() + at, b.data() + at, size * element_bytes) == 0) continue;
    const LargestBlock block(dtype, a.data() + at, b.data() + at, size);
    for (size_t i = 0; i < size; ++i) {
      if (!block.Changed(i)) continue;
      ElementPair pair = block.Pair(i);
      pair.index = first_index + first + i;
      if (heap_.size() == most_ && (most_ == 0 || !Precedes(pair, heap_.front()))) continue;
      pair.ulp = block.Ulp(i);
      Add(pair);
    }
  }
}

void LargestPairs::Add(const ElementPair& pair) {
  if (heap_.size() == most_) {
    if (most_ == 0 || !Precedes(pair, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), Precedes);
    heap_.pop_back();
  }
  heap_.push_back(pair);
  std::push_heap(heap_.begin(), heap_.end(), Precedes);
}

void LargestPairs::Add(const LargestPairs& other) {
  for (const ElementPair& pair : other.heap_) Add(pair);
}

std::vector<ElementPair> LargestPairs::Sorted() const {
  std::vector<ElementPair> sorted = heap_;
  std::sort(sorted.begin(), sorted.end(), Precedes);
  return sorted;
}

}  // namespace dsckpt::numerics
