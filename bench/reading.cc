#include "bench/reading.h"

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "bench/measure.h"

namespace dsckpt::bench {
namespace {

uint64_t SumWords(std::span<const std::byte> bytes) {
  uint64_t sums[16] = {};
  for (size_t at = 0; at + sizeof sums <= bytes.size(); at += sizeof sums) {
    uint64_t words[16];
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (size_t i = 0; i < 16; ++i) sums[i] ^= words[i];
  }
  uint64_t all = 0;
  for (const uint64_t sum : sums) all ^= sum;
  return all;
}

}  // namespace

void FillWeights(DType dtype, uint32_t seed, std::span<std::byte> bytes) {
  std::minstd_rand random(seed);
  std::normal_distribution<float> weights(0, 0.02f);
  std::vector<float> pattern((1 << 20) + 7);
  for (float& weight : pattern) weight = weights(random);
  const size_t width = dtype == DType::kF32 ? 4 : 2;
  for (size_t at = 0, i = 0; at + width <= bytes.size(); at += width, ++i) {
    const auto* weight = reinterpret_cast<const std::byte*>(&pattern[i % pattern.size()]);
    std::memcpy(bytes.data() + at, weight + 4 - width, width);
  }
}

double ReadSeconds(const std::vector<std::span<const std::byte>>& spans) {
  const Timer timer;
  std::vector<std::thread> threads;
  std::vector<uint64_t> sums(kReadingThreads);
  for (size_t t = 0; t < kReadingThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < spans.size(); i += kReadingThreads) sums[t] ^= SumWords(spans[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = timer.seconds();
  static std::atomic<uint64_t> kept;
  kept = sums[0] ^ sums[1];
  return seconds;
}

}  // namespace dsckpt::bench
