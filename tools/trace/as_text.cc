// trace for people: the checkpoints, what happened in them, and what was read for it.

#include <algorithm>
#include <string>
#include <vector>

#include "tools/groups.h"
#include "tools/items.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

constexpr uint64_t kTerminalRows = 40;

std::string StepText(std::optional<int64_t> step) {
  return step ? std::to_string(*step) : "unknown";
}

/// Four significant digits.
std::string Short(std::optional<double> number) {
  if (!number) return {};
  const auto whole = static_cast<int64_t>(*number);
  if (static_cast<double>(whole) == *number && *number < 1e9) return std::to_string(whole);
  return Format("{:.3e}", *number);
}

/// How many tensors of a checkpoint are in the selection, and what is known of their elements.
struct Counts {
  uint64_t tensors = 0, bytes = 0, nan = 0, inf = 0, known = 0;
  std::optional<TensorUpdate> update;
};

Counts CountsOf(const Trace& trace, uint32_t t) {
  Counts counts;
  for (size_t position = 0; position < trace.selection.tensors.size(); ++position) {
    const uint32_t i = trace.selection.tensors[position];
    const auto form = trace.run.Form(t, i);
    if (!form) continue;
    ++counts.tensors;
    counts.bytes += form->bytes;
    if (const TensorMeasure* const measure = trace.MeasureOf(position, t)) {
      ++counts.known;
      counts.nan += measure->moments.nan;
      counts.inf += measure->moments.inf;
      if (!measure->update) continue;
      counts.update = counts.update ? counts.update->With(*measure->update) : *measure->update;
    } else if (const auto statistics = trace.run.Statistics(t, i)) {
      ++counts.known;
      counts.nan += statistics->nan;
      counts.inf += statistics->inf;
    }
  }
  return counts;
}

void PrintSteps(Console& console, const Trace& trace, uint64_t limit) {
  using Align = Column::Align;
  const std::vector<uint32_t>& checkpoints = trace.selection.checkpoints;
  const size_t shown = limit == 0 ? checkpoints.size() : std::min(limit, checkpoints.size());
  // The newest ones.
  const size_t from = checkpoints.size() - shown;
  PrintTable(console,
             {{"STEP", Align::kRight},
              {"CHECKPOINT", Align::kLeft, true},
              {"TENSORS", Align::kRight},
              {"BYTES", Align::kRight},
              {"CHANGED", Align::kRight},
              {"UPDATE", Align::kRight},
              {"NAN", Align::kRight},
              {"INF", Align::kRight},
              {"DIGEST"}},
             shown, [&](size_t row, std::vector<std::string>& cells) {
               const uint32_t t = checkpoints[from + row];
               const Counts counts = CountsOf(trace, t);
               const auto digest = trace.run.TreeDigest(t);
               const auto& changed = trace.changed[from + row];
               cells = {StepText(trace.run.step(t)),
                        TerminalName(trace.run.path(t)),
                        Grouped(counts.tensors),
                        HumanBytes(counts.bytes),
                        changed ? Grouped(*changed) : "",
                        counts.update ? Short(counts.update->Ratio()) : "",
                        counts.known != 0 ? Grouped(counts.nan) : "",
                        counts.known != 0 ? Grouped(counts.inf) : "",
                        digest ? HexDigest(*digest).substr(0, 12) : ""};
             });
  PrintMore(console, from);
}

/// Events of one kind at one place whose names differ in numbers only.
struct EventGroup {
  const TrajectoryEvent* first;
  std::string pattern;
  uint64_t count = 0;
};

std::vector<EventGroup> GroupEvents(const Trace& trace) {
  std::vector<EventGroup> groups;
  size_t of_kind = 0;  // Where the groups of this kind and checkpoint begin.
  for (const TrajectoryEvent& event : trace.events) {
    const bool same = !groups.empty() && groups.back().first->kind == event.kind &&
                      groups.back().first->checkpoint == event.checkpoint;
    if (!same) of_kind = groups.size();
    const std::string pattern =
        event.tensor ? NamePattern(trace.run.tensor(*event.tensor).name) : "";
    const auto known = std::find_if(
        groups.begin() + static_cast<std::ptrdiff_t>(of_kind), groups.end(),
        [&](const EventGroup& group) { return event.tensor && group.pattern == pattern; });
    if (known != groups.end()) {
      ++known->count;
    } else {
      groups.push_back({&event, pattern, 1});
    }
  }
  return groups;
}

