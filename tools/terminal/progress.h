#ifndef DSCKPT_TOOLS_TERMINAL_PROGRESS_H_
#define DSCKPT_TOOLS_TERMINAL_PROGRESS_H_

// The progress bar.

#include <chrono>
#include <cstdint>
#include <string>

namespace dsckpt::tools {

class Console;

/// A bar on standard error while something long runs; nothing where that is no terminal. Erased
/// when destroyed. Not thread-safe.
class ProgressBar {
 public:
  ProgressBar(const Console& console, std::string label);
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Cheap: redraws at most ten times a second.
  void Update(uint64_t done, uint64_t total);
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_;
  bool ascii_;
  bool drawn_ = false;
  size_t width_;
  std::string label_;
  Clock::time_point start_, last_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_PROGRESS_H_
