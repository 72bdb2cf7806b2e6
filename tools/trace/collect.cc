// What trace looks at: the run, the selection, the elements of its tensors, and the events in them.

#include <algorithm>
#include <chrono>
#include <utility>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// The cache of a run, which outlives an interruption.
class SavedCache {
 public:
  explicit SavedCache(std::string path) : path_(std::move(path)) {}

  Status Load(const std::vector<std::string>& others) {
    if (!path_.empty()) DSCKPT_RETURN_IF_ERROR(cache_.Load(path_));
    for (const std::string& other : others) {
      const size_t before = cache_.size();
      DSCKPT_RETURN_IF_ERROR(cache_.Load(other));
      if (cache_.size() == before) empty_.push_back(other);
    }
    return {};
  }
  /// Those of the other files that added nothing.
  const std::vector<std::string>& empty() const { return empty_; }
  MeasureCache* get() { return &cache_; }

  Status Save() {
    saved_ = Clock::now();
    return path_.empty() ? Status() : cache_.Save(path_);
  }
  Status SaveNowAndThen() {
    constexpr std::chrono::seconds kBetween(10);
    return Clock::now() - saved_ < kBetween ? Status() : Save();
  }

 private:
  const std::string path_;
  MeasureCache cache_;
  std::vector<std::string> empty_;
  Clock::time_point saved_ = Clock::now();
};

/// What is known of a tensor's change from one selected checkpoint to the next.
std::optional<bool> Changed(const Trace& trace, size_t position, uint32_t before, uint32_t now) {
  const uint32_t i = trace.selection.tensors[position];
  const auto was = trace.run.Form(before, i), is = trace.run.Form(now, i);
  if (!was || !is) return was.has_value() != is.has_value();
  const auto old = trace.run.Content(before, i), content = trace.run.Content(now, i);
  if (old && content) return *old != *content;
  const TensorMeasure* const measure = trace.MeasureOf(position, now);
  if (measure == nullptr || measure->before != before) return std::nullopt;
  return !measure->update || measure->update->changed != 0;
}

std::optional<uint64_t> ChangedSince(const Trace& trace, uint32_t before, uint32_t now) {
  uint64_t changed = 0;
  for (size_t position = 0; position < trace.selection.tensors.size(); ++position) {
    const auto each = Changed(trace, position, before, now);
    if (!each) return std::nullopt;
    changed += *each ? 1 : 0;
  }
  return changed;
}

MeasureOptions HowToMeasure(const Console& console, const Trace& trace, const ReadingChoice& choice,
                            SavedCache& cache, ProgressBar& bar) {
  MeasureOptions how;
  how.reading.threads = choice.threads;
  how.reading.verify = !choice.no_verify;
  // What there is to do is counted beforehand, which takes a look at every tensor.
  if (console.err_is_terminal()) {
    how.reading.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  }
  how.memory = choice.memory;
  how.against = trace.against;
  if (!choice.cache.empty() || !choice.combine.empty()) how.cache = cache.get();
  return how;
}

Status MeasureAll(Console& console, Trace& trace, const ReadingChoice& choice) {
  SavedCache cache(choice.cache);
  DSCKPT_RETURN_IF_ERROR(cache.Load(choice.combine));
  const auto& tensors = trace.selection.tensors;
  trace.measures.resize(tensors.size());
  const auto take = [&](uint32_t tensor, std::span<const TensorMeasure> rows) -> Status {
    const auto position = std::ranges::lower_bound(tensors, tensor) - tensors.begin();
    trace.measures[static_cast<size_t>(position)].assign(rows.begin(), rows.end());
    return cache.SaveNowAndThen();
  };
  ProgressBar bar(console, "trace");
  auto summary =
      Measure(trace.run, trace.selection, take, HowToMeasure(console, trace, choice, cache, bar));
  bar.Clear();
  const Status saved = cache.Save();
  DSCKPT_RETURN_IF_ERROR(summary.status());
  DSCKPT_RETURN_IF_ERROR(saved);
  trace.summary = *std::move(summary);
  if (!choice.combine.empty() && trace.summary.read_bytes != 0) {
    console.Note(Format("{} were read, because the files of --combine do not know them",
                        HumanBytes(trace.summary.read_bytes)));
  }
  for (const std::string& file : cache.empty()) {
    console.Note(Format("{}: nothing in it is new", TerminalName(file)));
  }
  return {};
}

std::vector<TrajectoryEvent> EventsOf(const Trace& trace) {
  if (trace.quick) return FindEvents(trace.run, trace.selection);
  std::vector<TrajectoryEvent> events = FindRunEvents(trace.run, trace.selection);
  for (size_t position = 0; position < trace.selection.tensors.size(); ++position) {
    const auto more = FindTensorEvents(trace.run, trace.selection,
                                       trace.selection.tensors[position], trace.measures[position]);
    events.insert(events.end(), more.begin(), more.end());
  }
  SortEvents(events);
  return events;
}

}  // namespace

Result<Trace> MakeTrace(Console& console, const TraceOptions& options) {
  const auto start = Clock::now();
  Trace trace;
  TrajectoryOptions how;
  how.step_from = options.steps.step_from;
  DSCKPT_ASSIGN_OR_RETURN(trace.run, Trajectory::Open(options.operands, how));
  auto& [checkpoints, tensors] = trace.selection;
  DSCKPT_ASSIGN_OR_RETURN(checkpoints, SelectCheckpoints(trace.run, options.steps));
  for (uint32_t i = 0; i < trace.run.tensor_count(); ++i) {
    if (options.names.Takes(trace.run.tensor(i).name)) tensors.push_back(i);
  }
  const TracePart& part = options.reading.part;
  tensors = DivideTensors(trace.run, trace.selection, part.count)[part.index - 1];
  trace.quick = options.reading.quick;
  DSCKPT_ASSIGN_OR_RETURN(trace.against,
                          FindAgainst(trace.run, checkpoints, options.reading.against));
  if (!trace.quick) DSCKPT_RETURN_IF_ERROR(MeasureAll(console, trace, options.reading));
  trace.changed.resize(checkpoints.size());
  for (size_t k = 1; k < checkpoints.size(); ++k) {
    trace.changed[k] = ChangedSince(trace, checkpoints[k - 1], checkpoints[k]);
  }
  trace.events = EventsOf(trace);
  trace.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return trace;
}

}  // namespace dsckpt::tools
