#ifndef DSCKPT_BASE_BACKOFF_H_
#define DSCKPT_BASE_BACKOFF_H_

// Waiting for something that other processes change and that nobody announces.

#include <chrono>

namespace dsckpt {

/// Pauses between looks at something that others change: 1 ms, doubling up to 100 ms, until a
/// deadline. Looks like this, and always looks at least once:
///
///     for (Backoff backoff(deadline);;) {
///       if (IsThere()) return ...;
///       if (!backoff.Wait()) break;  // Timed out.
///     }
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Backoff(Clock::time_point deadline) : deadline_(deadline) {}
  explicit Backoff(std::chrono::milliseconds patience) : Backoff(Clock::now() + patience) {}
  /// Sleeps until the next look is due. False once the deadline has passed, without sleeping: the
  /// caller has looked after it.
  bool Wait();

 private:
  const Clock::time_point deadline_;
  std::chrono::milliseconds pause_{1};
};

}  // namespace dsckpt

#endif  // DSCKPT_BASE_BACKOFF_H_
