#include "numerics/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/usual_arithmetic.h"

namespace dsckpt::numerics {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// -0 is less than 0.
bool IsLess(double a, double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

TypeKernels FindKernels(DType dtype, const Kernels& kernels, double shift) {
  const auto choose = [shift](const ShiftedKernels& both) {
    return shift == 0 ? both.unshifted : both.shifted;
  };
  switch (dtype) {
    case DType::kF16:
      return choose(kernels.f16);
    case DType::kBF16:
      return choose(kernels.bf16);
    case DType::kF32:
      return choose(kernels.f32);
    case DType::kF64:
      return choose(kernels.f64);
    default:
      return {};
  }
}

/// Infinities of both signs, which sums too great for a double are, make a NaN whose bits differ
/// from machine to machine.
double OneNan(double value) { return std::isnan(value) ? kNone : value; }

}  // namespace

bool HasStatistics(DType dtype) {
  return FindWiden(dtype) != nullptr || dtype == DType::kC64 || dtype == DType::kC128;
}

ChunkStatistics::ChunkStatistics(DType dtype, const Kernels& kernels, double shift)
    : element_bytes_(FindDType(dtype)->block_bytes),
      dtype_(dtype),
      shift_(shift),
      stored_{element_bytes_, FindWiden(dtype), FindKernels(dtype, kernels, shift)},
      widened_{sizeof(double), FindWiden(DType::kF64), FindKernels(DType::kF64, kernels, shift)},
      any_(kernels.any_f64) {
  found_.min = found_.max = kNone;
}

void ChunkStatistics::Add(std::span<const std::byte> elements) {
  const UsualArithmetic usual;
  while (!elements.empty()) {
    size_t count = AddBlocks(elements);
    if (count == 0) {
      count = std::min(elements.size() / element_bytes_, kBlockElements - filled_);
      AddToBlock(elements.data(), count);
    }
    elements = elements.subspan(count * element_bytes_);
    if (filled_ < kBlockElements) continue;
    blocks_.Push({JoinLanes(lanes_.sum), JoinLanes(lanes_.squares)});
    lanes_ = {};
    filled_ = 0;
  }
}

size_t ChunkStatistics::AddBlocks(std::span<const std::byte> elements) {
  constexpr size_t kPairs = 8;
  constexpr size_t kPairElements = 2 * kBlockElements;
  const size_t pairs = std::min(elements.size() / (kPairElements * element_bytes_), kPairs);
  if (filled_ > 0 || pairs == 0 || stored_.kernels.blocks == nullptr) return 0;
  SumPair sums[2 * kPairs];
  Extent extent;
  if (!stored_.kernels.blocks(elements.data(), pairs, shift_, sums, extent)) return 0;
  Include(extent, pairs * kPairElements, stored_.widen);
  for (const SumPair& block : std::span(sums).first(2 * pairs)) blocks_.Push(block);
  return pairs * kPairElements;
}

void ChunkStatistics::AddToBlock(const std::byte* elements, size_t count) {
  if (dtype_ == DType::kC64) return AddComplex<float>(elements, count);
  if (dtype_ == DType::kC128) return AddComplex<double>(elements, count);
  if (stored_.kernels.groups == nullptr) return AddWidened(elements, count);
  AddReal(stored_, elements, count);
}

void ChunkStatistics::AddWidened(const std::byte* elements, size_t count) {
  double values[512];
  for (size_t done = 0; done < count;) {
    const size_t part = std::min(count - done, std::size(values));
    stored_.widen(elements + done * element_bytes_, part, values);
    AddReal(widened_, reinterpret_cast<const std::byte*>(values), part);
    done += part;
  }
}

void ChunkStatistics::AddReal(const Reading& reading, const std::byte* elements, size_t count) {
  const size_t until_lane_0 = std::min(count, (kLanes - filled_ % kLanes) % kLanes);
  AddSingly(reading, elements, until_lane_0);
  elements += until_lane_0 * reading.bytes;
  count -= until_lane_0;

  AddGroups(reading, elements, count / kLanes);
  const size_t rest = count % kLanes;
  AddSingly(reading, elements + (count - rest) * reading.bytes, rest);
}

void ChunkStatistics::AddGroups(const Reading& reading, const std::byte* elements, size_t groups) {
  if (groups == 0) return;
  Extent extent;
  if (!reading.kernels.groups(elements, groups, shift_, lanes_, extent))
    return AddAny(reading, elements, groups);
  Include(extent, groups * kLanes, reading.widen);
  filled_ += groups * kLanes;
}

/// Groups with elements that are not finite.
void ChunkStatistics::AddAny(const Reading& reading, const std::byte* elements, size_t groups) {
  constexpr size_t kGroups = 32;
  double values[kGroups * kLanes];
  while (groups > 0) {
    const size_t part = std::min(groups, kGroups);
    reading.widen(elements, part * kLanes, values);
    Extent extent;
    any_(reinterpret_cast<const std::byte*>(values), part, shift_, lanes_, extent);
    Include(extent, part * kLanes, widened_.widen);
    filled_ += part * kLanes;
    elements += part * kLanes * reading.bytes;
    groups -= part;
  }
}

/// Takes over what a kernel found of `count` elements.
void ChunkStatistics::Include(const Extent& extent, size_t count, Widen widen) {
  found_.nan += extent.nan;
  found_.inf += extent.inf;
  found_.zero += extent.zero;
  if (extent.nan + extent.inf == count) return;
  double least, greatest;
  widen(reinterpret_cast<const std::byte*>(&extent.min), 1, &least);
  widen(reinterpret_cast<const std::byte*>(&extent.max), 1, &greatest);
  Include(least, greatest);
}

void ChunkStatistics::AddSingly(const Reading& reading, const std::byte* elements, size_t count) {
  for (; count > 0; --count, elements += reading.bytes) {
    double value;
    reading.widen(elements, 1, &value);
    if (std::isnan(value)) {
      ++found_.nan;
    } else if (std::isinf(value)) {
      ++found_.inf;
    } else {
      const double shifted = value - shift_;
      found_.zero += value == 0 ? 1 : 0;
      AddFinite(value, shifted, shifted * shifted);
    }
    ++filled_;
  }
}

template <typename Part>
void ChunkStatistics::AddComplex(const std::byte* elements, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Part parts[2];
    std::memcpy(parts, elements + i * sizeof parts, sizeof parts);
    const double real = static_cast<double>(parts[0]), imaginary = static_cast<double>(parts[1]);
    if (std::isnan(real) || std::isnan(imaginary)) {
      ++found_.nan;
    } else if (std::isinf(real) || std::isinf(imaginary)) {
      ++found_.inf;
    } else {
      const double square = real * real + imaginary * imaginary;
      const double modulus = std::sqrt(square), shifted = modulus - shift_;
      found_.zero += real == 0 && imaginary == 0 ? 1 : 0;
      AddFinite(modulus, shifted, shift_ == 0 ? square : shifted * shifted);
    }
    ++filled_;
  }
}

