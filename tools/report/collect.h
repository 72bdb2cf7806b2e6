#ifndef DSCKPT_TOOLS_REPORT_COLLECT_H_
#define DSCKPT_TOOLS_REPORT_COLLECT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/trajectory_measures.h"
#include "tools/report/report.h"
#include "tools/trace/trace.h"

// From a run to what the page says of it.

namespace dsckpt::tools {

/// Puts a report together, tensor by tensor.
class ReportCollector {
 public:
  /// `trace`: the run and what is selected of it; it is kept by reference.
  explicit ReportCollector(const Trace& trace);

  /// Adds a tensor from what was measured; events about it are found as well.
  void AddMeasured(uint32_t tensor, std::span<const TensorMeasure> measures);
  /// Adds a tensor from what indexes say of it. Events are those of FindEvents().
  void AddIndexed(uint32_t tensor);
  /// `events`: those that AddMeasured() has not found.
  Report Finish(std::vector<TrajectoryEvent> events);

 private:
  void AddRow(uint32_t tensor, std::vector<ReportCell> cells);
  void NoteContent(uint32_t tensor, std::span<ReportCell> cells);
  void NoteForms(uint32_t tensor, std::span<ReportCell> cells);
  void AddSizes(uint32_t tensor);
  void AddFinding(const TrajectoryEvent& event);
  void AddAttributes();

  const Trace& trace_;
  Report report_;
  std::vector<uint32_t> position_;  // of a checkpoint among the selected ones
  std::map<uint32_t, uint32_t> row_of_tensor_;
  std::vector<TrajectoryEvent> events_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> first_nan_;  // by checkpoint and tensor
  std::map<std::pair<std::string, std::string>, ReportSize> sizes_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_REPORT_COLLECT_H_
