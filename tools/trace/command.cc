// dsckpt trace: what happened in a run, from the indexes of its checkpoints.

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "tools/commands.h"
#include "tools/rows.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

constexpr std::string_view kChanged = "changed";

Status InvalidTrace(std::string message) {
  return Status(StatusCode::kInvalidArgument, "trace: " + std::move(message));
}

/// "nan,inf" is two kinds.
Result<std::vector<std::string>> FailKinds(const std::vector<std::string>& given) {
  std::vector<std::string> kinds;
  for (const std::string& list : given) {
    for (size_t from = 0; from <= list.size();) {
      const size_t end = std::min(list.find(',', from), list.size());
      const std::string kind = list.substr(from, end - from);
      bool known = kind == kChanged;
      for (int i = 0; i <= static_cast<int>(TrajectoryEventKind::kMissingStep); ++i) {
        known = known || kind == TrajectoryEventName(static_cast<TrajectoryEventKind>(i));
      }
      if (!known) {
        return InvalidTrace(Format(
            "--fail-on takes nan, inf, jump, duplicate, frozen, dead, reshaped, retyped, added, "
            "removed, missing_step and changed, not '{}'",
            TerminalName(kind)));
      }
      kinds.push_back(kind);
      from = end + 1;
    }
  }
  return kinds;
}

std::optional<uint64_t> ChangedSince(const Trace& trace, uint32_t before, uint32_t now) {
  uint64_t changed = 0;
  for (const uint32_t i : trace.selection.tensors) {
    const bool was = trace.run.Form(before, i).has_value();
    const bool is = trace.run.Form(now, i).has_value();
    if (!was && !is) continue;
    const auto old = trace.run.Content(before, i), content = trace.run.Content(now, i);
    if ((was && !old) || (is && !content)) return std::nullopt;
    changed += old != content ? 1 : 0;
  }
  return changed;
}

Result<Trace> MakeTrace(const TraceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Trace trace;
  TrajectoryOptions how;
  how.step_from = options.step_from;
  DSCKPT_ASSIGN_OR_RETURN(trace.run, Trajectory::Open(options.operands, how));
  DSCKPT_ASSIGN_OR_RETURN(trace.selection.checkpoints, SelectCheckpoints(trace.run, options));
  for (uint32_t i = 0; i < trace.run.tensor_count(); ++i) {
    if (options.names.Takes(trace.run.tensor(i).name)) trace.selection.tensors.push_back(i);
  }
  const auto& checkpoints = trace.selection.checkpoints;
  trace.changed.resize(checkpoints.size());
  for (size_t k = 1; k < checkpoints.size(); ++k) {
    trace.changed[k] = ChangedSince(trace, checkpoints[k - 1], checkpoints[k]);
  }
  trace.events = FindEvents(trace.run, trace.selection);
  trace.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return trace;
}

bool Found(const Trace& trace, const std::vector<std::string>& kinds) {
  return std::ranges::any_of(kinds, [&](const std::string& kind) {
    if (kind == kChanged) {
      return std::ranges::any_of(trace.changed, [](const auto& n) { return n.value_or(0) != 0; });
    }
    return std::ranges::any_of(trace.events, [&](const TrajectoryEvent& event) {
      return TrajectoryEventName(event.kind) == kind;
    });
  });
}

/// Standard output becomes this file.
Status WriteInto(Console& console, const std::string& path) {
  console.Flush();
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const bool done = file >= 0 && dup2(file, STDOUT_FILENO) >= 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (done) return {};
  return Status(StatusCode::kIoError, "cannot write the result").WithErrno(error).WithPath(path);
}

Result<std::string> FormatOf(const Console& console, const TraceOptions& options) {
  if (console.json() && !options.format.empty()) {
    return InvalidTrace("--json and --format say two things: give one of them");
  }
  if (console.json()) return std::string("json");
  const std::string format = options.format.empty() ? FormatOfName(options.output) : options.format;
  if (format == "arrow") return InvalidTrace("trace writes csv, jsonl and json, and no arrow");
  return format;
}

void Write(Console& console, const Trace& trace, const TraceOptions& options) {
  if (options.format == "json") {
    TraceJson(console, trace);
  } else if (options.format == "table") {
    TraceText(console, trace, options);
  } else {
    TraceRows(console, trace, options);
  }
}

