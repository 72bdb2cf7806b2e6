#include "tools/report/cells.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace dsckpt::tools {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
constexpr float kLogOfZero = -std::numeric_limits<float>::infinity();
constexpr uint32_t kNoCode = 0, kZeroCode = 1, kFirstCode = 2, kLastCode = 65535;

float Scaled(ReportMetric metric, std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return kNothing;
  if (!ReportCells::IsLogarithmic(metric)) return static_cast<float>(*value);
  if (*value < 0) return kNothing;
  return *value == 0 ? kLogOfZero : static_cast<float>(std::log(*value));
}

float Joined(ReportMetric metric, float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (metric == ReportMetric::kCosine) return std::abs(b) > std::abs(a) ? b : a;
  return std::max(a, b);
}

/// Those that cells add up to: a range of steps is unchanged only where all of it is.
uint8_t JoinedFlags(uint8_t a, uint8_t b) {
  if ((a & kFlagPresent) == 0) return b;
  if ((b & kFlagPresent) == 0) return a;
  const int same = a & b & kFlagSame;
  return static_cast<uint8_t>(((a | b) & ~kFlagSame) | same);
}

/// Where [0, size) is divided evenly into `parts`.
std::vector<uint32_t> Divide(uint32_t size, uint32_t parts) {
  std::vector<uint32_t> starts;
  for (uint64_t i = 0; i <= parts; ++i) {
    starts.push_back(static_cast<uint32_t>(i * size / parts));
  }
  return starts;
}

struct Range {
  float low = 0, high = 0;
};

Range RangeOf(std::span<const float> row) {
  Range range;
  bool any = false;
  for (const float value : row) {
    if (!std::isfinite(value)) continue;
    range =
        any ? Range{std::min(range.low, value), std::max(range.high, value)} : Range{value, value};
    any = true;
  }
  return range;
}

uint32_t CodeOf(float value, const Range& range) {
  if (std::isnan(value)) return kNoCode;
  if (std::isinf(value)) return kZeroCode;
  if (range.low == range.high) return kFirstCode;
  const double share =
      (static_cast<double>(value) - range.low) / (static_cast<double>(range.high) - range.low);
  return kFirstCode + static_cast<uint32_t>(std::lround(share * (kLastCode - kFirstCode)));
}

void AppendFloat(std::string& out, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift & 0xFF);
}

void AppendPlanes(std::string& out, std::span<const uint32_t> codes) {
  for (const uint32_t code : codes) out += static_cast<char>(code >> 8);
  for (const uint32_t code : codes) out += static_cast<char>(code & 0xFF);
}

}  // namespace

std::string_view ReportMetricName(ReportMetric metric) {
  switch (metric) {
    case ReportMetric::kNorm:
      return "norm";
    case ReportMetric::kRatio:
      return "upd_ratio";
    case ReportMetric::kPerStep:
      return "upd_per_step";
    case ReportMetric::kCosine:
      return "cos_prev";
    case ReportMetric::kChanged:
      return "changed";
    case ReportMetric::kNan:
      return "nan";
    case ReportMetric::kInf:
      return "inf";
    default:
      return "dist_init";
  }
}

bool ReportCells::IsLogarithmic(ReportMetric metric) {
  return metric != ReportMetric::kCosine && metric != ReportMetric::kChanged;
}

ReportCell CellOf(const TensorMeasure& measure, std::optional<int64_t> gap, DType dtype) {
  ReportCell cell;
  const TensorMoments& moments = measure.moments;
  cell.value(ReportMetric::kNan) = static_cast<double>(moments.nan);
  cell.value(ReportMetric::kInf) = static_cast<double>(moments.inf);
  if (moments.finite() != 0) cell.value(ReportMetric::kNorm) = moments.Norm();
  cell.value(ReportMetric::kDistance) = measure.distance;
  if (measure.update) {
    cell.value(ReportMetric::kRatio) = measure.update->Ratio();
    cell.value(ReportMetric::kChanged) = measure.update->ChangedShare();
    if (gap && *gap > 0) {
      cell.value(ReportMetric::kPerStep) = measure.update->Norm() / static_cast<double>(*gap);
    }
  }
  if (measure.turn) cell.value(ReportMetric::kCosine) = measure.turn->Cosine();
  if (IsCoarse(measure, dtype)) cell.flags |= kFlagCoarse;
  return cell;
}

