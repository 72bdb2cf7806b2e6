// dsckpt gram: inner products of all checkpoints of a run.

#include "dsckpt/gram.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "merge/number_text.h"
#include "tools/commands.h"
#include "tools/numpy.h"
#include "tools/operand.h"
#include "tools/output_file.h"
#include "tools/row_writer.h"
#include "tools/rows.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

struct GramCommand {
  std::vector<std::string> operands;
  NameFilter names;
  StepChoice choice;
  std::string format, output;
  bool no_verify = false;
  GramOptions gram;
};

/// What was multiplied, and what came out.
struct FoundGram {
  Trajectory run;
  GramReport report;
  double seconds = 0;
};

/// "npy", "csv", "json" or "table". kInvalidArgument.
Result<std::string> FormatOf(const Console& console, const GramCommand& command) {
  const std::string& file = command.output;
  std::string format = command.format;
  if (format.empty() && file.ends_with(".npy")) format = "npy";
  if (format.empty() && !file.empty()) format = FormatOfName(file);
  if (format.empty()) format = console.json() ? "json" : "table";
  if (format == "npy" && file.empty()) {
    return Status(StatusCode::kInvalidArgument, "gram: --format npy needs a file: -o g.npy");
  }
  if (!file.empty() && (format == "table" || format == "jsonl")) {
    return Status(StatusCode::kInvalidArgument,
                  "gram: -o " + file +
                      ": the name ends in none of .npy, .csv and .json: give --format npy, csv or "
                      "json")
        .WithPath(file);
  }
  return format;
}

/// The step, or where nothing tells it, the checkpoint.
std::string LabelOf(const FoundGram& found, size_t i) {
  const uint32_t t = found.report.checkpoints[i];
  const auto step = found.run.step(t);
  return step ? std::to_string(*step) : found.run.operand(t);
}

std::string NumberText(double number, const char* none) {
  return std::isfinite(number) ? merge::DoubleText(number) : none;
}

std::string CsvOf(const FoundGram& found) {
  const size_t count = found.report.checkpoints.size();
  std::string text = "step";
  for (size_t i = 0; i < count; ++i) text += "," + CsvText(LabelOf(found, i));
  text += "\n";
  for (size_t i = 0; i < count; ++i) {
    text += CsvText(LabelOf(found, i));
    for (size_t j = 0; j < count; ++j) text += "," + NumberText(found.report.At(i, j), "");
    text += "\n";
  }
  return text;
}

std::string StepText(std::optional<int64_t> step) { return step ? std::to_string(*step) : "null"; }

/// dsckpt.gram/1.
std::string JsonOf(const FoundGram& found) {
  const GramReport& report = found.report;
  const size_t count = report.checkpoints.size();
  std::string text = "{\n  \"schema\": \"dsckpt.gram/1\",\n  \"checkpoints\": [";
  for (size_t i = 0; i < count; ++i) {
    const uint32_t t = report.checkpoints[i];
    text +=
        Format("{}\n    {{\"checkpoint\": {}, \"step\": {}, \"nonfinite\": {}}}", i == 0 ? "" : ",",
               JsonQuoted(found.run.operand(t)), StepText(found.run.step(t)), report.nonfinite[i]);
  }
  text += "\n  ],\n  \"products\": [";
  for (size_t i = 0; i < count; ++i) {
    text += i == 0 ? "\n    [" : ",\n    [";
    for (size_t j = 0; j < count; ++j) {
      text += (j == 0 ? "" : ", ") + NumberText(report.At(i, j), "null");
    }
    text += "]";
  }
  text += Format("\n  ],\n  \"elements\": {},\n  \"tensors\": [", report.elements);
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    text += (i == 0 ? "" : ", ") + JsonQuoted(found.run.tensor(report.tensors[i]).name);
  }
  text += "],\n  \"skipped\": [";
  for (size_t i = 0; i < report.skipped.size(); ++i) {
    const GramReport::Skipped& each = report.skipped[i];
    text += Format("{}\n    {{\"name\": {}, \"why\": {}}}", i == 0 ? "" : ",",
                   JsonQuoted(found.run.tensor(each.tensor).name), JsonQuoted(each.why));
  }
  text += Format("{}],\n  \"read_bytes\": {},\n  \"seconds\": {}\n}}\n",
                 report.skipped.empty() ? "" : "\n  ", report.read_bytes,
                 merge::DoubleText(found.seconds));
  return text;
}

