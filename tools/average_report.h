#ifndef DSCKPT_TOOLS_AVERAGE_REPORT_H_
#define DSCKPT_TOOLS_AVERAGE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "dsckpt/average.h"
#include "dsckpt/trajectory.h"

// What dsckpt average says of its outputs.

namespace dsckpt::tools {

class Console;

/// One output.
struct PlannedAverage {
  std::string output;
  std::optional<double> alpha;
  std::vector<AverageTerm> terms;
};

/// All outputs, and what was found in each.
struct WrittenAverages {
  std::vector<PlannedAverage> planned;
  std::vector<AverageReport> reports;
  double seconds = 0;
};

/// The schema dsckpt.average/1.
void ReportAveragesJson(Console& console, const Trajectory& run, const WrittenAverages& written);
void ReportAverages(Console& console, const WrittenAverages& written);
/// What averages do not show by themselves.
void NoteAverages(Console& console, const WrittenAverages& written);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_AVERAGE_REPORT_H_
