// What the sums of a Difference say.

#include <cmath>

#include "analysis/angle.h"
#include "dsckpt/analysis.h"

namespace dsckpt {

double Difference::Norm() const { return std::sqrt(squared_difference); }

std::optional<double> Difference::Ratio() const {
  if (!whole() || !(squared_a > 0)) return std::nullopt;
  return Norm() / std::sqrt(squared_a);
}

std::optional<double> Difference::Angle() const {
  if (!whole()) return std::nullopt;
  return analysis::AngleBetween(squared_difference, cross, squared_a, squared_b);
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
