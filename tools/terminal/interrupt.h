#ifndef DSCKPT_TOOLS_TERMINAL_INTERRUPT_H_
#define DSCKPT_TOOLS_TERMINAL_INTERRUPT_H_

// Removing half-written output on Ctrl-C.

#include <signal.h>

#include <array>

namespace dsckpt::tools {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is only noted, so that a half-written output
/// can be removed; a second one ends the process at once. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came, or 0. A shell reports 128 plus it.
  static int signal();

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> old_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_INTERRUPT_H_
