// What the sums of a Difference say.

#include <algorithm>
#include <cmath>

#include "dsckpt/analysis.h"

namespace dsckpt {

double Difference::Norm() const { return std::sqrt(squared_difference); }

std::optional<double> Difference::Ratio() const {
  if (!whole() || !(squared_a > 0)) return std::nullopt;
  return Norm() / std::sqrt(squared_a);
}

std::optional<double> Difference::Angle() const {
  if (!whole() || !(squared_a > 0) || !(squared_b > 0)) return std::nullopt;
  // 1 - a.b / (|a||b|) loses all digits of a small angle; differences of lengths do not.
  const double a = std::sqrt(squared_a), b = std::sqrt(squared_b);
  const double longer = cross / (a + b);
  return std::max(0.0, squared_difference - longer * longer) / (2 * a * b);
}

std::string_view DiffStateName(DiffState state) {
  switch (state) {
    case DiffState::kEqual:
      return "equal";
    case DiffState::kClose:
      return "close";
    case DiffState::kChanged:
      return "changed";
    case DiffState::kAdded:
      return "added";
    case DiffState::kRemoved:
      return "removed";
    case DiffState::kReshaped:
      return "reshaped";
    case DiffState::kRetyped:
      return "retyped";
    case DiffState::kMoved:
      break;
  }
  return "moved";
}

}  // namespace dsckpt