int RunTrace(Console& console, const TraceOptions& given) {
  if (!given.quick) {
    return console.Fail(
        InvalidTrace("this release reads indexes only: give --quick to say that this is meant"));
  }
  TraceOptions options = given;
  const auto format = FormatOf(console, options);
  if (!format.ok()) return console.Fail(format.status());
  options.format = *format;
  const auto kinds = FailKinds(options.fail_on);
  if (!kinds.ok()) return console.Fail(kinds.status());
  const auto trace = MakeTrace(options);
  if (!trace.ok()) return console.Fail(trace.status());
  if (trace->selection.checkpoints.empty() || trace->selection.tensors.empty()) {
    console.Note(trace->selection.checkpoints.empty()
                     ? "--steps, --last and --every leave no checkpoint"
                     : "--filter and --exclude leave no tensor");
    return kExitNo;
  }
  if (!options.quiet) {
    if (!options.output.empty()) {
      if (Status status = WriteInto(console, options.output); !status.ok()) {
        return console.Fail(status);
      }
    }
    Write(console, *trace, options);
  }
  return Found(*trace, *kinds) ? kExitNo : kExitOk;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  dsckpt trace --quick run\n"
    "  dsckpt trace --quick run --filter '*.weight' --steps 1000: -o weights.csv\n"
    "  dsckpt trace --quick run -q --fail-on nan,duplicate\n"
    "  dsckpt trace --quick models/step*.safetensors --json | jq '.events[]'\n"
    "\n"
    "PATH is a run (a directory of checkpoints, whatever wrote them) or a checkpoint;\n"
    "RUN@STEP, RUN@latest and RUN@-2 are checkpoints of a run. They are put in the order\n"
    "of steps; those whose step nobody knows come last. No tensor data is read: digests\n"
    "tell what changed, and files that were saved with statistics tell NaN, infinities,\n"
    "zeros and norms. Plain safetensors record neither.\n"
    "\n"
    "The table lists checkpoints with how many tensors CHANGED since the one before, then\n"
    "events: nan, inf, jump (of the norm), duplicate (a checkpoint that holds what an\n"
    "earlier one holds), frozen (never changes while others do), dead (all zero),\n"
    "reshaped, retyped, added, removed, missing_step; then a command that shows each.\n"
    "Events of tensors whose names differ in numbers alone are one line. csv and jsonl\n"
    "have one row for each tensor and step; JSON (schema dsckpt.trace/1) has steps, rows,\n"
    "events, skipped, read_bytes and seconds. No value is null, or nothing in csv.\n"
    "--steps 0,512,1000: are steps and ranges FROM:BEFORE:STRIDE; then --last, then\n"
    "--every. --step-from attr:KEY, meta:KEY or name:REGEX says where steps stand.\n"
    "Exit code: 0 done; 1 something of --fail-on was found, or nothing was selected; 2\n"
    "could not do it.";

}  // namespace

Command AddTrace(Program& program) {
  auto options = std::make_shared<TraceOptions>();
  CommandLine line = program.AddCommand("trace", "Show what happened in a run");
  line.Add("PATH", options->operands, "Runs, or checkpoints one by one")
      .Required()
      .Placeholder("...");
  line.AddFlag("--quick", options->quick, "Read indexes only; this release does nothing else");
  AddNameFilter(line, options->names, "Only names that match a pattern; repeatable",
                "Not those that match; repeatable");
  line.Add("--steps", options->steps, "Only these steps and ranges; repeatable")
      .Repeatable()
      .Placeholder("LIST");
  line.Add("--last", options->last, "Only the last N checkpoints").FromZero().Placeholder("N");
  line.Add("--every", options->every, "Only each N-th checkpoint").FromZero().Placeholder("N");
  line.Add("--step-from", options->step_from, "What tells the step").Placeholder("RULE");
  AddFormatOption(line, options->format);
  line.Add("-o,--output", options->output, "Write into a file; its suffix tells the format")
      .Placeholder("FILE");
  line.Add("--limit", options->limit, "At most N lines a list; 0: all (on a terminal: 40)")
      .FromZero()
      .Placeholder("N");
  line.Add("--fail-on", options->fail_on, "Exit with 1 when one of these events, or changed, is")
      .Repeatable()
      .Placeholder("KINDS");
  line.AddFlag("-q,--quiet", options->quiet, "Print nothing: the exit code is the answer");
  line.Footer(kFooter);
  return {line, [options](Console& console) { return RunTrace(console, *options); }};
}

}  // namespace dsckpt::tools
