#ifndef DSCKPT_ANALYSIS_ANGLE_H_
#define DSCKPT_ANALYSIS_ANGLE_H_

#include <algorithm>
#include <cmath>
#include <optional>

namespace dsckpt::analysis {

/// 1 - cos of the angle between a and b, from the sums of (b - a)^2, of (b - a)(b + a), of a^2 and
/// of b^2; nothing where a norm is 0.
inline std::optional<double> AngleBetween(double difference, double cross, double squares_a,
                                          double squares_b) {
  if (!(squares_a > 0) || !(squares_b > 0)) return std::nullopt;
  // 1 - a.b / (|a||b|) loses all digits of a small angle; differences of lengths do not.
  const double a = std::sqrt(squares_a), b = std::sqrt(squares_b);
  const double longer = cross / (a + b);
  return std::max(0.0, difference - longer * longer) / (2 * a * b);
}

}  // namespace dsckpt::analysis

#endif  // DSCKPT_ANALYSIS_ANGLE_H_
