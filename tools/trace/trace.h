#ifndef DSCKPT_TOOLS_TRACE_TRACE_H_
#define DSCKPT_TOOLS_TRACE_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dsckpt/merge.h"
#include "dsckpt/trajectory.h"
#include "dsckpt/trajectory_events.h"
#include "tools/groups.h"

// The parts of the command trace.

namespace dsckpt::tools {

class Console;

struct TraceOptions {
  std::vector<std::string> operands;
  NameFilter names;
  bool quick = false;
  bool quiet = false;
  std::vector<std::string> steps;  ///< "0", "0,512", "1000:", "A:B:S".
  std::optional<uint64_t> last, every, limit;
  std::string format;  ///< "table", "csv" or "jsonl"; empty: table.
  std::string output;  ///< A file; empty: standard output.
  std::string step_from = "auto";
  std::vector<std::string> fail_on;  ///< Names of events, and "changed".
};

/// What was looked at, and what was found in it.
struct Trace {
  Trajectory run;
  TrajectorySelection selection;
  std::vector<TrajectoryEvent> events;
  /// By position in `selection.checkpoints`: how many of its tensors differ from the checkpoint
  /// before; nothing where that is not known of all of them.
  std::vector<std::optional<uint64_t>> changed;
  double seconds = 0;
};

/// Checkpoints that --steps, --last and --every leave. kInvalidArgument.
Result<std::vector<uint32_t>> SelectCheckpoints(const Trajectory& run, const TraceOptions& options);

/// The first segment of digits.
std::optional<uint64_t> LayerOf(std::string_view name);

/// A row of the long table: one tensor in one checkpoint.
struct TraceRow {
  uint32_t checkpoint = 0, tensor = 0;
  std::optional<int64_t> step, prev_step;
  std::string_view name, group;
  std::optional<uint64_t> layer;
  TrajectoryForm form;
  std::optional<TensorStatistics> statistics;
  /// The digest of the whole tensor.
  std::optional<Hash128> digest;
  /// The first checkpoint in which the tensor has the same content.
  std::optional<int64_t> same_as_step;
  /// Whether it differs from the checkpoint before; nothing where that is not known.
  std::optional<bool> changed;
};

/// Calls `visit` for each row, by tensor, then by checkpoint, until it returns false.
template <typename Visit>
void ForEachRow(const Trace& trace, const Visit& visit);

/// The rows of one tensor.
std::vector<TraceRow> RowsOf(const Trace& trace, uint32_t tensor, const std::string& group);

template <typename Visit>
void ForEachRow(const Trace& trace, const Visit& visit) {
  for (const uint32_t tensor : trace.selection.tensors) {
    const std::string group = NamePattern(trace.run.tensor(tensor).name);
    for (const TraceRow& row : RowsOf(trace, tensor, group)) {
      if (!visit(row)) return;
    }
  }
}

/// The command that shows an event.
std::string CommandFor(const Trace& trace, const TrajectoryEvent& event);

/// The schema dsckpt.trace/1.
void TraceJson(Console& console, const Trace& trace);
/// Steps and events, for people.
void TraceText(Console& console, const Trace& trace, const TraceOptions& options);
/// The long table as CSV or as JSON Lines.
void TraceRows(Console& console, const Trace& trace, const TraceOptions& options);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TRACE_TRACE_H_