std::string About(const Trace& trace, const EventGroup& group) {
  const TrajectoryEvent& event = *group.first;
  if (event.kind == TrajectoryEventKind::kDuplicate) {
    return "the same as step " + StepText(trace.run.step(*event.other));
  }
  if (event.kind == TrajectoryEventKind::kMissingStep) {
    return Count(static_cast<uint64_t>(event.value.value_or(1)), "step") + " missing";
  }
  if (group.count > 1) return TerminalName(group.pattern);
  return event.tensor ? TerminalName(trace.run.tensor(*event.tensor).name) : "";
}

void PrintEvents(Console& console, const Trace& trace, uint64_t limit) {
  using Align = Column::Align;
  if (trace.events.empty()) {
    console.Write("\nNothing was found.\n");
    return;
  }
  const std::vector<EventGroup> groups = GroupEvents(trace);
  const size_t shown = limit == 0 ? groups.size() : std::min(limit, groups.size());
  console.Write("\n");
  PrintTable(console,
             {{"STEP", Align::kRight},
              {"EVENT"},
              {"WHERE", Align::kLeft, true},
              {"TENSORS", Align::kRight},
              {"VALUE", Align::kRight}},
             shown, [&](size_t row, std::vector<std::string>& cells) {
               const EventGroup& group = groups[row];
               const bool one = group.count == 1;
               cells = {StepText(group.first->step),
                        std::string(TrajectoryEventName(group.first->kind)), About(trace, group),
                        one ? "" : Grouped(group.count),
                        one && group.first->tensor ? Short(group.first->value) : ""};
             });
  PrintMore(console, groups.size() - shown);
  if (const std::string nan = FirstNan(trace); !nan.empty()) console.Print("\n{}\n", nan);
  // On lines of their own, which no terminal cuts: they are there to be copied.
  console.Write("\nShown by:\n");
  for (size_t row = 0; row < shown; ++row) {
    console.Print("  {}\n", SafeText(CommandFor(trace, *groups[row].first)));
  }
}

/// What could not be told, and why.
void PrintUnknown(Console& console, const Trace& trace) {
  if (!trace.quick) {
    const uint64_t skipped = trace.summary.skipped.size();
    if (skipped == 0) return;
    console.Print("{}, {}, not looked into: dtypes that are packed or unknown.\n",
                  Count(skipped, "tensor"), HumanBytes(trace.summary.skipped_bytes));
    return;
  }
  uint64_t cells = 0, digests = 0, statistics = 0;
  for (const uint32_t t : trace.selection.checkpoints) {
    for (const uint32_t i : trace.selection.tensors) {
      if (!trace.run.Form(t, i)) continue;
      ++cells;
      digests += trace.run.Content(t, i) ? 1 : 0;
      statistics += trace.run.Statistics(t, i) ? 1 : 0;
    }
  }
  if (digests < cells) {
    console.Print(
        "Content is not known of {} of {}: their files record no digests, or store them in one "
        "piece with others.\n",
        Grouped(cells - digests), Count(cells, "tensor"));
  }
  if (statistics < cells) {
    console.Print(
        "NaN, infinities, zeros and norms are not known of {} of {}: they were saved without "
        "statistics. Without --quick they are read.\n",
        Grouped(cells - statistics), Count(cells, "tensor"));
  }
}

}  // namespace

uint64_t TraceLimit(const Console& console, const RowOptions& options) {
  const bool list = console.out_is_terminal() && options.format == "table";
  return options.limit.value_or(list ? kTerminalRows : 0);
}

void TraceText(Console& console, const Trace& trace, uint64_t limit) {
  PrintSteps(console, trace, limit);
  PrintEvents(console, trace, limit);
  console.Write("\n");
  PrintUnknown(console, trace);
  for (const auto& [path, why] : trace.run.skipped()) {
    console.Print("{}: not counted: {}\n", TerminalName(path), SafeText(why));
  }
  const std::string data = trace.quick ? std::string("no tensor data")
                                       : HumanBytes(trace.summary.read_bytes) + " of tensors";
  console.Print("{} of {}, {} of indexes read, {}.\n",
                Count(trace.selection.checkpoints.size(), "checkpoint"),
                Count(trace.selection.tensors.size(), "tensor name"),
                HumanBytes(trace.run.index_bytes()), data);
}

}  // namespace dsckpt::tools