Status WriteFile(const std::string& path, std::string_view head, std::span<const std::byte> rest) {
  DSCKPT_ASSIGN_OR_RETURN(const auto out, OutputFile::Create(path));
  DSCKPT_RETURN_IF_ERROR(out->Write(std::as_bytes(std::span(head))));
  DSCKPT_RETURN_IF_ERROR(out->Write(rest));
  return out->Publish();
}

Status WriteMatrix(const std::string& path, const GramReport& report) {
  const auto count = static_cast<int64_t>(report.checkpoints.size());
  return WriteFile(path, NumpyHeader("<f8", {count, count}),
                   std::as_bytes(std::span(report.products)));
}

void PrintMatrix(Console& console, const FoundGram& found) {
  const size_t count = found.report.checkpoints.size();
  std::vector<std::string> headings = {"STEP"};
  for (size_t i = 0; i < count; ++i) headings.push_back(TerminalName(LabelOf(found, i)));
  std::vector<Column> columns;
  for (const std::string& heading : headings) {
    columns.push_back({heading.c_str(), Column::Align::kRight});
  }
  PrintTable(console, columns, count, [&](size_t row, std::vector<std::string>& cells) {
    cells = {headings[row + 1]};
    for (size_t j = 0; j < count; ++j) {
      cells.push_back(Format("{:.3e}", found.report.At(row, j)));
    }
  });
}

void PrintSummary(Console& console, const FoundGram& found) {
  const GramReport& report = found.report;
  console.Print("{} of {} in {}; {} read, {}\n", Count(report.elements, "element"),
                Count(report.tensors.size(), "tensor"),
                Count(report.checkpoints.size(), "checkpoint"), HumanBytes(report.read_bytes),
                Rate(report.read_bytes, found.seconds));
}

Status Write(Console& console, const GramCommand& command, const std::string& format,
             const FoundGram& found) {
  const std::string& file = command.output;
  if (format == "npy") DSCKPT_RETURN_IF_ERROR(WriteMatrix(file, found.report));
  if (format == "csv" || format == "json") {
    const std::string text = format == "csv" ? CsvOf(found) : JsonOf(found);
    if (!file.empty()) {
      DSCKPT_RETURN_IF_ERROR(WriteFile(file, text, {}));
    } else {
      console.Write(text);
    }
  }
  if (format == "table") PrintMatrix(console, found);
  if (console.json() && !file.empty()) {
    console.Write(JsonOf(found));
  } else if (!file.empty() || format == "table") {
    if (!file.empty()) console.Print("{}: ", SafeText(file));
    PrintSummary(console, found);
  }
  return {};
}

/// What the products do not show.
void NoteLeftOut(Console& console, const FoundGram& found) {
  uint64_t nonfinite = 0;
  for (const uint64_t each : found.report.nonfinite) nonfinite += each;
  if (nonfinite != 0) {
    console.Note(Format("warning: {} NaN or infinite, and counted as 0",
                        nonfinite == 1 ? "1 element is" : Grouped(nonfinite) + " elements are"));
  }
  const auto& skipped = found.report.skipped;
  if (skipped.empty()) return;
  console.Note(Format("{} left out, {} among them: it {}", Count(skipped.size(), "tensor"),
                      TerminalName(found.run.tensor(skipped[0].tensor).name), skipped[0].why));
}

