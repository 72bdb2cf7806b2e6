#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <random>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"

// What SaveOptions::statistics costs in processor time.

namespace dsckpt::bench {
namespace {

double ProcessorSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Weights as they are trained: normally distributed, so that no element is like its neighbours.
void FillWeights(DType dtype, std::span<std::byte> bytes) {
  std::minstd_rand random(1);
  std::normal_distribution<float> weights(0, 0.02f);
  std::vector<float> pattern(1 << 20);
  for (float& weight : pattern) weight = weights(random);
  const size_t width = dtype == kF32 ? 4 : 2;
  for (size_t at = 0, i = 0; at + width <= bytes.size(); at += width, ++i) {
    // The upper half of an F32 is a BF16.
    const auto* weight = reinterpret_cast<const std::byte*>(&pattern[i % pattern.size()]);
    std::memcpy(bytes.data() + at, weight + 4 - width, width);
  }
}

dsckpt::Result<double> TimeSave(Engine& engine, const ScratchFile& file, const State& state,
                                bool statistics) {
  const double before = ProcessorSeconds();
  DSCKPT_ASSIGN_OR_RETURN(const SaveHandle save,
                          engine.Save(file.path(), state, {.statistics = statistics}));
  DSCKPT_RETURN_IF_ERROR(save.WaitDurable());
  const double spent = ProcessorSeconds() - before;
  file.Remove();
  return spent;
}

dsckpt::Result<Result> Compare(const Options& options, DType dtype) {
  std::vector<Placed> tensors;
  const uint64_t bytes = options.bytes / options.tensors / 64 * 64;
  for (uint32_t i = 0; i < options.tensors; ++i) {
    const int64_t elements = static_cast<int64_t>(bytes / FindDType(dtype)->block_bytes);
    tensors.push_back({fmt::format("t{:06}", i), dtype, elements, i * bytes, bytes});
  }
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(SpanBytes(tensors), false));
  FillWeights(dtype, buffer.bytes());
  const State state = StateOf(tensors, buffer.bytes());
  const ScratchFile file(options.dir, "statistics");
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create({.pool_bytes = options.pool_bytes}));
  std::vector<double> with, without;
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const double plain, TimeSave(*engine, file, state, false));
    DSCKPT_ASSIGN_OR_RETURN(const double measured, TimeSave(*engine, file, state, true));
    without.push_back(plain);
    with.push_back(measured);
  }
  return Result{.workload = "statistics-" + DTypeText(dtype),
                .bytes = PayloadBytes(tensors),
                .tensors = tensors.size(),
                .seconds = Median(with),
                .limit_seconds = Median(without),
                .note = "seconds of processor time"};
}

}  // namespace

dsckpt::Result<Results> RunStatistics(const Options& options) {
  Results results;
  for (const DType dtype : {kF32, kBF16}) {
    DSCKPT_ASSIGN_OR_RETURN(Result result, Compare(options, dtype));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace dsckpt::bench
