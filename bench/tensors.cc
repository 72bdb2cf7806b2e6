#include "bench/tensors.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dsckpt/limits.h"

namespace dsckpt::bench {
namespace {

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// xorshift64: fast, and nothing compresses it.
void FillRandom(std::span<std::byte> out) {
  uint64_t x = 0x9E3779B97F4A7C15;
  for (size_t i = 0; i + 8 <= out.size(); i += 8) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    std::memcpy(out.data() + i, &x, 8);
  }
}

}  // namespace

dsckpt::Result<Buffer> Buffer::Allocate(uint64_t bytes, bool random) {
  const uint64_t size = RoundUp(std::max<uint64_t>(bytes, 1), kPageBytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(StatusCode::kOutOfMemory, fmt::format("no {} bytes of memory", size))
        .WithErrno(errno);
  }
  madvise(memory, size, MADV_HUGEPAGE);
  const std::span<std::byte> out(static_cast<std::byte*>(memory), size);
  if (random) {
    FillRandom(out);
  } else {
    std::memset(out.data(), 1, out.size());
  }
  return Buffer(out);
}

Buffer::~Buffer() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

std::vector<Placed> MixedTensors(uint64_t bytes, uint32_t count) {
  constexpr std::array<uint64_t, 10> kWeights = {4096, 1, 1024, 1, 1024, 4, 256, 16, 64, 1};
  struct Kind {
    DType dtype;
    uint64_t element_bytes;
  };
  constexpr std::array<Kind, 3> kKinds = {{{kBF16, 2}, {kF32, 4}, {kI64, 8}}};
  uint64_t total_weight = 0;
  for (uint32_t i = 0; i < count; ++i) total_weight += kWeights[i % kWeights.size()];
  std::vector<Placed> tensors;
  tensors.reserve(count);
  uint64_t offset = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const double share =
        static_cast<double>(kWeights[i % kWeights.size()]) / static_cast<double>(total_weight);
    const Kind kind = kKinds[i % kKinds.size()];
    const auto elements =
        static_cast<uint64_t>(share * static_cast<double>(bytes)) / kind.element_bytes;
    const uint64_t size = elements * kind.element_bytes;
    tensors.push_back({fmt::format("layers.{:07}.weight", i), kind.dtype,
                       static_cast<int64_t>(elements), offset, size});
    offset = RoundUp(offset + size, 64);
  }
  return tensors;
}

uint64_t SpanBytes(const std::vector<Placed>& tensors) {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().bytes;
}

uint64_t PayloadBytes(const std::vector<Placed>& tensors) {
  uint64_t bytes = 0;
  for (const Placed& t : tensors) bytes += t.bytes;
  return bytes;
}

State StateOf(const std::vector<Placed>& tensors, std::span<std::byte> buffer, Capture capture) {
  State state;
  for (const Placed& t : tensors) {
    state.AddTensor(t.name, buffer.data() + t.offset, t.dtype, {t.elements}, {.capture = capture});
  }
  return state;
}

std::vector<LoadRequest> LoadsOf(const std::vector<Placed>& tensors, std::span<std::byte> buffer) {
  std::vector<LoadRequest> loads;
  loads.reserve(tensors.size());
  for (const Placed& t : tensors) loads.push_back({t.name, buffer.data() + t.offset, t.bytes, {}});
  return loads;
}

}  // namespace dsckpt::bench