Result<FoundGram> Multiply(Console& console, const GramCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  FoundGram found;
  TrajectoryOptions how;
  how.step_from = command.choice.step_from;
  DSCKPT_ASSIGN_OR_RETURN(found.run, Trajectory::Open(command.operands, how));
  NoteSkipped(console, found.run);
  TrajectorySelection selection;
  DSCKPT_ASSIGN_OR_RETURN(selection.checkpoints, SelectCheckpoints(found.run, command.choice));
  for (uint32_t i = 0; i < found.run.tensor_count(); ++i) {
    if (command.names.Takes(found.run.tensor(i).name)) selection.tensors.push_back(i);
  }
  ProgressBar bar(console, SafeText(command.operands[0]));
  GramOptions options = command.gram;
  options.reading.verify = !command.no_verify;
  options.reading.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  DSCKPT_ASSIGN_OR_RETURN(found.report, Gram(found.run, selection, options));
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

int RunGram(Console& console, const GramCommand& command) {
  const auto format = FormatOf(console, command);
  if (!format.ok()) return console.Fail(format.status());
  const auto found = Multiply(console, command);
  if (!found.ok()) return console.Fail(found.status());
  NoteLeftOut(console, *found);
  if (found->report.checkpoints.empty() || found->report.tensors.empty()) {
    console.Note(found->report.checkpoints.empty()
                     ? "--steps, --last and --every leave no checkpoint"
                     : "there is no tensor that all checkpoints have alike among those of --filter "
                       "and --exclude");
    return kExitNo;
  }
  const Status written = Write(console, command, *format, *found);
  return written.ok() ? kExitOk : console.Fail(written);
}

constexpr const char* kGramFooter =
    "Examples:\n"
    "  dsckpt gram run -o g.npy\n"
    "  dsckpt gram run --filter '*.mlp.*' --steps 1000: --format csv\n"
    "  dsckpt gram model-a.safetensors model-b.safetensors\n"
    "  python -c 'import numpy; print(numpy.load(\"g.npy\").diagonal() ** 0.5)'\n"
    "\n"
    "Each checkpoint is taken as one long vector of all elements that are chosen. Row i and\n"
    "column j is the sum of the products of checkpoints i and j, in the order of steps:\n"
    "norms, distances, angles and principal components of the run follow from it without\n"
    "the run. Elements are widened to 64-bit floating point; NaN and infinities count as 0,\n"
    "which is said. Tensors that are not the same in dtype and shape in all checkpoints are\n"
    "left out, which is said too. What indexes show to be equal is read once. Products have\n"
    "the same bits on every machine and with any number of threads.\n"
    "-o takes the format from the suffix: .npy is what numpy.load reads, also .csv, .json.\n"
    "--json, schema dsckpt.gram/1: checkpoints, products by row, elements, tensors, skipped,\n"
    "read_bytes and seconds.\n"
    "Exit code: 0 done; 1 nothing was selected, or a file is damaged; 2 could not do it.";

}  // namespace

Command AddGram(Program& program) {
  auto command = std::make_shared<GramCommand>();
  CommandLine line =
      program.AddCommand("gram", "Multiply all checkpoints of a run with each other");
  line.Add("PATH", command->operands, "Runs, or checkpoints one by one")
      .Required()
      .Placeholder("...");
  AddNameFilter(line, command->names, "Only tensors whose names match; repeatable",
                "Not those whose names match; repeatable");
  line.Add("--steps", command->choice.steps, "Only these steps and ranges; repeatable")
      .Repeatable()
      .Placeholder("LIST");
  line.Add("--last", command->choice.last, "Only the last N checkpoints")
      .FromZero()
      .Placeholder("N");
  line.Add("--every", command->choice.every, "Only each N-th checkpoint")
      .FromZero()
      .Placeholder("N");
  line.Add("--step-from", command->choice.step_from, "What tells the step").Placeholder("RULE");
  line.Add("--format", command->format, "table (default), csv, json, or npy with -o")
      .OneOf({"table", "csv", "json", "npy"})
      .Placeholder("NAME");
  line.Add("-o,--output", command->output, "Write into a file; its suffix tells the format")
      .Placeholder("FILE");
  line.Add("--memory", command->gram.memory, "About how much memory to take (default 256MiB)")
      .Size()
      .Placeholder("SIZE");
  line.AddFlag("--no-verify", command->no_verify, "Do not check checksums");
  line.Add("-j,--threads", command->gram.reading.threads,
           "Threads; 0: one for each core, at most 8")
      .Within(0, 256)
      .Placeholder("N");
  line.Footer(kGramFooter);
  return {line, [command](Console& console) { return RunGram(console, *command); }};
}

}  // namespace dsckpt::tools
