// What the sums of a Difference say.

#include <algorithm>
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

Difference Difference::With(const Difference& other) const {
  Difference both = *this;
  both.count += other.count;
  both.compared += other.compared;
  both.finite += other.finite;
  both.nan_a += other.nan_a;
  both.nan_b += other.nan_b;
  both.changed += other.changed;
  both.beyond += other.beyond;
  both.max_abs = std::max(max_abs, other.max_abs);
  both.max_index = 0;
  both.max_rel = std::max(max_rel, other.max_rel);
  if (other.max_ulp) both.max_ulp = std::max(max_ulp.value_or(0), *other.max_ulp);
  both.squared_difference += other.squared_difference;
  both.cross += other.cross;
  both.squared_a += other.squared_a;
  both.squared_b += other.squared_b;
  return both;
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
