// dsckpt trace: what happened in a run, from the indexes of its checkpoints and from elements.

#include <algorithm>
#include <memory>

#include "tools/commands.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/table.h"
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
            "removed, coarse, missing_step and changed, not '{}'",
            TerminalName(kind)));
      }
      kinds.push_back(kind);
      from = end + 1;
    }
  }
  return kinds;
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

Result<std::string> FormatOf(const Console& console, const RowOptions& options) {
  if (console.json() && !options.format.empty()) {
    return InvalidTrace("--json and --format say two things: give one of them");
  }
  if (console.json()) return std::string("json");
  const std::string format = options.format.empty() ? FormatOfName(options.file) : options.format;
  if (format == "table" && !options.file.empty()) {
    return InvalidTrace("-o " + options.file +
                        ": a table goes to standard output only: give --format, or a name that "
                        "ends in .csv, .jsonl, .json or .arrow");
  }
  return format;
}

/// What is wrong with the options, before anything is read.
Status Check(const Console& console, TraceOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(options.rows.format, FormatOf(console, options.rows));
  DSCKPT_ASSIGN_OR_RETURN(options.fail_on, FailKinds(options.fail_on));
  const bool coarse = std::ranges::find(options.fail_on, "coarse") != options.fail_on.end();
  if (options.reading.quick && coarse) {
    return InvalidTrace("--fail-on coarse needs elements: leave out --quick");
  }
  return EmptyTraceRows().Arrange(options.rows);
}

/// Rows that are not sorted need not be kept.
Status PassRows(Console& console, const Trace& trace, const std::string& by, const RowOptions& how,
                const std::string& head, const std::string& tail) {
  Rows columns = EmptyTraceRows();
  DSCKPT_RETURN_IF_ERROR(columns.Arrange(how));
  DSCKPT_ASSIGN_OR_RETURN(const auto writer, columns.Writer(console, how, head, tail));
  uint64_t written = 0;
  Status status;
  ForEachTraceRow(trace, by, [&](const std::vector<Cell>& row) {
    if (written++ == how.limit.value_or(UINT64_MAX)) return false;
    status = writer->Add(columns.Written(row));
    return status.ok() && console.writable();
  });
  DSCKPT_RETURN_IF_ERROR(status);
  return writer->Finish();
}

/// The rows as a document or a table.
Status WriteRows(Console& console, const Trace& trace, const TraceOptions& options) {
  RowOptions how = options.rows;
  const uint64_t limit = TraceLimit(console, how);
  how.limit = limit == 0 ? std::nullopt : std::optional(limit);
  const std::string by = options.by.empty() ? "tensor" : options.by;
  const bool json = how.format == "json", table = how.format == "table";
  const std::string head = json ? TraceJsonHead(trace, by) : "";
  const std::string tail = json ? TraceJsonTail(trace) : "";
  if (how.sort.empty() && !table) return PassRows(console, trace, by, how, head, tail);
  Rows rows = EmptyTraceRows();
  ForEachTraceRow(trace, by, [&](std::vector<Cell> row) {
    rows.Add(std::move(row));
    return true;
  });
  const size_t all = rows.size();
  DSCKPT_RETURN_IF_ERROR(rows.Arrange(how));
  DSCKPT_RETURN_IF_ERROR(rows.Write(console, how, head, tail));
  if (table) PrintMore(console, all - rows.size());
  return {};
}

Status WriteTrace(Console& console, const Trace& trace, const TraceOptions& options) {
  if (options.quiet && options.rows.file.empty()) return {};
  if (options.rows.format != "table") return WriteRows(console, trace, options);
  TraceText(console, trace, TraceLimit(console, options.rows));
  if (options.by.empty()) return {};
  console.Write("\n");
  return WriteRows(console, trace, options);
}

