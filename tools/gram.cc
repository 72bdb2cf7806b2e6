// dsckpt gram: inner products of all checkpoints of a run.

#include "dsckpt/gram.h"

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "merge/number_text.h"
#include "tools/commands.h"
#include "tools/groups.h"
#include "tools/items.h"
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
  std::string by = "all";
  std::string format, output;
  bool no_verify = false;
  GramOptions gram;
};

/// Tensors that make one vector of each checkpoint.
struct GramGroup {
  std::string name;
  GramReport report;
};

/// What was multiplied, and what came out.
struct FoundGram {
  Trajectory run;
  std::vector<uint32_t> checkpoints;
  std::vector<GramGroup> groups;  ///< By name; without those that have no tensors.
  std::vector<GramReport::Skipped> skipped;
  uint64_t nonfinite = 0, elements = 0, tensors = 0, read_bytes = 0;
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
  const uint32_t t = found.checkpoints[i];
  const auto step = found.run.step(t);
  return step ? std::to_string(*step) : found.run.operand(t);
}

std::string NumberText(double number, const char* none) {
  return std::isfinite(number) ? merge::DoubleText(number) : none;
}

/// `grouped`: the group stands before each row.
std::string CsvOf(const FoundGram& found, bool grouped) {
  const size_t count = found.checkpoints.size();
  std::string text = grouped ? "group,step" : "step";
  for (size_t i = 0; i < count; ++i) text += "," + CsvText(LabelOf(found, i));
  text += "\n";
  for (const GramGroup& group : found.groups) {
    for (size_t i = 0; i < count; ++i) {
      if (grouped) text += CsvText(group.name) + ",";
      text += CsvText(LabelOf(found, i));
      for (size_t j = 0; j < count; ++j) text += "," + NumberText(group.report.At(i, j), "");
      text += "\n";
    }
  }
  return text;
}

std::string StepText(std::optional<int64_t> step) { return step ? std::to_string(*step) : "null"; }

/// An array of what `each` gives for 0 to `count`.
template <typename Each>
std::string JsonArray(size_t count, const char* between, const Each& each) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : between) + each(i);
  return text + "]";
}

std::string JsonOf(const FoundGram& found, const GramGroup& group) {
  const GramReport& report = group.report;
  const size_t count = found.checkpoints.size();
  const auto product = [&](size_t i) {
    return JsonArray(count, ", ", [&](size_t j) { return NumberText(report.At(i, j), "null"); });
  };
  return Format(
      "{{\"group\": {}, \"elements\": {}, \"nonfinite\": {},\n     \"tensors\": {},\n"
      "     \"products\": {}}}",
      JsonQuoted(group.name), report.elements,
      JsonArray(count, ", ", [&](size_t i) { return std::to_string(report.nonfinite[i]); }),
      JsonArray(report.tensors.size(), ", ",
                [&](size_t i) { return JsonQuoted(found.run.tensor(report.tensors[i]).name); }),
      JsonArray(count, ",\n       ", product));
}

/// dsckpt.gram/1.
std::string JsonOf(const FoundGram& found, const std::string& by) {
  const auto checkpoint = [&](size_t i) {
    const uint32_t t = found.checkpoints[i];
    return Format("{{\"checkpoint\": {}, \"step\": {}}}", JsonQuoted(found.run.operand(t)),
                  StepText(found.run.step(t)));
  };
  const auto group = [&](size_t i) { return JsonOf(found, found.groups[i]); };
  const auto skipped = [&](size_t i) {
    const GramReport::Skipped& each = found.skipped[i];
    return Format("{{\"name\": {}, \"why\": {}}}", JsonQuoted(found.run.tensor(each.tensor).name),
                  JsonQuoted(each.why));
  };
  return Format(
      "{{\n  \"schema\": \"dsckpt.gram/1\",\n  \"by\": {},\n  \"checkpoints\": {},\n"
      "  \"groups\": {},\n  \"skipped\": {},\n  \"read_bytes\": {},\n  \"seconds\": {}\n}}\n",
      JsonQuoted(by), JsonArray(found.checkpoints.size(), ",\n    ", checkpoint),
      JsonArray(found.groups.size(), ",\n    ", group),
      JsonArray(found.skipped.size(), ",\n    ", skipped), found.read_bytes,
      merge::DoubleText(found.seconds));
}

Status WriteFile(const std::string& path, std::string_view head, std::span<const std::byte> rest) {
  DSCKPT_ASSIGN_OR_RETURN(const auto out, OutputFile::Create(path));
  DSCKPT_RETURN_IF_ERROR(out->Write(std::as_bytes(std::span(head))));
  DSCKPT_RETURN_IF_ERROR(out->Write(rest));
  return out->Publish();
}

/// A matrix, or with groups one for each.
Status WriteMatrices(const std::string& path, const FoundGram& found, bool grouped) {
  const auto count = static_cast<int64_t>(found.checkpoints.size());
  std::vector<int64_t> shape = {count, count};
  if (grouped) shape.insert(shape.begin(), static_cast<int64_t>(found.groups.size()));
  std::vector<double> products;
  for (const GramGroup& group : found.groups) {
    products.insert(products.end(), group.report.products.begin(), group.report.products.end());
  }
  return WriteFile(path, NumpyHeader("<f8", shape), std::as_bytes(std::span(products)));
}

