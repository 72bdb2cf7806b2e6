#ifndef DSCKPT_TOOLS_REPORT_CELLS_H_
#define DSCKPT_TOOLS_REPORT_CELLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/trajectory_measures.h"
#include "tools/trace/trace.h"

// What the page shows of each tensor in each checkpoint, as matrices of a row for each tensor.

namespace dsckpt::tools {

/// The numbers of a cell. On the page they have these positions too.
enum class ReportMetric : uint8_t {
  kNorm,
  kRatio,    ///< |update| / |tensor before|
  kPerStep,  ///< |update| by step
  kCosine,   ///< between the update and the one before
  kChanged,  ///< share of elements with other bits
  kNan,
  kInf,
  kDistance,  ///< from the first checkpoint
};
inline constexpr size_t kReportMetrics = 8;

/// "norm", "upd_ratio": the names of columns in the long table of dsckpt trace.
std::string_view ReportMetricName(ReportMetric metric);

/// A bit of a cell, beside those of TraceFlag: the checkpoint has the tensor.
inline constexpr uint8_t kFlagPresent = 16;

/// One tensor in one checkpoint.
struct ReportCell {
  /// The checkpoint, by position among the selected ones.
  uint32_t step = 0;
  std::array<std::optional<double>, kReportMetrics> values = {};
  /// The first selected checkpoint in which the tensor has this content; nothing: not known.
  std::optional<uint32_t> content;
  uint8_t flags = kFlagPresent;

  std::optional<double>& value(ReportMetric metric) { return values[static_cast<size_t>(metric)]; }
};

/// What a measure says. `gap`: how many steps lie between it and the checkpoint before.
ReportCell CellOf(const TensorMeasure& measure, std::optional<int64_t> gap, DType dtype);

/// A cell for each tensor and checkpoint, or for each tensor and a range of checkpoints: such a
/// column has of each number the greatest (of cosines the one furthest from 0) and all flags, but
/// kFlagSame only where all have it. Means would hide what happened in one checkpoint.
class ReportCells {
 public:
  /// REQUIRES: steps > 0, max_columns > 0.
  ReportCells(uint32_t steps, uint32_t max_columns);

  /// Adds the next row. `cells`: in ascending order of steps.
  void AddRow(std::span<const ReportCell> cells);
  void AddFlag(size_t row, uint32_t step, uint8_t flag);
  /// REQUIRES: 0 < columns <= this->columns().
  void Join(uint32_t columns);

  size_t rows() const { return rows_; }
  uint32_t columns() const { return static_cast<uint32_t>(starts_.size()) - 1; }
  uint32_t column_of(uint32_t step) const;
  /// The first step of each column, and the number of steps.
  const std::vector<uint32_t>& starts() const { return starts_; }
  /// REQUIRES: row < rows(), column < columns().
  std::optional<double> value(size_t row, uint32_t column, ReportMetric metric) const;
  uint8_t flags(size_t row, uint32_t column) const { return flags_[row * columns() + column]; }

  /// The matrices as bytes, little-endian, each by rows. For each metric the least and the greatest
  /// scaled value of each row as floats, then the high bytes and the low bytes of 16-bit codes.
  /// Code 0 is no value, code 1 is 0 on a logarithmic scale, and 2 to 65535 divide the range of
  /// the row evenly; see IsLogarithmic(). Then flags as bytes; then high and low bytes of how many
  /// columns before the present one the content was first seen, plus 1; 0 where it is not known.
  std::string Pack() const;

  /// Whether a metric is scaled by the natural logarithm.
  static bool IsLogarithmic(ReportMetric metric);

 private:
  /// What is known of the content of a cell; of the column's steps, the one that was first seen
  /// longest ago.
  struct Content {
    int32_t age = -1;  // in steps; -1: not known
    uint32_t first = 0;
  };
  void JoinCell(size_t into, size_t from, const ReportCells& other);
  void Take(size_t at, const ReportCell& cell);

  std::vector<uint32_t> starts_;
  size_t rows_ = 0;
  std::array<std::vector<float>, kReportMetrics>
      scaled_;  // NaN: no value; -inf: the logarithm of 0
  std::vector<uint8_t> flags_;
  std::vector<Content> content_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_REPORT_CELLS_H_
