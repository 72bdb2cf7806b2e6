// What the sums of updates and turns say, and how they join.

#include <algorithm>
#include <cmath>

#include "analysis/angle.h"
#include "dsckpt/trajectory_measures.h"

namespace dsckpt {

namespace {

struct FloatFormat {
  int fraction_bits = 0;   ///< 0: no floating-point numbers.
  int least_exponent = 0;  ///< Of numbers that are not subnormal.
};

FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return {52, -1022};
    case DType::kF32:
    case DType::kC64:
      return {23, -126};
    case DType::kF16:
      return {10, -14};
    case DType::kBF16:
      return {7, -126};
    case DType::kF8E4M3:
      return {3, -6};
    case DType::kF8E5M2:
      return {2, -14};
    case DType::kF8E4M3FNUZ:
      return {3, -7};
    case DType::kF8E5M2FNUZ:
      return {2, -15};
    default:
      return {};
  }
}

}  // namespace

double TensorUpdate::Norm() const { return std::sqrt(squares); }

double TensorUpdate::Rms() const {
  return finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
}

std::optional<double> TensorUpdate::Ratio() const {
  if (!(squares_before > 0)) return std::nullopt;
  return Norm() / std::sqrt(squares_before);
}

std::optional<double> TensorUpdate::Angle() const {
  return analysis::AngleBetween(squares, cross, squares_before, squares_after);
}

double TensorUpdate::ChangedShare() const {
  return count == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(count);
}

TensorUpdate TensorUpdate::With(const TensorUpdate& other) const {
  TensorUpdate both = *this;
  both.count += other.count;
  both.finite += other.finite;
  both.changed += other.changed;
  both.squares += other.squares;
  both.cross += other.cross;
  both.squares_before += other.squares_before;
  both.squares_after += other.squares_after;
  return both;
}

std::optional<double> UpdateTurn::Cosine() const {
  if (!(squares > 0) || !(squares_before > 0)) return std::nullopt;
  const double cosine = dot / (std::sqrt(squares) * std::sqrt(squares_before));
  return std::clamp(cosine, -1.0, 1.0);
}

UpdateTurn UpdateTurn::With(const UpdateTurn& other) const {
  return {dot + other.dot, squares + other.squares, squares_before + other.squares_before};
}

bool IsCoarse(const TensorMeasure& measure, DType dtype) {
  if (!measure.update || measure.update->changed == 0) return false;
  const FloatFormat format = FormatOf(dtype);
  const double rms = measure.moments.Rms();
  if (format.fraction_bits == 0 || !(rms > 0)) return false;
  const int exponent = std::max(std::ilogb(rms), format.least_exponent);
  return measure.update->Rms() < std::ldexp(0.5, exponent - format.fraction_bits);
}

}  // namespace dsckpt