void PrintMatrix(Console& console, const FoundGram& found, const GramReport& report) {
  const size_t count = found.checkpoints.size();
  std::vector<std::string> headings = {"STEP"};
  for (size_t i = 0; i < count; ++i) headings.push_back(TerminalName(LabelOf(found, i)));
  std::vector<Column> columns;
  for (const std::string& heading : headings) {
    columns.push_back({heading.c_str(), Column::Align::kRight});
  }
  PrintTable(console, columns, count, [&](size_t row, std::vector<std::string>& cells) {
    cells = {headings[row + 1]};
    for (size_t j = 0; j < count; ++j) cells.push_back(Format("{:.3e}", report.At(row, j)));
  });
}

void PrintMatrices(Console& console, const FoundGram& found, bool grouped) {
  for (const GramGroup& group : found.groups) {
    if (grouped) console.Print("{}\n", console.Styled(Style::kBold, TerminalName(group.name)));
    PrintMatrix(console, found, group.report);
    if (grouped) console.Write("\n");
  }
}

void PrintSummary(Console& console, const FoundGram& found) {
  console.Print("{} of {} in {}; {} read, {}\n", Count(found.elements, "element"),
                Count(found.tensors, "tensor"), Count(found.checkpoints.size(), "checkpoint"),
                HumanBytes(found.read_bytes), Rate(found.read_bytes, found.seconds));
}

Status Write(Console& console, const GramCommand& command, const std::string& format,
             const FoundGram& found) {
  const std::string& file = command.output;
  const bool grouped = command.by != "all";
  if (format == "npy") DSCKPT_RETURN_IF_ERROR(WriteMatrices(file, found, grouped));
  if (format == "csv" || format == "json") {
    const std::string text = format == "csv" ? CsvOf(found, grouped) : JsonOf(found, command.by);
    if (!file.empty()) {
      DSCKPT_RETURN_IF_ERROR(WriteFile(file, text, {}));
    } else {
      console.Write(text);
    }
  }
  if (format == "table") PrintMatrices(console, found, grouped);
  if (console.json() && !file.empty()) {
    console.Write(JsonOf(found, command.by));
  } else if (!file.empty() || format == "table") {
    if (!file.empty()) console.Print("{}: ", SafeText(file));
    PrintSummary(console, found);
  }
  return {};
}

/// What the products do not show.
void NoteLeftOut(Console& console, const FoundGram& found) {
  if (found.nonfinite != 0) {
    console.Note(
        Format("warning: {} NaN or infinite, and counted as 0",
               found.nonfinite == 1 ? "1 element is" : Grouped(found.nonfinite) + " elements are"));
  }
  if (found.skipped.empty()) return;
  console.Note(Format("{} left out, {} among them: it {}", Count(found.skipped.size(), "tensor"),
                      TerminalName(found.run.tensor(found.skipped[0].tensor).name),
                      found.skipped[0].why));
}

/// The chosen tensors, in groups by name.
std::map<std::string, std::vector<uint32_t>> GroupTensors(const Trajectory& run,
                                                          const GramCommand& command) {
  std::map<std::string, std::vector<uint32_t>> groups;
  for (uint32_t i = 0; i < run.tensor_count(); ++i) {
    const TrajectoryTensor tensor = run.tensor(i);
    if (!command.names.Takes(tensor.name)) continue;
    groups[GroupOf(command.by, tensor.name, DTypeText(tensor.dtype))].push_back(i);
  }
  return groups;
}

void Add(FoundGram& found, const std::string& name, GramReport report) {
  for (const uint64_t each : report.nonfinite) found.nonfinite += each;
  found.elements += report.elements;
  found.tensors += report.tensors.size();
  found.read_bytes += report.read_bytes;
  found.skipped.insert(found.skipped.end(), report.skipped.begin(), report.skipped.end());
  if (!report.tensors.empty()) found.groups.push_back({name, std::move(report)});
}

Result<FoundGram> Multiply(Console& console, const GramCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  FoundGram found;
  TrajectoryOptions how;
  how.step_from = command.choice.step_from;
  DSCKPT_ASSIGN_OR_RETURN(found.run, Trajectory::Open(command.operands, how));
  NoteSkipped(console, found.run);
  DSCKPT_ASSIGN_OR_RETURN(found.checkpoints, SelectCheckpoints(found.run, command.choice));
  ProgressBar bar(console, SafeText(command.operands[0]));
  GramOptions options = command.gram;
  options.reading.verify = !command.no_verify;
  options.reading.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  for (const auto& [name, tensors] : GroupTensors(found.run, command)) {
    DSCKPT_ASSIGN_OR_RETURN(GramReport report,
                            Gram(found.run, {found.checkpoints, tensors}, options));
    Add(found, name, std::move(report));
  }
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

int RunGram(Console& console, const GramCommand& command) {
  const auto format = FormatOf(console, command);
  if (!format.ok()) return console.Fail(format.status());
  const auto found = Multiply(console, command);
  if (!found.ok()) return console.Fail(found.status());
  NoteLeftOut(console, *found);
  if (found->checkpoints.empty() || found->groups.empty()) {
    console.Note(found->checkpoints.empty()
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
    "--by makes one matrix for the tensors of each group, in the order of names; groups are\n"
    "those of dsckpt stats. The .npy file then has a dimension more, before the others.\n"
    "--json, schema dsckpt.gram/1: by, checkpoints, groups with elements, nonfinite, tensors\n"
    "and products by row; skipped, read_bytes and seconds.\n"
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
  line.Add("--by", command->by, "all (default), tensor, pattern, layer, module or dtype")
      .OneOf({"all", "tensor", "pattern", "layer", "module", "dtype"})
      .Placeholder("WHAT");
  AddStepOptions(line, command->choice);
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
