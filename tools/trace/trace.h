#ifndef DSCKPT_TOOLS_TRACE_TRACE_H_
#define DSCKPT_TOOLS_TRACE_TRACE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/merge.h"
#include "dsckpt/trajectory.h"
#include "dsckpt/trajectory_events.h"
#include "dsckpt/trajectory_measures.h"
#include "tools/rows.h"

// The parts of the command trace.

namespace dsckpt::tools {

class Console;

/// Which checkpoints are looked at.
struct StepChoice {
  std::vector<std::string> steps;  ///< "0", "0,512", "1000:", "A:B:S".
  std::optional<uint64_t> last, every;
  std::string step_from = "auto";
};

/// One of several processes that share the tensors; from 1.
struct TracePart {
  uint32_t index = 1, count = 1;
};

/// Whether and how elements are read.
struct ReadingChoice {
  bool quick = false;  ///< Not at all.
  std::string against = "prev";
  std::string cache;
  std::vector<std::string> combine;
  TracePart part;
  int threads = 0;
  uint64_t memory = 256 << 20;
  bool no_verify = false;
};

struct TraceOptions {
  std::vector<std::string> operands;
  NameFilter names;
  StepChoice steps;
  ReadingChoice reading;
  std::string by;  ///< Empty: tensors, and no rows in a table.
  RowOptions rows;
  std::vector<std::string> fail_on;  ///< Names of events, and "changed".
  bool quiet = false;
};

/// --steps, --last, --every and --step-from.
void AddStepOptions(CommandLine& line, StepChoice& steps);
/// --quick, --cache, --combine, --threads, --memory and --no-verify. `parts`: --against and --part
/// as well.
void AddReadingOptions(CommandLine& line, ReadingChoice& reading, bool parts);

/// What was looked at, and what was found in it.
struct Trace {
  Trajectory run;
  TrajectorySelection selection;
  bool quick = false;
  /// The checkpoint that all are compared with.
  std::optional<uint32_t> against;
  /// By position in `selection.tensors`, in the order of checkpoints; empty where elements were not
  /// read.
  std::vector<std::vector<TensorMeasure>> measures;
  MeasureSummary summary;
  std::vector<TrajectoryEvent> events;
  /// By position in `selection.checkpoints`: how many of its tensors differ from the checkpoint
  /// before; nothing where that is not known of all of them.
  std::vector<std::optional<uint64_t>> changed;
  double seconds = 0;

  /// Of a tensor by position in `selection.tensors`; null where its elements were not read.
  const TensorMeasure* MeasureOf(size_t position, uint32_t checkpoint) const;
};

/// Opens what the options name, reads it, and finds events. The cache is saved also where reading
/// fails.
Result<Trace> MakeTrace(Console& console, const TraceOptions& options);

/// Checkpoints that --steps, --last and --every leave. kInvalidArgument.
Result<std::vector<uint32_t>> SelectCheckpoints(const Trajectory& run, const StepChoice& choice);
/// The checkpoint that --against names; nothing for "prev". kInvalidArgument, kNotFound.
Result<std::optional<uint32_t>> FindAgainst(const Trajectory& run,
                                            const std::vector<uint32_t>& selected,
                                            const std::string& against);
/// "3/64". kInvalidArgument.
Result<TracePart> ParsePart(const std::string& text);

/// The first segment of digits.
std::optional<uint64_t> LayerOf(std::string_view name);

/// Of the column flags.
enum TraceFlag : uint64_t {
  kFlagCoarse = 1,
  kFlagJump = 2,
  kFlagSame = 4,   ///< The content is that of prev_step.
  kFlagOther = 8,  ///< The dtype or the shape is another than in prev_step.
};

/// A row of the long table: a tensor, or a group of them, in one checkpoint.
struct TraceRow {
  uint32_t checkpoint = 0;
  /// The checkpoint that it is compared with.
  std::optional<uint32_t> before;
  std::string name, group;
  std::optional<uint64_t> layer;
  std::string dtype;
  uint64_t count = 0;
  std::optional<TensorMoments> moments;
  std::optional<TensorUpdate> update;
  std::optional<UpdateTurn> turn;
  std::optional<double> distance;
  /// The digest of the whole tensor.
  std::optional<Hash128> digest;
  /// The first checkpoint in which the tensor has the same content.
  std::optional<uint32_t> same_as;
  uint64_t flags = 0;
};

/// Receives a row of the long table; false: no more of them.
using TakeTraceRow = std::function<bool(std::vector<Cell> row)>;
/// The long table: `by` is as for GroupOf().
void ForEachTraceRow(const Trace& trace, const std::string& by, const TakeTraceRow& take);
/// The columns of the long table, without rows.
Rows EmptyTraceRows();

/// By tensor in the order of names, then by checkpoint.
std::vector<TraceRow> RowsOfTensor(const Trace& trace, size_t position);
/// By group in the order of their names, then by checkpoint.
std::vector<TraceRow> RowsOfGroups(const Trace& trace, const std::string& by);

/// The command that shows an event.
std::string CommandFor(const Trace& trace, const TrajectoryEvent& event);
/// "The first NaN ...": where it is, and the last checkpoint without any; empty where there is
/// none.
std::string FirstNan(const Trace& trace);

/// Members of the document dsckpt.trace/1 before and behind its rows, as text.
std::string TraceJsonHead(const Trace& trace, const std::string& by);
std::string TraceJsonTail(const Trace& trace);
/// Steps and events, for people.
void TraceText(Console& console, const Trace& trace, uint64_t limit);
/// How many lines a list has at most; 0: all.
uint64_t TraceLimit(const Console& console, const RowOptions& options);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TRACE_TRACE_H_
