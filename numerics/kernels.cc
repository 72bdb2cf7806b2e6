// Compiled once for each instruction set: foreach_target.h includes this file again.

#include "numerics/kernels.h"

#include <cstring>

#include "numerics/targets.h"

// Vectors of unknown size are no members and no elements of arrays; of the rest, what is not chosen
// below.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/kernels.cc"
#include <hwy/foreach_target.h>
// clang-format off: it defines what the other one needs.
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace dsckpt::numerics::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using Double = hn::Vec<Doubles>;
constexpr size_t kWidth = hn::MaxLanes(Doubles());
constexpr size_t kVectors = kLanes / kWidth;
static_assert(kLanes % kWidth == 0);

/// One vector for each kWidth lanes.
struct Sums {
  Double sum[kVectors];
  Double squares[kVectors];
};

template <typename T>
HWY_INLINE const T* At(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

/// Adds values and their squares. Those are exact in a double where `kExact`, and then a fused
/// multiplication changes nothing.
template <bool kExact>
HWY_INLINE void AddValue(Double value, Sums& sums, size_t i) {
  sums.sum[i] = hn::Add(sums.sum[i], value);
  if constexpr (kExact) {
    sums.squares[i] = hn::MulAdd(value, value, sums.squares[i]);
  } else {
    sums.squares[i] = hn::Add(sums.squares[i], hn::Mul(value, value));
  }
}

/// What becomes of a value before it is added: nothing, or it loses a shift.
struct Unshifted {
  static constexpr bool kKeepsExact = true;
  HWY_INLINE explicit Unshifted(double /*shift*/) {}
  HWY_INLINE Double operator()(Double value) const { return value; }
};
struct Shifted {
  static constexpr bool kKeepsExact = false;
  Double shift;
  HWY_INLINE explicit Shifted(double by) : shift(hn::Set(Doubles(), by)) {}
  HWY_INLINE Double operator()(Double value) const { return hn::Sub(value, shift); }
};

// Of each element type: how it is stored, and how one group is added to the sums. kPlace: which
// vector lane of Sums the lane k has.

struct F64 {
  using Bits = uint64_t;
  static constexpr Bits kExponent = 0x7FF0'0000'0000'0000;
  static constexpr size_t Place(size_t lane) { return lane; }
  template <class Shift>
  static HWY_INLINE void Add(const std::byte* group, const Shift& shift, Sums& sums) {
    for (size_t i = 0; i < kVectors; ++i) {
      const auto value = hn::LoadU(Doubles(), At<double>(group) + i * kWidth);
      AddValue<false>(shift(value), sums, i);
    }
  }
};

struct F32 {
  using Bits = uint32_t;
  static constexpr Bits kExponent = 0x7F80'0000;
  static constexpr size_t Place(size_t lane) { return lane; }
  template <class Shift>
  static HWY_INLINE void Add(const std::byte* group, const Shift& shift, Sums& sums) {
    const hn::Rebind<float, Doubles> floats;
    for (size_t i = 0; i < kVectors; ++i) {
      const auto value = hn::LoadU(floats, At<float>(group) + i * kWidth);
      AddValue<Shift::kKeepsExact>(shift(hn::PromoteTo(Doubles(), value)), sums, i);
    }
  }
};

struct F16 {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7C00;
  static constexpr size_t Place(size_t lane) { return lane; }
  template <class Shift>
  static HWY_INLINE void Add(const std::byte* group, const Shift& shift, Sums& sums) {
    const hn::Rebind<float, Doubles> floats;
    const hn::Rebind<hwy::float16_t, Doubles> halves;
    for (size_t i = 0; i < kVectors; ++i) {
      const auto value = hn::LoadU(halves, At<hwy::float16_t>(group) + i * kWidth);
      AddValue<Shift::kKeepsExact>(shift(hn::PromoteTo(Doubles(), hn::PromoteTo(floats, value))),
                                   sums, i);
    }
  }
};

/// Two elements are one word of 32 bits: a shift makes a float of the first, a mask one of the
/// second. The first half of the vectors has the even lanes.
struct BF16 {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7F80;
  static constexpr size_t Place(size_t lane) { return lane / 2 + lane % 2 * (kLanes / 2); }
  template <class Shift>
  static HWY_INLINE void Add(const std::byte* group, const Shift& shift, Sums& sums) {
    const hn::Rebind<float, Doubles> floats;
    const hn::Rebind<uint32_t, Doubles> words;
    const auto second = hn::Set(words, 0xFFFF'0000);
    for (size_t i = 0; i < kVectors / 2; ++i) {
      const auto word = hn::LoadU(words, At<uint32_t>(group) + i * kWidth);
      const auto even = hn::BitCast(floats, hn::ShiftLeft<16>(word));
      const auto odd = hn::BitCast(floats, hn::And(word, second));
      AddValue<Shift::kKeepsExact>(shift(hn::PromoteTo(Doubles(), even)), sums, i);
      AddValue<Shift::kKeepsExact>(shift(hn::PromoteTo(Doubles(), odd)), sums, i + kVectors / 2);
    }
  }
};

template <class Type>
HWY_INLINE void LoadSums(const Lanes& lanes, Sums& sums) {
  Lanes placed;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    placed.sum[Type::Place(lane)] = lanes.sum[lane];
    placed.squares[Type::Place(lane)] = lanes.squares[lane];
  }
  for (size_t i = 0; i < kVectors; ++i) {
    sums.sum[i] = hn::Load(Doubles(), placed.sum + i * kWidth);
    sums.squares[i] = hn::Load(Doubles(), placed.squares + i * kWidth);
  }
}

template <class Type>
HWY_INLINE void StoreSums(const Sums& sums, Lanes& lanes) {
  Lanes placed;
  for (size_t i = 0; i < kVectors; ++i) {
    hn::Store(sums.sum[i], Doubles(), placed.sum + i * kWidth);
    hn::Store(sums.squares[i], Doubles(), placed.squares + i * kWidth);
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    lanes.sum[lane] = placed.sum[Type::Place(lane)];
    lanes.squares[lane] = placed.squares[Type::Place(lane)];
  }
}

/// Zeros and extremes, of the elements' bits as integers. As signed ones, positive elements are in
/// order above all negative ones, which are in reverse order; as unsigned ones, negative elements
/// are above. So the greatest signed is the maximum and the greatest unsigned the minimum, unless
/// there are only elements of the other sign, of which the least is wanted.
template <typename Bits, size_t kElements = kLanes>
struct Range {
  using Unsigned = hn::CappedTag<Bits, kElements>;
  using Signed = hn::RebindToSigned<Unsigned>;
  static constexpr size_t kCount = hn::MaxLanes(Unsigned());
  static_assert(kElements % kCount == 0);
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  static constexpr auto kLowest = static_cast<hwy::MakeSigned<Bits>>(kSign);

  uint64_t zeros = 0;
  hn::Vec<Unsigned> zero, most;
  hn::Vec<Signed> high, low;

  // Not by initialisers: a constructor that the compiler makes is none of this instruction set.
  HWY_INLINE Range()
      : zero(hn::Zero(Unsigned())),
        most(hn::Zero(Unsigned())),
        high(hn::Set(Signed(), kLowest)),
        low(hn::Set(Signed(), static_cast<hwy::MakeSigned<Bits>>(~kLowest))) {}

  HWY_INLINE void CountZeros(hn::Mask<Unsigned> is_zero) {
    // Where masks are bits, counting them leaves the vector units alone.
    if constexpr (kWidth == kLanes / 2) {
      zeros += hn::CountTrue(Unsigned(), is_zero);
    } else {
      zero = hn::Sub(zero, hn::VecFromMask(Unsigned(), is_zero));
    }
  }

  /// Adds kElements.
  HWY_INLINE void Add(const std::byte* elements) {
    for (size_t i = 0; i < kElements; i += kCount) {
      const auto bits = hn::LoadU(Unsigned(), At<Bits>(elements) + i);
      CountZeros(hn::Eq(hn::Add(bits, bits), hn::Zero(Unsigned())));
      most = hn::Max(most, bits);
      high = hn::Max(high, hn::BitCast(Signed(), bits));
      low = hn::Min(low, hn::BitCast(Signed(), bits));
    }
  }

  /// The same where some elements are not finite: these change nothing.
  HWY_INLINE void AddFinite(hn::Vec<Unsigned> bits, hn::Mask<Unsigned> finite) {
    CountZeros(hn::Eq(hn::Add(bits, bits), hn::Zero(Unsigned())));
    most = hn::Max(most, hn::IfThenElseZero(finite, bits));
    const auto signed_finite = hn::RebindMask(Signed(), finite);
    const auto value = hn::BitCast(Signed(), bits);
    high = hn::Max(high, hn::IfThenElse(signed_finite, value, hn::Set(Signed(), kLowest)));
    low = hn::Min(low, hn::IfThenElse(signed_finite, value, hn::Set(Signed(), ~kLowest)));
  }

  /// False when an element's exponent is all ones.
  HWY_INLINE bool Get(Bits exponent, Extent& extent) const {
    using Int = hwy::MakeSigned<Bits>;
    alignas(64) Bits lane_zeros[kCount], mosts[kCount];
    alignas(64) Int highs[kCount], lows[kCount];
    hn::Store(zero, Unsigned(), lane_zeros);
    hn::Store(most, Unsigned(), mosts);
    hn::Store(high, Signed(), highs);
    hn::Store(low, Signed(), lows);
    uint64_t count = zeros;
    Bits greatest = mosts[0];
    Int highest = highs[0], lowest = lows[0];
    for (size_t i = 0; i < kCount; ++i) {
      count += lane_zeros[i];
      greatest = mosts[i] > greatest ? mosts[i] : greatest;
      highest = highs[i] > highest ? highs[i] : highest;
      lowest = lows[i] < lowest ? lows[i] : lowest;
    }
    if (highest >= static_cast<Int>(exponent) || greatest >= (kSign | exponent)) return false;
    extent.zero = count;
    extent.min = static_cast<Bits>(greatest >= kSign ? greatest : static_cast<Bits>(lowest));
    extent.max = static_cast<Bits>(highest >= 0 ? highest : lowest);
    return true;
  }
};

template <class Type, class Shift>
bool RunGroups(const std::byte* elements, size_t groups, double by, Lanes& lanes, Extent& extent) {
  using Bits = typename Type::Bits;
  const Shift shift(by);
  Sums sums;
  LoadSums<Type>(lanes, sums);
  Range<Bits> range;
  for (size_t group = 0; group < groups; ++group) {
    Type::Add(elements, shift, sums);
    range.Add(elements);
    elements += kLanes * sizeof(Bits);
  }
  if (!range.Get(Type::kExponent, extent)) return false;
  StoreSums<Type>(sums, lanes);
  return true;
}

/// Counts the lanes of masks.
struct Tally {
  hn::Vec<hn::RebindToUnsigned<Doubles>> counts;
  HWY_INLINE Tally() : counts(hn::Zero(hn::RebindToUnsigned<Doubles>())) {}
  HWY_INLINE void Add(hn::Mask<Doubles> mask) {
    const hn::RebindToUnsigned<Doubles> words;
    counts = hn::Sub(counts, hn::BitCast(words, hn::VecFromMask(Doubles(), mask)));
  }
  HWY_INLINE uint64_t Total() const {
    alignas(64) uint64_t lanes[kWidth];
    hn::Store(counts, hn::RebindToUnsigned<Doubles>(), lanes);
    uint64_t total = 0;
    for (const uint64_t lane : lanes) total += lane;
    return total;
  }
};

void RunAnyF64(const std::byte* elements, size_t groups, double by, Lanes& lanes, Extent& extent) {
  using Words = Range<uint64_t>::Unsigned;
  Sums sums;
  LoadSums<F64>(lanes, sums);
  Range<uint64_t> range;
  Tally nan, not_finite;
  const Shifted shift(by);
  const auto infinity = hn::BitCast(Doubles(), hn::Set(Words(), F64::kExponent));
  for (size_t group = 0; group < groups; ++group) {
    for (size_t i = 0; i < kVectors; ++i) {
      const auto bits = hn::LoadU(Words(), At<uint64_t>(elements) + i * kWidth);
      const auto value = hn::BitCast(Doubles(), bits);
      const auto finite = hn::Lt(hn::Abs(value), infinity);
      nan.Add(hn::IsNaN(value));
      not_finite.Add(hn::Not(finite));
      AddValue<false>(hn::IfThenElseZero(finite, shift(value)), sums, i);
      range.AddFinite(bits, hn::RebindMask(Words(), finite));
    }
    elements += kLanes * sizeof(double);
  }
  range.Get(F64::kExponent, extent);
  extent.nan = nan.Total();
  extent.inf = not_finite.Total() - extent.nan;
  StoreSums<F64>(sums, lanes);
}

HWY_INLINE void Clear(Sums& sums) {
  for (size_t i = 0; i < kVectors; ++i) sums.sum[i] = sums.squares[i] = hn::Zero(Doubles());
}

template <class Type>
HWY_INLINE SumPair Join(const Sums& sums) {
  Lanes lanes;
  StoreSums<Type>(sums, lanes);
  return {JoinLanes(lanes.sum), JoinLanes(lanes.squares)};
}

/// Each addition waits for the one before in its lane, so that one block at a time leaves units
/// idle: two go side by side.
template <class Type, class Shift>
bool RunBlocks(const std::byte* elements, size_t pairs, double by, SumPair* block_sums,
               Extent& extent) {
  using Bits = typename Type::Bits;
  constexpr size_t kGroupBytes = kLanes * sizeof(Bits);
  constexpr size_t kBlockBytes = kBlockElements * sizeof(Bits);
  const Shift shift(by);
  Range<Bits, 2 * kLanes> range;
  for (size_t pair = 0; pair < pairs; ++pair) {
    Sums sums[2];
    Clear(sums[0]);
    Clear(sums[1]);
    for (const std::byte* const end = elements + kBlockBytes; elements != end;) {
      const std::byte* const other = elements + kBlockBytes;
      Type::Add(elements, shift, sums[0]);
      Type::Add(other, shift, sums[1]);
      range.Add(elements);
      Type::Add(elements + kGroupBytes, shift, sums[0]);
      Type::Add(other + kGroupBytes, shift, sums[1]);
      range.Add(other);
      elements += 2 * kGroupBytes;
    }
    elements += kBlockBytes;
    *block_sums++ = Join<Type>(sums[0]);
    *block_sums++ = Join<Type>(sums[1]);
  }
  return range.Get(Type::kExponent, extent);
}

template <class Type, class Shift>
TypeKernels KernelsWith() {
  // Narrower vectors need more registers than there are for two blocks.
  if constexpr (kVectors > 2) return {RunGroups<Type, Shift>, nullptr};
  return {RunGroups<Type, Shift>, RunBlocks<Type, Shift>};
}

template <class Type>
ShiftedKernels KernelsOf() {
  return {KernelsWith<Type, Unshifted>(), KernelsWith<Type, Shifted>()};
}

Kernels All() {
  return {hwy::TargetName(HWY_TARGET),
          KernelsOf<F16>(),
          KernelsOf<BF16>(),
          KernelsOf<F32>(),
          KernelsOf<F64>(),
          RunAnyF64};
}

}  // namespace dsckpt::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dsckpt::numerics {

std::span<const Kernels> UsableKernels() {
  static const KernelList<Kernels> list = [] {
    KernelList<Kernels> made;
#if HWY_ARCH_X86
    if (HasAvx3()) made.Append(HWY_CHOOSE_AVX3(All));
    if (HasAvx2()) made.Append(HWY_CHOOSE_AVX2(All));
    if (HasSse4()) made.Append(HWY_CHOOSE_SSE4(All));
#endif
    made.Append(&HWY_STATIC_DISPATCH(All));
    return made;
  }();
  return list.all();
}

}  // namespace dsckpt::numerics
#endif  // HWY_ONCE