int RunTrace(Console& console, const TraceOptions& given) {
  TraceOptions options = given;
  if (Status status = Check(console, options); !status.ok()) return console.Fail(status);
  const auto trace = MakeTrace(console, options);
  if (!trace.ok()) return console.Fail(trace.status());
  const bool none =
      trace->selection.tensors.empty() && options.names.any() && options.reading.part.count == 1;
  if (trace->selection.checkpoints.empty() || none) {
    console.Note(none ? "--filter and --exclude leave no tensor"
                      : "--steps, --last and --every leave no checkpoint");
    return kExitNo;
  }
  if (Status status = WriteTrace(console, *trace, options); !status.ok()) {
    return console.Fail(status);
  }
  return Found(*trace, options.fail_on) ? kExitNo : kExitOk;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  dsckpt trace --quick run\n"
    "  dsckpt trace run --cache run.measures --by layer\n"
    "  dsckpt trace run --filter '*.weight' --steps 1000: -o weights.csv\n"
    "  dsckpt trace --quick run -q --fail-on nan,duplicate\n"
    "  dsckpt trace models/step*.safetensors --json | jq '.events[]'\n"
    "  dsckpt trace run --part 3/64 --cache part3.measures -q\n"
    "  dsckpt trace run -o run.csv --combine part*.measures\n"
    "\n"
    "PATH is a run (a directory of checkpoints, whatever wrote them) or a checkpoint;\n"
    "RUN@STEP, RUN@latest and RUN@-2 are checkpoints of a run. They are put in the order\n"
    "of steps; those whose step nobody knows come last. Each tensor is read once in each\n"
    "checkpoint, but not where its digest is that of the one before. With --quick no tensor\n"
    "data is read: digests tell what changed, and files that were saved with statistics\n"
    "tell NaN, infinities, zeros and norms. Plain safetensors record neither.\n"
    "\n"
    "The table lists checkpoints with how many tensors CHANGED since the one before and how\n"
    "large the UPDATE is against what was there, then events: nan, inf, jump (of the update\n"
    "by step; with --quick of the norm), duplicate (a checkpoint that holds what an earlier\n"
    "one holds), frozen (never changes while others do), dead (all zero), reshaped, retyped,\n"
    "added, removed, coarse (updates below what the dtype can tell apart), missing_step;\n"
    "then a command that shows each. Events of tensors whose names differ in numbers alone\n"
    "are one line. With --by the rows follow.\n"
    "csv, jsonl and json have one row for each tensor, or group of --by, and step. Columns:\n"
    "upd_norm, upd_rms, upd_ratio (by the norm before) and upd_per_step are those of the\n"
    "update since prev_step; cos_prev is the cosine of the angle between it and the update\n"
    "before it, angle_prev 1 - cos of the angle between the tensor and what it was, and\n"
    "dist_init how far it is from the first checkpoint; changed is the share of elements\n"
    "with other bits. flags adds 1 (coarse), 2 (jump), 4 (the content of prev_step) and 8\n"
    "(another dtype or shape). No value is null, or nothing in csv. Groups are as if their\n"
    "tensors were one. Numbers have the same bits on every machine, with any number of\n"
    "threads or parts.\n"
    "\n"
    "--cache FILE keeps what was measured by the content of tensors: the next time only\n"
    "what is new is read. Processes that share a run take --part I/N with a cache each;\n"
    "--combine reads their caches, and needs no tensors then. It stands behind PATH.\n"
    "JSON (schema dsckpt.trace/1) has steps, rows, events, skipped, left_out, read_bytes\n"
    "(of tensors), index_bytes and seconds.\n"
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
  AddNameFilter(line, options->names, "Only names that match a pattern; repeatable",
                "Not those that match; repeatable");
  AddStepOptions(line, options->steps);
  AddReadingOptions(line, options->reading, true);
  line.Add("--by", options->by, "tensor, pattern, layer, module, dtype or all")
      .OneOf({"tensor", "pattern", "layer", "module", "dtype", "all"})
      .Placeholder("WHAT");
  AddRowOptions(line, options->rows);
  line.Add("--fail-on", options->fail_on, "Exit with 1 when one of these events, or changed, is")
      .Repeatable()
      .Placeholder("KINDS");
  line.AddFlag("-q,--quiet", options->quiet, "Print nothing: the exit code is the answer");
  line.Footer(kFooter);
  return {line, [options](Console& console) { return RunTrace(console, *options); }};
}

}  // namespace dsckpt::tools
