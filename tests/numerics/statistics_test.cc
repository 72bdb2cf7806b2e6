#include "numerics/statistics.h"

#include <array>
#include <cfenv>

#include "dsckpt/limits.h"
#include "tests/support/catch.h"
#include "tests/support/reference_statistics.h"

namespace dsckpt::numerics {
namespace {

std::vector<DType> CountedDTypes() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : AllDTypes()) {
    if (HasStatistics(info.code)) dtypes.push_back(info.code);
  }
  return dtypes;
}

using Bytes = std::vector<std::byte>;

/// Any bits at all: of floating-point dtypes these are all kinds of numbers.
Bytes RandomBits(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bits(bytes);
  for (std::byte& byte : bits) byte = static_cast<std::byte>(random());
  return bits;
}

/// Makes all elements finite: no exponent has its highest bit.
void ClearHighExponents(DType dtype, Bytes& bytes) {
  const auto info = *FindDType(dtype);
  if (!info.floating) return;
  const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
  const size_t part = info.block_bytes / (complex ? 2 : 1);
  for (size_t last = part - 1; last < bytes.size(); last += part) bytes[last] &= std::byte{0xBF};
}

TensorStatistics Measured(DType dtype, std::span<const std::byte> bytes, const Kernels& kernels) {
  std::vector<TensorStatistics> chunks;
  for (size_t begin = 0; begin < bytes.size(); begin += kChunkBytes) {
    ChunkStatistics chunk(dtype, kernels);
    chunk.Add(bytes.subspan(begin, std::min<size_t>(kChunkBytes, bytes.size() - begin)));
    chunks.push_back(chunk.Finish());
  }
  return JoinChunks(chunks);
}

TensorStatistics MeasuredInParts(DType dtype, std::span<const std::byte> bytes,
                                 const Kernels& kernels, std::span<const size_t> parts) {
  const size_t size = FindDType(dtype)->block_bytes;
  ChunkStatistics statistics(dtype, kernels);
  for (size_t i = 0; !bytes.empty(); ++i) {
    const size_t part = std::min(parts[i % parts.size()] * size, bytes.size());
    statistics.Add(bytes.first(part));
    bytes = bytes.subspan(part);
  }
  return statistics.Finish();
}

}  // namespace

TEST_CASE("every dtype of whole bytes has statistics") {
  std::string without;
  for (const DTypeInfo& info : AllDTypes()) {
    if (!HasStatistics(info.code)) without += std::string(info.name) + " ";
  }
  CHECK(without == "F6_E2M3 F6_E3M2 F4 I4 U4 ");
  CHECK_FALSE(HasStatistics(DType{999}));
  CHECK_FALSE(HasStatistics(DType{0}));
}

TEST_CASE("all instruction sets give the bits of the rules, for every dtype and size") {
  for (const Kernels& kernels : UsableKernels()) {
    for (const DType dtype : CountedDTypes()) {
      const size_t size = FindDType(dtype)->block_bytes;
      for (const size_t count : {0, 1, 15, 16, 17, 255, 4095, 4096, 4097, 8192, 12345, 20480}) {
        for (const bool finite : {false, true}) {
          Bytes bytes = RandomBits(count * size, static_cast<uint32_t>(count));
          if (finite) ClearHighExponents(dtype, bytes);
          INFO(kernels.target << ", " << DTypeText(dtype) << ", " << count << " elements, finite "
                              << finite);
          CHECK(BitsOf(Measured(dtype, bytes, kernels)) ==
                BitsOf(ReferenceStatistics(dtype, bytes)));
        }
      }
    }
  }
}

TEST_CASE("every element of 8 and 16 bits counts as what it is, alone and among others") {
  for (const Kernels& kernels : UsableKernels()) {
    for (const DType dtype : CountedDTypes()) {
      const size_t size = FindDType(dtype)->block_bytes;
      if (size > 2) continue;
      std::string wrong;
      for (uint32_t bits = 0; bits < 1u << (8 * size); ++bits) {
        Bytes group(16 * size);
        for (size_t i = 0; i < 16; ++i) std::memcpy(group.data() + i * size, &bits, size);
        for (const size_t count : {1, 16}) {
          const auto bytes = std::span(group).first(count * size);
          const auto measured = MeasuredInParts(dtype, bytes, kernels, std::array{count});
          if (BitsOf(measured) != BitsOf(ReferenceStatistics(dtype, bytes))) {
            wrong += std::to_string(bits) + " ";
          }
        }
      }
      INFO(kernels.target << ", " << DTypeText(dtype));
      CHECK(wrong == "");
    }
  }
}

TEST_CASE("chunks join to the sums of the whole tensor") {
  for (const DType dtype : {kU8, kBF16, kF32, kF64, kC128}) {
    for (const uint64_t chunks : {1, 2, 3, 5, 7}) {
      for (const int64_t beyond : {-1, 0, 1}) {
        const auto size = static_cast<int64_t>(FindDType(dtype)->block_bytes);
        Bytes bytes(chunks * kChunkBytes + static_cast<uint64_t>(beyond * size));
        const Bytes some = RandomBits(1 << 16, 7);
        for (size_t at = 0; at < bytes.size(); at += some.size() - 48) {
          std::copy_n(some.begin(), std::min(some.size(), bytes.size() - at), bytes.begin() + at);
        }
        ClearHighExponents(dtype, bytes);
        ChunkStatistics whole(dtype);
        whole.Add(bytes);
        INFO(DTypeText(dtype) << ", " << chunks << " chunks, " << beyond << " elements more");
        CHECK(BitsOf(Measured(dtype, bytes, UsableKernels().front())) == BitsOf(whole.Finish()));
      }
    }
  }
}

