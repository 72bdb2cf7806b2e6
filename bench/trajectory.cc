#include "dsckpt/trajectory.h"

#include <fmt/format.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/reading.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/trajectory_measures.h"

// Measure() of a run in the page cache, against a loop that only reads the same pages.

namespace dsckpt::bench {
namespace {

constexpr size_t kCheckpoints = 4;

/// `bytes` in all, every element different in every checkpoint.
struct SavedRun {
  std::vector<std::unique_ptr<ScratchFile>> files;
  Trajectory run;
  std::vector<Tensor> views;
  std::vector<std::span<const std::byte>> spans;
  uint64_t bytes = 0;
};

dsckpt::Result<SavedRun> SaveRun(const Options& options, DType dtype) {
  SavedRun saved;
  std::vector<Placed> tensors;
  const uint64_t bytes = options.bytes / kCheckpoints / options.tensors / 64 * 64;
  for (uint32_t i = 0; i < options.tensors; ++i) {
    const int64_t elements = static_cast<int64_t>(bytes / FindDType(dtype)->block_bytes);
    tensors.push_back({fmt::format("t{:06}", i), dtype, elements, i * bytes, bytes});
  }
  saved.bytes = kCheckpoints * PayloadBytes(tensors);
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(SpanBytes(tensors), false));
  std::vector<std::string> paths;
  std::vector<int64_t> steps;
  for (size_t t = 0; t < kCheckpoints; ++t) {
    FillWeights(dtype, static_cast<uint32_t>(t + 1), buffer.bytes());
    saved.files.push_back(std::make_unique<ScratchFile>(options.dir, fmt::format("run-{}", t)));
    paths.push_back(saved.files.back()->path());
    steps.push_back(static_cast<int64_t>(t));
    DSCKPT_RETURN_IF_ERROR(SaveFile(paths.back(), StateOf(tensors, buffer.bytes()), {},
                                    {.pool_bytes = options.pool_bytes}));
  }
  DSCKPT_ASSIGN_OR_RETURN(saved.run, Trajectory::Open(paths, steps));
  for (uint32_t t = 0; t < kCheckpoints; ++t) {
    for (uint32_t i = 0; i < options.tensors; ++i) {
      DSCKPT_ASSIGN_OR_RETURN(Tensor view, saved.run.View(t, i));
      saved.spans.push_back(view.bytes());
      saved.views.push_back(std::move(view));
    }
  }
  return saved;
}

dsckpt::Result<double> MeasureSeconds(const SavedRun& saved, bool verify) {
  MeasureOptions options;
  options.reading = {.threads = kReadingThreads, .verify = verify};
  const Timer timer;
  DSCKPT_ASSIGN_OR_RETURN(
      const MeasureSummary summary,
      Measure(
          saved.run, SelectAll(saved.run),
          [](uint32_t, std::span<const TensorMeasure>) { return Status(); }, options));
  if (summary.read_bytes != saved.bytes) {
    return Status(StatusCode::kMismatch, "not each byte was read once");
  }
  return timer.seconds();
}

dsckpt::Result<Results> MeasureRun(const Options& options, DType dtype) {
  DSCKPT_ASSIGN_OR_RETURN(const SavedRun saved, SaveRun(options, dtype));
  std::vector<double> read, seconds[2];
  PeakMemory peak;
  for (int i = 0; i < options.repeat; ++i) {
    read.push_back(ReadSeconds(saved.spans));
    for (const bool verify : {false, true}) {
      DSCKPT_ASSIGN_OR_RETURN(const double measured, MeasureSeconds(saved, verify));
      seconds[verify ? 1 : 0].push_back(measured);
    }
  }
  Results results;
  for (const bool verify : {false, true}) {
    results.push_back(
        {.workload = fmt::format("{}-{}", verify ? "trace" : "trace-unchecked", DTypeText(dtype)),
         .bytes = saved.bytes,
         .tensors = options.tensors,
         .seconds = Median(seconds[verify ? 1 : 0]),
         .limit_seconds = Median(read),
         .peak_extra_bytes = peak.extra_bytes(),
         .note = "four checkpoints, two threads, page cache; the limit only reads"});
  }
  return results;
}

}  // namespace

dsckpt::Result<Results> RunTrajectory(const Options& options) {
  Results results;
  for (const DType dtype : {kBF16, kF32}) {
    DSCKPT_ASSIGN_OR_RETURN(Results some, MeasureRun(options, dtype));
    for (Result& result : some) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace dsckpt::bench
