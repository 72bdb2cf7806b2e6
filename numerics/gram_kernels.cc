// Compiled once for each instruction set: foreach_target.h includes this file again.

#include "numerics/gram_kernels.h"

#include "numerics/targets.h"

// As in kernels.cc.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/gram_kernels.cc"
#include <hwy/foreach_target.h>
// clang-format off: it defines what the other one needs.
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace dsckpt::numerics::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using GramDoubles = hn::ScalableTag<double>;
using GramVector = hn::Vec<GramDoubles>;
constexpr size_t kGramWidth = hn::MaxLanes(GramDoubles());
constexpr size_t kGramVectors = kGramLanes / kGramWidth;

/// One product, as its lanes.
struct GramLanes {
  GramVector sums[kGramVectors];
  HWY_INLINE GramLanes() {
    for (auto& sum : sums) sum = hn::Zero(GramDoubles());
  }
  HWY_INLINE void Add(const GramVector (&a)[kGramVectors], const GramVector (&b)[kGramVectors]) {
    for (size_t v = 0; v < kGramVectors; ++v) sums[v] = hn::Add(sums[v], hn::Mul(a[v], b[v]));
  }
  /// Pairwise: lane k with k + 4, then with k + 2 and k + 1.
  double Join() const {
    alignas(64) double lanes[kGramLanes];
    for (size_t v = 0; v < kGramVectors; ++v) {
      hn::Store(sums[v], GramDoubles(), lanes + v * kGramWidth);
    }
    for (size_t width = kGramLanes / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
  }
};

HWY_INLINE void LoadLanes(const double* from, GramVector (&row)[kGramVectors]) {
  for (size_t v = 0; v < kGramVectors; ++v) {
    row[v] = hn::LoadU(GramDoubles(), from + v * kGramWidth);
  }
}

/// Two rows with two rows at a time: each number that is loaded is multiplied twice.
void AddProducts(const double* numbers, size_t rows, double* sums) {
  for (size_t i = 0; i < rows; i += 2) {
    for (size_t j = 0; j <= i; j += 2) {
      const double* const a = numbers + i * kGramElements;
      const double* const b = numbers + j * kGramElements;
      GramLanes both[2][2];
      for (size_t k = 0; k < kGramElements; k += kGramLanes) {
        GramVector first[kGramVectors], second[kGramVectors], other[kGramVectors];
        LoadLanes(a + k, first);
        LoadLanes(a + kGramElements + k, second);
        LoadLanes(b + k, other);
        both[0][0].Add(first, other);
        both[1][0].Add(second, other);
        LoadLanes(b + kGramElements + k, other);
        both[0][1].Add(first, other);
        both[1][1].Add(second, other);
      }
      for (size_t di = 0; di < 2; ++di) {
        for (size_t dj = 0; dj < 2; ++dj) {
          if (i + di >= rows || j + dj > i + di) continue;
          sums[GramPair(i + di, j + dj)] += both[di][dj].Join();
        }
      }
    }
  }
}

GramKernels AllProducts() { return {hwy::TargetName(HWY_TARGET), AddProducts}; }

}  // namespace dsckpt::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dsckpt::numerics {

std::span<const GramKernels> UsableGramKernels() {
  static const KernelList<GramKernels> list = [] {
    KernelList<GramKernels> made;
#if HWY_ARCH_X86
    if (HasAvx3()) made.Append(HWY_CHOOSE_AVX3(AllProducts));
    if (HasAvx2()) made.Append(HWY_CHOOSE_AVX2(AllProducts));
    if (HasSse4()) made.Append(HWY_CHOOSE_SSE4(AllProducts));
#endif
    made.Append(&HWY_STATIC_DISPATCH(AllProducts));
    return made;
  }();
  return list.all();
}

}  // namespace dsckpt::numerics
#endif  // HWY_ONCE
