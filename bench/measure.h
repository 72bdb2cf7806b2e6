#ifndef DSCKPT_BENCH_MEASURE_H_
#define DSCKPT_BENCH_MEASURE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::bench {

class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// REQUIRES: !samples.empty().
double Median(std::vector<double> samples);

/// Growth of the peak resident set since construction.
class PeakMemory {
 public:
  PeakMemory();
  uint64_t extra_bytes() const;

 private:
  uint64_t start_bytes_;
};

/// A file in `dir` that is removed with this object, and before each use that wants none.
class ScratchFile {
 public:
  ScratchFile(const std::string& dir, const std::string& name);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }
  /// Removes the file and waits until the file system has settled, so that freeing its blocks does
  /// not count in what is measured next.
  void Remove() const;
  /// Drops the file's pages from the page cache; fails when some are still resident afterwards.
  Status DropCache() const;

 private:
  std::string path_;
};

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_MEASURE_H_