TEST_CASE("the sizes and addresses of the parts do not matter") {
  const size_t parts[] = {1, 3, 16, 4095, 5, 31, 4097, 10000, 17};
  for (const Kernels& kernels : UsableKernels()) {
    for (const DType dtype : CountedDTypes()) {
      const size_t size = FindDType(dtype)->block_bytes;
      Bytes bytes = RandomBits(50'001 * size + 1, 3);
      ClearHighExponents(dtype, bytes);
      for (const size_t shift : {0, 1}) {
        const auto elements = std::span(bytes).subspan(shift, 50'001 * size);
        INFO(kernels.target << ", " << DTypeText(dtype) << " from byte " << shift);
        CHECK(BitsOf(MeasuredInParts(dtype, elements, kernels, parts)) ==
              BitsOf(ReferenceStatistics(dtype, elements)));
      }
    }
  }
}

namespace {

TensorStatistics OfDoubles(std::vector<double> values, const Kernels& kernels) {
  return MeasuredInParts(kF64, std::as_bytes(std::span(values)), kernels,
                         std::array{values.size()});
}

}  // namespace

TEST_CASE("zeros have signs, and what is not finite has no part in extremes and sums") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const Kernels& kernels : UsableKernels()) {
    INFO(kernels.target);
    std::vector<double> values(32, 0.0);
    CHECK_FALSE(std::signbit(OfDoubles(values, kernels).min));
    values[20] = -0.0;
    CHECK(std::signbit(OfDoubles(values, kernels).min));
    CHECK_FALSE(std::signbit(OfDoubles(values, kernels).max));
    CHECK(OfDoubles(values, kernels).zero == 32);
    std::fill(values.begin(), values.end(), -0.0);
    CHECK(std::signbit(OfDoubles(values, kernels).max));
    CHECK_FALSE(std::signbit(OfDoubles(values, kernels).sum));

    values.assign(40, nan);
    for (const size_t i : {1, 17, 39}) values[i] = i == 17 ? inf : -inf;
    const TensorStatistics none = OfDoubles(values, kernels);
    CHECK(none.nan == 37);
    CHECK(none.inf == 3);
    CHECK(none.zero == 0);
    CHECK(std::isnan(none.min));
    CHECK(std::isnan(none.max));
    CHECK(std::bit_cast<uint64_t>(none.sum) == 0);
    CHECK(std::bit_cast<uint64_t>(none.sum_squares) == 0);

    values[5] = -2.5;
    const TensorStatistics one = OfDoubles(values, kernels);
    CHECK(one.min == -2.5);
    CHECK(one.max == -2.5);
    CHECK(one.sum == -2.5);
    CHECK(one.sum_squares == 6.25);
  }
}

TEST_CASE("a sum that fits into no double is an infinity or the one NaN") {
  std::vector<double> values(32, 0.0);
  values[0] = values[16] = std::numeric_limits<double>::max();
  CHECK(OfDoubles(values, UsableKernels().front()).sum == std::numeric_limits<double>::infinity());
  values[1] = values[17] = -std::numeric_limits<double>::max();
  const TensorStatistics both = OfDoubles(values, UsableKernels().front());
  CHECK(std::bit_cast<uint64_t>(both.sum) == 0x7FF8'0000'0000'0000);
  CHECK(both.sum_squares == std::numeric_limits<double>::infinity());
}

#ifdef __x86_64__
TEST_CASE("threads that take subnormal numbers as zeros, or round up, measure the same") {
  // Of F64 the sums are subnormal too, in lanes, blocks and chunks.
  std::vector<double> values(2 * kChunkBytes / sizeof(double) + 5000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<double>(uint64_t{i % 977 + 3}) * (i % 3 == 0 ? -1 : 1);
  }
  values[7] = 1.0 / 3;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  const auto expected = BitsOf(ReferenceStatistics(kF64, bytes));
  std::fenv_t usual;
  std::fegetenv(&usual);
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040 | 0x4000);
  const unsigned before = __builtin_ia32_stmxcsr();
  std::vector<TensorStatistics> chunks;
  for (size_t begin = 0; begin < bytes.size(); begin += kChunkBytes) {
    ChunkStatistics statistics(kF64);
    statistics.Add(bytes.subspan(begin, std::min<size_t>(kChunkBytes, bytes.size() - begin)));
    chunks.push_back(statistics.Finish());
  }
  const TensorStatistics found = JoinChunks(chunks);
  const unsigned after = __builtin_ia32_stmxcsr();
  std::fesetenv(&usual);
  CHECK(BitsOf(found) == expected);
  CHECK(after == before);
}
#endif

}  // namespace dsckpt::numerics
