// Compiled once for each instruction set: foreach_target.h includes this file again.

#include "numerics/pair_kernels.h"

#include "numerics/kernels.h"
#include "numerics/targets.h"

// As in kernels.cc.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/pair_kernels.cc"
#include <hwy/foreach_target.h>
// clang-format off: it defines what the other one needs.
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace dsckpt::numerics::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PairDoubles = hn::ScalableTag<double>;
using PairDouble = hn::Vec<PairDoubles>;
constexpr size_t kPairWidth = hn::MaxLanes(PairDoubles());
constexpr size_t kPairVectors = kLanes / kPairWidth;
/// Vectors of a group that one pass over a block takes: with all of them, there are more sums than
/// registers.
constexpr size_t kPassVectors = 2;
static_assert(kPairVectors % kPassVectors == 0);

template <typename T>
HWY_INLINE const T* PairAt(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

// Of each element type: how it is stored, how a vector of a group is loaded, and which vector lane
// the lane k of a group has. kNarrow: squares are exact in a double, and no product is too small
// for one.

struct PairF64 {
  using Bits = uint64_t;
  static constexpr Bits kExponent = 0x7FF0'0000'0000'0000;
  static constexpr bool kNarrow = false;
  static constexpr size_t Place(size_t lane) { return lane; }
  static HWY_INLINE PairDouble Load(const std::byte* group, size_t i) {
    return hn::LoadU(PairDoubles(), PairAt<double>(group) + i * kPairWidth);
  }
};

struct PairF32 {
  using Bits = uint32_t;
  static constexpr Bits kExponent = 0x7F80'0000;
  static constexpr bool kNarrow = true;
  static constexpr size_t Place(size_t lane) { return lane; }
  static HWY_INLINE PairDouble Load(const std::byte* group, size_t i) {
    const hn::Rebind<float, PairDoubles> floats;
    return hn::PromoteTo(PairDoubles(), hn::LoadU(floats, PairAt<float>(group) + i * kPairWidth));
  }
};

struct PairF16 {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7C00;
  static constexpr bool kNarrow = true;
  static constexpr size_t Place(size_t lane) { return lane; }
  static HWY_INLINE PairDouble Load(const std::byte* group, size_t i) {
    const hn::Rebind<float, PairDoubles> floats;
    const hn::Rebind<hwy::float16_t, PairDoubles> halves;
    const auto half = hn::LoadU(halves, PairAt<hwy::float16_t>(group) + i * kPairWidth);
    return hn::PromoteTo(PairDoubles(), hn::PromoteTo(floats, half));
  }
};

/// As in kernels.cc: a word has two elements. Vectors of even lanes and of odd lanes alternate.
struct PairBF16 {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7F80;
  static constexpr bool kNarrow = true;
  static constexpr size_t Place(size_t lane) {
    const size_t word = lane / 2;
    return (word / kPairWidth * 2 + lane % 2) * kPairWidth + word % kPairWidth;
  }
  static HWY_INLINE PairDouble Load(const std::byte* group, size_t i) {
    const hn::Rebind<float, PairDoubles> floats;
    const hn::Rebind<uint32_t, PairDoubles> words;
    const auto word = hn::LoadU(words, PairAt<uint32_t>(group) + i / 2 * kPairWidth);
    const auto one =
        i % 2 == 0 ? hn::ShiftLeft<16>(word) : hn::And(word, hn::Set(words, 0xFFFF'0000));
    return hn::PromoteTo(PairDoubles(), hn::BitCast(floats, one));
  }
};

/// The sums of kPassVectors vectors, and the greatest differences.
struct PassSums {
  PairDouble difference[kPassVectors], cross[kPassVectors], first[kPassVectors],
      second[kPassVectors];
  PairDouble max_abs;
  HWY_INLINE PassSums() : max_abs(hn::Zero(PairDoubles())) {
    for (size_t i = 0; i < kPassVectors; ++i) {
      difference[i] = cross[i] = first[i] = second[i] = hn::Zero(PairDoubles());
    }
  }
};

HWY_INLINE double GreatestLane(PairDouble vector) {
  alignas(64) double lanes[kPairWidth];
  hn::Store(vector, PairDoubles(), lanes);
  double greatest = lanes[0];
  for (const double lane : lanes) greatest = lane > greatest ? lane : greatest;
  return greatest;
}

/// The greatest ratio so far. A division takes longer than all else here, and few ratios are new
/// records: `floor`, a little less than the record, tells which are none.
struct RatioRecord {
  double best;
  PairDouble floor, record;
  HWY_INLINE explicit RatioRecord(double known) { Set(known); }
  HWY_INLINE void Set(double known) {
    // No ratio is greater than 2, which many pairs may have.
    constexpr double kGreatest = 2;
    best = known;
    record = hn::Set(PairDoubles(), known);
    floor =
        known < kGreatest ? hn::Set(PairDoubles(), known * (1 - 0x1p-50)) : hn::Inf(PairDoubles());
  }
  template <bool kNarrow>
  HWY_INLINE hn::Mask<PairDoubles> MayBeat(PairDouble difference, PairDouble size) const {
    const auto least = hn::Mul(size, floor);
    if constexpr (kNarrow) return hn::Gt(difference, least);
    return hn::Ge(difference, least);  // The product may be rounded up to it.
  }
  HWY_INLINE void Add(PairDouble difference, PairDouble size) {
    const auto some = hn::Gt(size, hn::Zero(PairDoubles()));
    const auto ratio = hn::IfThenElseZero(some, hn::Div(difference, size));
    if (hn::AllFalse(PairDoubles(), hn::Gt(ratio, record))) return;
    Set(GreatestLane(ratio));
  }
};

template <class Type>
HWY_INLINE void AddSquare(PairDouble value, PairDouble& sum) {
  // Where a square is exact, a fused multiplication changes nothing.
  if constexpr (Type::kNarrow) {
    sum = hn::MulAdd(value, value, sum);
  } else {
    sum = hn::Add(sum, hn::Mul(value, value));
  }
}

template <class Type, bool kExtremes>
HWY_INLINE void AddGroup(const std::byte* a, const std::byte* b, size_t first, PassSums& sums,
                         RatioRecord& ratios) {
  PairDouble difference[kPassVectors], size[kPassVectors];
  for (size_t i = 0; i < kPassVectors; ++i) {
    const auto x = Type::Load(a, first + i), y = Type::Load(b, first + i);
    const auto d = hn::Sub(y, x);
    sums.difference[i] = hn::Add(sums.difference[i], hn::Mul(d, d));
    sums.cross[i] = hn::Add(sums.cross[i], hn::Mul(d, hn::Add(y, x)));
    AddSquare<Type>(x, sums.first[i]);
    AddSquare<Type>(y, sums.second[i]);
    if constexpr (!kExtremes) continue;
    difference[i] = hn::Abs(d);
    size[i] = hn::Max(hn::Abs(x), hn::Abs(y));
    sums.max_abs = hn::Max(sums.max_abs, difference[i]);
  }
  if constexpr (!kExtremes) return;
  const auto beats = hn::Or(ratios.MayBeat<Type::kNarrow>(difference[0], size[0]),
                            ratios.MayBeat<Type::kNarrow>(difference[1], size[1]));
  if (HWY_LIKELY(hn::AllFalse(PairDoubles(), beats))) return;
  for (size_t i = 0; i < kPassVectors; ++i) ratios.Add(difference[i], size[i]);
}

/// The lanes of a block, by their places.
struct PairLanes {
  alignas(64) double difference[kLanes], cross[kLanes], first[kLanes], second[kLanes];
};

template <class Type>
HWY_INLINE double JoinPlaced(const double (&placed)[kLanes]) {
  double lanes[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = placed[Type::Place(lane)];
  return JoinLanes(lanes);
}

template <class Type, bool kExtremes>
HWY_INLINE void AddBlock(const std::byte* a, const std::byte* b, PairBlock& block,
                         double& max_rel) {
  constexpr size_t kGroupBytes = kLanes * sizeof(typename Type::Bits);
  constexpr size_t kBlockBytes = kBlockElements * sizeof(typename Type::Bits);
  PairLanes lanes;
  RatioRecord ratios(max_rel);
  block.max_abs = 0;
  for (size_t first = 0; first < kPairVectors; first += kPassVectors) {
    PassSums sums;
    for (size_t at = 0; at < kBlockBytes; at += kGroupBytes) {
      // The bits of the next block are looked at first, faster than memory gives them.
      __builtin_prefetch(a + at + kBlockBytes);
      __builtin_prefetch(b + at + kBlockBytes);
      AddGroup<Type, kExtremes>(a + at, b + at, first, sums, ratios);
    }
    for (size_t i = 0; i < kPassVectors; ++i) {
      const size_t place = (first + i) * kPairWidth;
      hn::Store(sums.difference[i], PairDoubles(), lanes.difference + place);
      hn::Store(sums.cross[i], PairDoubles(), lanes.cross + place);
      hn::Store(sums.first[i], PairDoubles(), lanes.first + place);
      hn::Store(sums.second[i], PairDoubles(), lanes.second + place);
    }
    const double greatest = GreatestLane(sums.max_abs);
    block.max_abs = greatest > block.max_abs ? greatest : block.max_abs;
  }
  block.sums = {JoinPlaced<Type>(lanes.difference), JoinPlaced<Type>(lanes.cross),
                JoinPlaced<Type>(lanes.first), JoinPlaced<Type>(lanes.second)};
  max_rel = ratios.best;
}

/// What the bits alone tell, in vectors of them.
template <class Type>
struct BitsOfPairs {
  using Unsigned = hn::ScalableTag<typename Type::Bits>;
  using Signed = hn::RebindToSigned<Unsigned>;
  static constexpr size_t kCount = hn::MaxLanes(Unsigned());

  hn::Vec<Unsigned> changed, max_ulp;
  hn::Vec<Signed> greatest;
  HWY_INLINE BitsOfPairs()
      : changed(hn::Zero(Unsigned())),
        max_ulp(hn::Zero(Unsigned())),
        greatest(hn::Zero(Signed())) {}

  /// The number's position among all of its dtype; both zeros have position 0.
  static HWY_INLINE hn::Vec<Signed> Position(hn::Vec<Signed> size, hn::Vec<Signed> bits) {
    const auto sign = hn::BroadcastSignBit(bits);
    return hn::Sub(hn::Xor(size, sign), sign);
  }
  template <bool kExtremes>
  HWY_INLINE void Add(const std::byte* a, const std::byte* b) {
    using Int = hwy::MakeSigned<typename Type::Bits>;
    const auto x = hn::BitCast(Signed(), hn::LoadU(Unsigned(), PairAt<typename Type::Bits>(a)));
    const auto y = hn::BitCast(Signed(), hn::LoadU(Unsigned(), PairAt<typename Type::Bits>(b)));
    const auto no_sign = hn::Set(Signed(), hwy::LimitsMax<Int>());
    const auto size_x = hn::And(x, no_sign), size_y = hn::And(y, no_sign);
    greatest = hn::Max(greatest, hn::Max(size_x, size_y));
    const auto differs = hn::VecFromMask(Signed(), hn::Ne(x, y));
    changed = hn::Sub(changed, hn::BitCast(Unsigned(), differs));
    if constexpr (!kExtremes) return;
    const auto at_x = Position(size_x, x), at_y = Position(size_y, y);
    const auto ulp = hn::Sub(hn::Max(at_x, at_y), hn::Min(at_x, at_y));
    max_ulp = hn::Max(max_ulp, hn::BitCast(Unsigned(), ulp));
  }
  HWY_INLINE bool Get(PairBlock& block) const {
    alignas(64) typename Type::Bits counts[kCount], ulps[kCount];
    alignas(64) hwy::MakeSigned<typename Type::Bits> sizes[kCount];
    hn::Store(changed, Unsigned(), counts);
    hn::Store(max_ulp, Unsigned(), ulps);
    hn::Store(greatest, Signed(), sizes);
    block.changed = block.max_ulp = 0;
    bool finite = true;
    for (size_t i = 0; i < kCount; ++i) {
      block.changed += counts[i];
      block.max_ulp = ulps[i] > block.max_ulp ? ulps[i] : block.max_ulp;
      finite = finite && static_cast<typename Type::Bits>(sizes[i]) < Type::kExponent;
    }
    return finite;
  }
};

template <class Type, bool kExtremes>
bool ComparePairs(const std::byte* a, const std::byte* b, PairBlock& block, double& max_rel) {
  using Bits = BitsOfPairs<Type>;
  constexpr size_t kVectorBytes = Bits::kCount * sizeof(typename Type::Bits);
  Bits bits;
  for (size_t at = 0; at < kBlockElements * sizeof(typename Type::Bits); at += kVectorBytes) {
    bits.template Add<kExtremes>(a + at, b + at);
  }
  if (!bits.Get(block)) return false;
  AddBlock<Type, kExtremes>(a, b, block, max_rel);
  return true;
}

/// Whether all elements of a block are finite.
template <class Type>
HWY_INLINE bool IsFinite(const std::byte* block) {
  using Unsigned = hn::ScalableTag<typename Type::Bits>;
  using Signed = hn::RebindToSigned<Unsigned>;
  using Int = hwy::MakeSigned<typename Type::Bits>;
  constexpr size_t kVectorBytes = hn::MaxLanes(Unsigned()) * sizeof(typename Type::Bits);
  const auto no_sign = hn::Set(Signed(), hwy::LimitsMax<Int>());
  auto greatest = hn::Zero(Signed());
  for (size_t at = 0; at < kBlockElements * sizeof(typename Type::Bits); at += kVectorBytes) {
    const auto bits = hn::LoadU(Signed(), PairAt<Int>(block + at));
    greatest = hn::Max(greatest, hn::And(bits, no_sign));
  }
  const auto exponent = hn::Set(Signed(), static_cast<Int>(Type::kExponent));
  return hn::AllTrue(Signed(), hn::Lt(greatest, exponent));
}

template <class Type>
bool SumTurns(const std::byte* a, const std::byte* b, const std::byte* c, TurnSums& sums) {
  if (!IsFinite<Type>(a) || !IsFinite<Type>(b) || !IsFinite<Type>(c)) return false;
  constexpr size_t kGroupBytes = kLanes * sizeof(typename Type::Bits);
  alignas(64) double dots[kLanes], laters[kLanes], earliers[kLanes];
  for (size_t first = 0; first < kPairVectors; first += kPassVectors) {
    PairDouble dot[kPassVectors], later[kPassVectors], earlier[kPassVectors];
    for (size_t i = 0; i < kPassVectors; ++i) {
      dot[i] = later[i] = earlier[i] = hn::Zero(PairDoubles());
    }
    for (size_t at = 0; at < kBlockElements * sizeof(typename Type::Bits); at += kGroupBytes) {
      for (size_t i = 0; i < kPassVectors; ++i) {
        const auto y = Type::Load(b + at, first + i);
        const auto d = hn::Sub(y, Type::Load(a + at, first + i));
        const auto e = hn::Sub(Type::Load(c + at, first + i), y);
        dot[i] = hn::Add(dot[i], hn::Mul(d, e));
        later[i] = hn::Add(later[i], hn::Mul(e, e));
        earlier[i] = hn::Add(earlier[i], hn::Mul(d, d));
      }
    }
    for (size_t i = 0; i < kPassVectors; ++i) {
      const size_t place = (first + i) * kPairWidth;
      hn::Store(dot[i], PairDoubles(), dots + place);
      hn::Store(later[i], PairDoubles(), laters + place);
      hn::Store(earlier[i], PairDoubles(), earliers + place);
    }
  }
  sums = {JoinPlaced<Type>(dots), JoinPlaced<Type>(laters), JoinPlaced<Type>(earliers)};
  return true;
}

template <class Type>
StateKernels KernelsFor() {
  return {ComparePairs<Type, true>, ComparePairs<Type, false>, SumTurns<Type>};
}

PairKernels AllPairs() {
  return {hwy::TargetName(HWY_TARGET), KernelsFor<PairF16>(), KernelsFor<PairBF16>(),
          KernelsFor<PairF32>(), KernelsFor<PairF64>()};
}

}  // namespace dsckpt::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dsckpt::numerics {

std::span<const PairKernels> UsablePairKernels() {
  static const KernelList<PairKernels> list = [] {
    KernelList<PairKernels> made;
#if HWY_ARCH_X86
    if (HasAvx3()) made.Append(HWY_CHOOSE_AVX3(AllPairs));
    if (HasAvx2()) made.Append(HWY_CHOOSE_AVX2(AllPairs));
    if (HasSse4()) made.Append(HWY_CHOOSE_SSE4(AllPairs));
#endif
    made.Append(&HWY_STATIC_DISPATCH(AllPairs));
    return made;
  }();
  return list.all();
}

StateKernels KernelsOf(DType dtype, const PairKernels& kernels) {
  switch (dtype) {
    case DType::kF16:
      return kernels.f16;
    case DType::kBF16:
      return kernels.bf16;
    case DType::kF32:
      return kernels.f32;
    case DType::kF64:
      return kernels.f64;
    default:
      return {};
  }
}

}  // namespace dsckpt::numerics
#endif  // HWY_ONCE
