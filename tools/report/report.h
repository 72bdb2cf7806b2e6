#ifndef DSCKPT_TOOLS_REPORT_REPORT_H_
#define DSCKPT_TOOLS_REPORT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/status.h"
#include "tools/report/cells.h"

// What the page says, without the page.

namespace dsckpt::tools {

/// A tensor, and where it stands in the heat maps.
struct ReportRow {
  std::string name;
  /// Its name with # for numbers: a heat map for each.
  std::string module;
  std::optional<uint64_t> layer;
  std::string dtype, shape;
  uint64_t elements = 0;
  /// dist_init of the last checkpoint over the sum of all updates.
  std::optional<double> straightness;
  /// The rows of its first and second moment of Adam.
  std::optional<uint32_t> exp_avg, exp_avg_sq;
};

/// One thing that happened, or the same in tensors whose names differ in numbers alone.
struct ReportFinding {
  std::string kind;
  /// The step, and the one that it is compared with; nothing: not known.
  std::optional<int64_t> step, other_step;
  /// Where it shows.
  uint32_t column_step = 0;  ///< the checkpoint, by position among the selected ones
  std::optional<uint32_t> row;
  /// The tensor's name, or its pattern where there are several.
  std::string name;
  uint64_t tensors = 1;
  std::optional<double> value, threshold;
  std::optional<uint64_t> first_nan;
  std::string command;
};

/// A number that checkpoints carry, such as the loss; in the order of checkpoints.
struct ReportAttribute {
  std::string name;
  std::vector<std::optional<double>> values;
};

/// Tensors of one module and dtype.
struct ReportSize {
  std::string module, dtype;
  uint64_t tensors = 0, elements = 0, bytes = 0;
};

/// What was looked at, so that "nothing found" means something.
struct ReportScope {
  bool quick = false;
  /// Tensors in checkpoints, and their bytes.
  uint64_t cells = 0, bytes = 0;
  /// Of how many NaN are known, and of how many what they hold.
  uint64_t measured = 0, with_content = 0;
  uint64_t read_bytes = 0;
  /// Tensors whose dtype is packed or unknown.
  uint64_t skipped = 0;
};

struct Report {
  Report(uint32_t checkpoints, uint32_t max_columns) : cells(checkpoints, max_columns) {}

  std::string title;
  /// What the command line named.
  std::vector<std::string> runs;
  std::vector<std::optional<int64_t>> steps;
  /// What stands for each checkpoint in commands.
  std::vector<std::string> operands;
  std::vector<ReportAttribute> attributes;
  std::vector<ReportRow> rows;
  ReportCells cells;
  std::vector<ReportFinding> findings;
  /// Findings that are left out because there are too many.
  uint64_t more_findings = 0;
  std::vector<ReportSize> sizes;
  /// Checkpoints and other entries that are not counted, each with the reason.
  std::vector<std::pair<std::string, std::string>> left_out;
  ReportScope scope;
};

/// A column for each checkpoint, but no more than this.
inline constexpr uint32_t kReportColumns = 400;

/// Finds for each tensor those of its moments of Adam: their names end as the tensor's, but for a
/// part "exp_avg" or "exp_avg_sq".
void PairMoments(std::vector<ReportRow>& rows);

/// The page as one HTML document. Where it would be larger than `max_bytes`, columns are joined.
/// kInvalidArgument: it is too large with few columns too.
Result<std::string> ReportPage(Report& report, uint64_t max_bytes);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_REPORT_REPORT_H_
