#include "dsckpt/analysis.h"

#include <fmt/format.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/reading.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"

// Moments() and Diff() of files in the page cache, against a loop that only reads the same pages.

namespace dsckpt::bench {
namespace {

struct Two {
  std::unique_ptr<ScratchFile> files[2];
  Checkpoint checkpoints[2];
  std::vector<std::span<const std::byte>> spans[2];
  std::vector<Tensor> views;
  std::vector<uint32_t> ordinals;
  uint64_t bytes = 0;
};

dsckpt::Result<Two> SaveTwo(const Options& options, DType dtype) {
  Two two;
  std::vector<Placed> tensors;
  const uint64_t bytes = options.bytes / options.tensors / 64 * 64;
  for (uint32_t i = 0; i < options.tensors; ++i) {
    const int64_t elements = static_cast<int64_t>(bytes / FindDType(dtype)->block_bytes);
    tensors.push_back({fmt::format("t{:06}", i), dtype, elements, i * bytes, bytes});
    two.ordinals.push_back(i);
  }
  two.bytes = PayloadBytes(tensors);
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(SpanBytes(tensors), false));
  for (size_t i = 0; i < 2; ++i) {
    FillWeights(dtype, static_cast<uint32_t>(i + 1), buffer.bytes());
    two.files[i] = std::make_unique<ScratchFile>(options.dir, fmt::format("analysis-{}", i));
    const std::string& path = two.files[i]->path();
    DSCKPT_RETURN_IF_ERROR(
        SaveFile(path, StateOf(tensors, buffer.bytes()), {}, {.pool_bytes = options.pool_bytes}));
    DSCKPT_ASSIGN_OR_RETURN(two.checkpoints[i], Checkpoint::Open(path));
    DSCKPT_ASSIGN_OR_RETURN(const File file, File::Open(path));
    for (const Placed& tensor : tensors) {
      DSCKPT_ASSIGN_OR_RETURN(Tensor view, file.View(tensor.name));
      two.spans[i].push_back(view.bytes());
      two.views.push_back(std::move(view));
    }
  }
  return two;
}

dsckpt::Result<double> MomentsSeconds(const Two& two, bool verify) {
  const Timer timer;
  DSCKPT_ASSIGN_OR_RETURN(
      const auto report,
      Moments(two.checkpoints[0], two.ordinals, {.threads = kReadingThreads, .verify = verify}));
  if (report.read_bytes != two.bytes) return Status(StatusCode::kMismatch, "not all was read");
  return timer.seconds();
}

dsckpt::Result<double> DiffSeconds(const Two& two, bool verify) {
  DiffOptions options;
  options.reading = {.threads = kReadingThreads, .verify = verify};
  const Timer timer;
  DSCKPT_ASSIGN_OR_RETURN(const auto report, Diff(two.checkpoints[0], two.checkpoints[1], options));
  if (report.read_bytes != 2 * two.bytes) return Status(StatusCode::kMismatch, "not all was read");
  return timer.seconds();
}

dsckpt::Result<Results> Analyse(const Options& options, DType dtype) {
  DSCKPT_ASSIGN_OR_RETURN(const Two two, SaveTwo(options, dtype));
  std::vector<std::span<const std::byte>> both = two.spans[0];
  both.insert(both.end(), two.spans[1].begin(), two.spans[1].end());
  std::vector<double> read_one, read_both, seconds[4];
  for (int i = 0; i < options.repeat; ++i) {
    read_one.push_back(ReadSeconds(two.spans[0]));
    read_both.push_back(ReadSeconds(both));
    for (const bool verify : {false, true}) {
      DSCKPT_ASSIGN_OR_RETURN(const double moments, MomentsSeconds(two, verify));
      seconds[verify ? 1 : 0].push_back(moments);
      DSCKPT_ASSIGN_OR_RETURN(const double diff, DiffSeconds(two, verify));
      seconds[verify ? 3 : 2].push_back(diff);
    }
  }
  const char* const names[] = {"stats-unchecked", "stats", "diff-unchecked", "diff"};
  Results results;
  for (size_t i = 0; i < 4; ++i) {
    results.push_back({.workload = fmt::format("{}-{}", names[i], DTypeText(dtype)),
                       .bytes = i < 2 ? two.bytes : 2 * two.bytes,
                       .tensors = options.tensors,
                       .seconds = Median(seconds[i]),
                       .limit_seconds = Median(i < 2 ? read_one : read_both),
                       .note = "two threads, page cache; the limit only reads"});
  }
  return results;
}

}  // namespace

dsckpt::Result<Results> RunAnalysis(const Options& options) {
  Results results;
  for (const DType dtype : {kBF16, kF32}) {
    DSCKPT_ASSIGN_OR_RETURN(Results some, Analyse(options, dtype));
    for (Result& result : some) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace dsckpt::bench
