#ifndef DSCKPT_BENCH_BENCH_H_
#define DSCKPT_BENCH_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::bench {

struct Options {
  uint64_t bytes = 0;
  uint32_t tensors = 0;
  uint64_t pool_bytes = 0;
  std::string dir;
  int repeat = 0;
  std::string only;  ///< gpu-save: the one case to measure; empty: all.
};

/// One measured workload. Times are medians over the repeats.
struct Result {
  std::string workload;
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  double seconds = 0;
  /// What a bare loop takes for the same bytes, interleaved with ours; 0: there is no such limit.
  double limit_seconds = 0;
  /// Growth of the resident set at its peak, from before the engine or file existed: staging pool
  /// included, the caller's tensors not.
  uint64_t peak_extra_bytes = 0;
  /// What explains the figure, for people.
  std::string note = {};
};

using Results = std::vector<Result>;

/// Durable save of mixed tensors, against a bare O_DIRECT write loop with an fsync.
dsckpt::Result<Results> RunSave(const Options& options);
/// Cold load into caller memory, against a bare O_DIRECT read loop.
dsckpt::Result<Results> RunLoad(const Options& options);
/// Cold verify, against the slower of a bare read loop and bare XXH3 on as many threads.
dsckpt::Result<Results> RunVerify(const Options& options);
/// `dsckpt merge` of eight shards, each with rows of every tensor, under a memory limit, against
/// the faster of two bare copies: a ring with O_DIRECT, and copy_file_range. Sources cold.
dsckpt::Result<Results> RunMerge(const Options& options);
/// Warm open of a file with many tensors.
dsckpt::Result<Results> RunOpen(const Options& options);
/// Save() returning, for many lazily captured tensors: with a new layout and with the same again.
dsckpt::Result<Results> RunReturn(const Options& options);

/// Processor time of saves with SaveOptions::statistics, against that of saves without.
dsckpt::Result<Results> RunStatistics(const Options& options);
/// Moments() and Diff() of files in the page cache; the limit only reads.
dsckpt::Result<Results> RunAnalysis(const Options& options);
/// Measure() of a run in the page cache; the limit only reads.
dsckpt::Result<Results> RunTrajectory(const Options& options);

/// Saves of GPU memory: Save() and FenceOnStream() returning; capture against one large copy to
/// pinned memory; durable against the bare write loop. With a pool that holds the state; one of a
/// quarter; the same with a snapshot on the GPU; and with 20,000 small tensors.
dsckpt::Result<Results> RunGpuSave(const Options& options);
/// Loads into GPU memory: cold against the bare read loop, page-cached against one large copy from
/// pinned memory.
dsckpt::Result<Results> RunGpuLoad(const Options& options);
/// A training loop with checkpoints against one without, with large and small pools.
dsckpt::Result<Results> RunGpuTrain(const Options& options);

/// Saves with one idea turned off each, against saves with all of them. Of host memory, and of GPU
/// memory where there is a GPU.
dsckpt::Result<Results> RunAblate(const Options& options);

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_BENCH_H_