ReportCells::ReportCells(uint32_t steps, uint32_t max_columns)
    : starts_(Divide(steps, std::min(steps, max_columns))) {}

uint32_t ReportCells::column_of(uint32_t step) const {
  const auto next = std::upper_bound(starts_.begin(), starts_.end() - 1, step);
  return static_cast<uint32_t>(next - starts_.begin()) - 1;
}

void ReportCells::Take(size_t at, const ReportCell& cell) {
  for (size_t m = 0; m < kReportMetrics; ++m) {
    const auto metric = static_cast<ReportMetric>(m);
    scaled_[m][at] = Joined(metric, scaled_[m][at], Scaled(metric, cell.values[m]));
  }
  flags_[at] = JoinedFlags(flags_[at], cell.flags);
  if (!cell.content) return;
  const auto age = static_cast<int32_t>(cell.step - *cell.content);
  if (age > content_[at].age) content_[at] = {age, *cell.content};
}

void ReportCells::AddRow(std::span<const ReportCell> cells) {
  const size_t from = rows_++ * columns(), size = rows_ * columns();
  for (auto& values : scaled_) values.resize(size, kNothing);
  flags_.resize(size);
  content_.resize(size);
  for (const ReportCell& cell : cells) Take(from + column_of(cell.step), cell);
}

void ReportCells::AddFlag(size_t row, uint32_t step, uint8_t flag) {
  flags_[row * columns() + column_of(step)] |= flag;
}

void ReportCells::JoinCell(size_t into, size_t from, const ReportCells& other) {
  for (size_t m = 0; m < kReportMetrics; ++m) {
    scaled_[m][into] =
        Joined(static_cast<ReportMetric>(m), scaled_[m][into], other.scaled_[m][from]);
  }
  flags_[into] = JoinedFlags(flags_[into], other.flags_[from]);
  if (other.content_[from].age > content_[into].age) content_[into] = other.content_[from];
}

void ReportCells::Join(uint32_t columns) {
  const uint32_t before = this->columns();
  const std::vector<uint32_t> division = Divide(before, columns);
  ReportCells joined(1, 1);
  joined.starts_.clear();
  for (const uint32_t column : division) joined.starts_.push_back(starts_[column]);
  for (size_t row = 0; row < rows_; ++row) {
    joined.AddRow({});
    for (uint32_t column = 0; column < columns; ++column) {
      for (uint32_t old = division[column]; old < division[column + 1]; ++old) {
        joined.JoinCell(row * columns + column, row * before + old, *this);
      }
    }
  }
  *this = std::move(joined);
}

std::optional<double> ReportCells::value(size_t row, uint32_t column, ReportMetric metric) const {
  const float scaled = scaled_[static_cast<size_t>(metric)][row * columns() + column];
  if (std::isnan(scaled)) return std::nullopt;
  return IsLogarithmic(metric) ? std::exp(static_cast<double>(scaled)) : scaled;
}

std::string ReportCells::Pack() const {
  std::string out;
  std::vector<uint32_t> codes(flags_.size());
  for (const std::vector<float>& values : scaled_) {
    std::vector<Range> ranges;
    for (size_t at = 0; at < values.size(); at += columns()) {
      const std::span row(values.data() + at, columns());
      ranges.push_back(RangeOf(row));
      std::transform(row.begin(), row.end(), codes.begin() + static_cast<ptrdiff_t>(at),
                     [&](float value) { return CodeOf(value, ranges.back()); });
    }
    for (const Range& range : ranges) AppendFloat(out, range.low);
    for (const Range& range : ranges) AppendFloat(out, range.high);
    AppendPlanes(out, codes);
  }
  out.append(flags_.begin(), flags_.end());
  for (size_t at = 0; at < content_.size(); ++at) {
    const auto column = static_cast<uint32_t>(at % columns());
    const bool known = content_[at].age >= 0;
    codes[at] = known ? column - column_of(content_[at].first) + 1 : 0;
  }
  AppendPlanes(out, codes);
  return out;
}

}  // namespace dsckpt::tools