void ChunkStatistics::AddFinite(double value, double shifted, double square) {
  const size_t lane = filled_ % kLanes;
  lanes_.sum[lane] += shifted;
  lanes_.squares[lane] += square;
  Include(value, value);
}

void ChunkStatistics::Include(double least, double greatest) {
  if (std::isnan(found_.min) || IsLess(least, found_.min)) found_.min = least;
  if (std::isnan(found_.max) || IsLess(found_.max, greatest)) found_.max = greatest;
}

TensorStatistics ChunkStatistics::Finish() const {
  const UsualArithmetic usual;
  SumTree blocks = blocks_;
  if (filled_ > 0) blocks.Push({JoinLanes(lanes_.sum), JoinLanes(lanes_.squares)});
  TensorStatistics result = found_;
  result.sum = OneNan(blocks.Root().sum);
  result.sum_squares = OneNan(blocks.Root().squares);
  return result;
}

TensorStatistics JoinChunks(std::span<const TensorStatistics> chunks) {
  const UsualArithmetic usual;
  TensorStatistics joined;
  joined.min = joined.max = kNone;
  SumTree sums;
  for (const TensorStatistics& chunk : chunks) {
    joined.nan += chunk.nan;
    joined.inf += chunk.inf;
    joined.zero += chunk.zero;
    if (std::isnan(joined.min) || IsLess(chunk.min, joined.min)) joined.min = chunk.min;
    if (std::isnan(joined.max) || IsLess(joined.max, chunk.max)) joined.max = chunk.max;
    sums.Push({chunk.sum, chunk.sum_squares});
  }
  joined.sum = OneNan(sums.Root().sum);
  joined.sum_squares = OneNan(sums.Root().squares);
  return joined;
}

}  // namespace dsckpt::numerics
