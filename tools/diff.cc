// dsckpt diff: what two checkpoints have in common, and how far apart the rest is.

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/analysis.h"
#include "merge/select/rename.h"
#include "tools/commands.h"
#include "tools/diff_elements.h"
#include "tools/diff_groups.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/rows.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

constexpr std::array kStates = {DiffState::kEqual,   DiffState::kClose,   DiffState::kChanged,
                                DiffState::kAdded,   DiffState::kRemoved, DiffState::kReshaped,
                                DiffState::kRetyped, DiffState::kMoved};

/// How names are changed before they are compared.
struct NameRules {
  std::string strip, strip_a, strip_b;
  std::vector<std::string> maps;
  std::vector<merge::Rename> parsed_maps;
};

struct DiffCommand {
  std::string a, b;
  NameFilter names;
  NameRules rules;
  std::string relative, absolute, nan = "equal", by = "tensor";
  std::optional<uint64_t> ulp;
  std::vector<std::string> fail_on;
  RowOptions rows;
  int threads = 0;
  uint32_t show = 0;
  bool summary = false, all = false, quiet = false, whole = false, no_verify = false;

  bool tolerant() const { return !relative.empty() || !absolute.empty(); }
};

Result<std::optional<double>> ParseTolerance(const char* option, const std::string& text) {
  if (text.empty()) return std::optional<double>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) {
    return std::optional(value);
  }
  return Status(StatusCode::kInvalidArgument,
                std::string(option) + " takes a number from 0, as 1e-5, not '" + text + "'");
}

std::string WithoutPrefix(std::string name, const std::string& prefix) {
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// The name of a tensor as it is compared; nothing for one that is left out.
auto Renamer(const DiffCommand& command, const std::string& strip, bool maps) {
  return [&command, strip, maps](std::string_view own) -> Result<std::optional<std::string>> {
    std::string name = WithoutPrefix(WithoutPrefix(std::string(own), command.rules.strip), strip);
    for (const merge::Rename& rename : command.rules.parsed_maps) {
      if (!maps) break;
      DSCKPT_ASSIGN_OR_RETURN(name, rename.Apply(name));
    }
    if (!command.names.Takes(name)) return std::optional<std::string>();
    return std::optional(std::move(name));
  };
}

Result<DiffOptions> ToDiffOptions(DiffCommand& command) {
  DiffOptions options;
  DSCKPT_ASSIGN_OR_RETURN(options.relative_tolerance, ParseTolerance("--rtol", command.relative));
  DSCKPT_ASSIGN_OR_RETURN(options.absolute_tolerance, ParseTolerance("--atol", command.absolute));
  for (const std::string& map : command.rules.maps) {
    DSCKPT_ASSIGN_OR_RETURN(merge::Rename rename, merge::Rename::Parse(map));
    command.rules.parsed_maps.push_back(std::move(rename));
  }
  options.ulp = command.ulp;
  options.nan_equal = command.nan == "equal";
  options.whole = command.whole;
  options.show = command.show;
  options.reading.threads = command.threads;
  options.reading.verify = !command.no_verify;
  options.name_a = Renamer(command, command.rules.strip_a, true);
  options.name_b = Renamer(command, command.rules.strip_b, false);
  return options;
}

/// "bitwise", or "rtol 1e-05 atol 0"; what else counts as equal behind it.
std::string Criterion(const DiffOptions& options) {
  std::string text;
  if (options.relative_tolerance || options.absolute_tolerance) {
    text = Format("rtol {:g} atol {:g}", options.relative_tolerance.value_or(0),
                  options.absolute_tolerance.value_or(0));
  }
  if (options.ulp) text += Format("{}ulp {}", text.empty() ? "" : " or ", *options.ulp);
  if (text.empty()) text = "bitwise";
  return options.nan_equal ? text : text + ", NaN of other bits differ";
}

Rows ToRows(const Checkpoint& a, const Checkpoint& b, const DiffReport& report,
            const DiffCommand& command) {
  using enum CellType;
  Rows rows(
      {{"state", kText},     {"name", kText},        {"name_a", kText},     {"name_b", kText},
       {"dtype_a", kText},   {"dtype_b", kText},     {"shape_a", kShape},   {"shape_b", kShape},
       {"n", kUint64},       {"changed", kUint64},   {"changed%", kDouble}, {"beyond", kUint64},
       {"max_abs", kDouble}, {"max_index", kUint64}, {"max_rel", kDouble},  {"diff_norm", kDouble},
       {"ratio", kDouble},   {"angle", kDouble},     {"ulp_max", kUint64},  {"nan_a", kUint64},
       {"nan_b", kUint64},   {"compared", kUint64}},
      {"state", "name", "max_abs", "max_rel", "diff_norm", "ratio", "angle", "changed%", "ulp_max",
       "nan_a", "nan_b"});
  using Info = std::optional<LogicalTensorInfo>;
  const auto text = [](const std::string& name) { return name.empty() ? Cell() : Cell(name); };
  const auto dtype = [](const Info& info) { return info ? Cell(DTypeText(info->dtype)) : Cell(); };
  const auto shape = [](const Info& info) {
    return info ? Cell(std::vector<int64_t>(info->shape.begin(), info->shape.end())) : Cell();
  };
  for (const TensorDiff& diff : report.tensors) {
    if (diff.state == DiffState::kEqual && !command.all) continue;
    const Info in_a = diff.name_a.empty() ? Info() : a.tensor(diff.tensor_a);
    const Info in_b = diff.name_b.empty() ? Info() : b.tensor(diff.tensor_b);
    std::string name = diff.name_b.empty() ? diff.name_a : diff.name_b;
    if (diff.state == DiffState::kMoved) name = diff.name_a + " -> " + diff.name_b;
    std::vector<Cell> row = {std::string(DiffStateName(diff.state)),
                             std::move(name),
                             text(diff.name_a),
                             text(diff.name_b),
                             dtype(in_a),
                             dtype(in_b),
                             shape(in_a),
                             shape(in_b)};
    row.resize(22);
    if (const auto& found = diff.difference) {
      const double share = found->count == 0 ? 0
                                             : 100 * static_cast<double>(found->changed) /
                                                   static_cast<double>(found->count);
      const auto if_any = [&](double value) { return found->finite == 0 ? Cell() : Cell(value); };
      row[8] = found->count;
      row[9] = found->changed;
      row[10] = share;
      if (command.tolerant()) row[11] = found->beyond;
      row[12] = if_any(found->max_abs);
      if (found->max_abs > 0) row[13] = found->max_index;
      row[14] = if_any(found->max_rel);
      row[15] = if_any(found->Norm());
      row[16] = MaybeCell(found->Ratio());
      row[17] = MaybeCell(found->Angle());
      if (found->max_ulp) row[18] = *found->max_ulp;
      if (found->whole()) row[19] = found->nan_a;
      if (found->whole()) row[20] = found->nan_b;
      row[21] = found->compared;
    }
    rows.Add(std::move(row));
  }
  return rows;
}

/// Of the tensors in `rows`, in their order.
std::vector<ShownElements> ElementsOf(const Rows& rows, const Checkpoint& b,
                                      const DiffReport& report) {
  std::map<std::string_view, const TensorDiff*> by_name;
  for (const TensorDiff& diff : report.tensors) {
    if (!diff.elements.empty()) by_name[diff.name_b] = &diff;
  }
  std::vector<ShownElements> shown;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto* name_b = std::get_if<std::string>(&rows.row(i)[3]);
    const auto found = by_name.find(name_b != nullptr ? *name_b : std::string());
    if (found == by_name.end()) continue;
    const auto shape = b.tensor(found->second->tensor_b).shape;
    shown.push_back({*name_b, {shape.begin(), shape.end()}, found->second->elements});
  }
  return shown;
}

uint64_t CountOf(const DiffReport& report, DiffState state) {
  return static_cast<uint64_t>(
      std::count_if(report.tensors.begin(), report.tensors.end(),
                    [state](const TensorDiff& diff) { return diff.state == state; }));
}

/// "3 equal, 1 changed": states without a tensor are left out.
std::string CountsText(const DiffReport& report) {
  std::string text;
  for (const DiffState state : kStates) {
    const uint64_t count = CountOf(report, state);
    if (count == 0) continue;
    text += Format("{}{} {}", text.empty() ? "" : ", ", Grouped(count), DiffStateName(state));
  }
  return text.empty() ? "no tensors" : text;
}

std::string CountsJson(const DiffReport& report) {
  std::string text = "{";
  for (const DiffState state : kStates) {
    text += Format("{}\"{}\": {}", text.size() > 1 ? ", " : "", DiffStateName(state),
                   CountOf(report, state));
  }
  return text + "}";
}

int ExitCode(const DiffCommand& command, const DiffReport& report) {
  for (const TensorDiff& diff : report.tensors) {
    const bool differs = diff.state != DiffState::kEqual && diff.state != DiffState::kClose;
    const std::string state(DiffStateName(diff.state));
    const bool named =
        std::find(command.fail_on.begin(), command.fail_on.end(), state) != command.fail_on.end();
    if (command.fail_on.empty() ? differs : named) return kExitNo;
  }
  return kExitOk;
}

/// What cannot be compared is no element of a count, and so is said.
void NoteOpaque(Console& console, const DiffReport& report) {
  for (const TensorDiff& diff : report.tensors) {
    if (diff.state != DiffState::kChanged && diff.state != DiffState::kRetyped) continue;
    if (diff.difference) continue;
    console.Note(TerminalName(diff.name_a) +
                 " and others have dtypes whose elements are not compared as numbers");
    return;
  }
}

Status Print(Console& console, const DiffCommand& command, const Checkpoint& a, const Checkpoint& b,
             const DiffOptions& options, const DiffReport& report) {
  if (command.quiet) return {};
  const bool grouped = command.by != "tensor";
  Rows rows = grouped ? GroupDiffs(a, b, report, command.by, command.all, command.tolerant())
                      : ToRows(a, b, report, command);
  DSCKPT_RETURN_IF_ERROR(rows.Arrange(command.rows));
  const std::string head = Format(
      "\"schema\": \"dsckpt.diff/1\",\n  \"by\": \"{}\",\n  \"a\": {},\n  \"b\": {},\n  "
      "\"criterion\": {},\n"
      "  \"counts\": {}",
      command.by, JsonQuoted(command.a), JsonQuoted(command.b), JsonQuoted(Criterion(options)),
      CountsJson(report));
  const auto elements = grouped ? std::vector<ShownElements>() : ElementsOf(rows, b, report);
  std::string tail = Format("\"read_bytes\": {}", report.read_bytes);
  if (command.show > 0) tail = ElementsJson(elements) + ",\n  " + tail;
  const bool table = Rows::IsTable(console, command.rows);
  if (!table || !command.summary) {
    DSCKPT_RETURN_IF_ERROR(rows.Write(console, command.rows, head, tail));
  }
  if (table && !command.summary) PrintElements(console, elements);
  if (table) {
    console.Print("{}; {} read\ncriterion: {}\n", CountsText(report), HumanBytes(report.read_bytes),
                  Criterion(options));
  }
  return {};
}

int RunDiff(Console& console, DiffCommand& command) {
  auto options = ToDiffOptions(command);
  if (!options.ok()) return console.Fail(options.status());
  const auto a = OpenInputs(console, {command.a}, true);
  if (!a.ok()) return console.Fail(a.status());
  const auto b = OpenInputs(console, {command.b}, true);
  if (!b.ok()) return console.Fail(b.status());
  std::optional<ProgressBar> bar;
  if (!command.quiet) bar.emplace(console, SafeText(command.b));
  options->reading.progress = [&bar](uint64_t done, uint64_t total) {
    if (bar) bar->Update(done, total);
  };
  const auto report = Diff(a->checkpoint, b->checkpoint, *options);
  bar.reset();
  if (!report.ok()) return console.Fail(report.status());
  const Status printed = Print(console, command, a->checkpoint, b->checkpoint, *options, *report);
  if (!printed.ok()) return console.Fail(printed);
  if (!command.quiet) NoteOpaque(console, *report);
  if (report->tensors.empty() && command.names.any()) {
    return console.Fail(Status(StatusCode::kInvalidArgument,
                               "no name of either is taken by --filter and --exclude: nothing was "
                               "compared"));
  }
  return ExitCode(command, *report);
}

void AddCriteria(CommandLine& line, DiffCommand& command) {
  line.Add("--rtol", command.relative, "Close: |b - a| <= A + R x max(|a|, |b|)").Placeholder("R");
  line.Add("--atol", command.absolute, "The A of it").Placeholder("A");
  line.Add("--ulp", command.ulp, "Close: at most so many numbers of the dtype apart")
      .Placeholder("N");
  line.Add("--nan", command.nan, "NaN of other bits: equal (default) or differ")
      .OneOf({"equal", "differ"})
      .Placeholder("WHAT");
}

void AddNameRules(CommandLine& line, NameRules& rules) {
  line.Add("--strip-prefix", rules.strip, "Names of both lose this beginning").Placeholder("P");
  line.Add("--strip-prefix-a", rules.strip_a, "Names of A lose it").Placeholder("P");
  line.Add("--strip-prefix-b", rules.strip_b, "Names of B lose it").Placeholder("P");
  line.Add("--map", rules.maps, "Replace in names of A, as sed does; repeatable")
      .Repeatable()
      .Placeholder("s/RE/NEW/");
}

void AddReport(CommandLine& line, DiffCommand& command) {
  line.AddFlag("--all", command.all, "List equal tensors too");
  line.AddFlag("--summary", command.summary, "Only counts and the criterion");
  line.AddFlag("-q,--quiet", command.quiet, "Only the exit code");
  line.AddFlag("--whole", command.whole,
               "Read equal chunks too: for ratio, angle and NaN where few chunks differ");
  const Argument show =
      line.Add("--show", command.show,
               "Name the elements of each tensor that differ most, at most so many; in tables and "
               "JSON")
          .Placeholder("K");
  line.Add("--by", command.by, "tensor (default), pattern, layer, module, dtype or all")
      .OneOf({"tensor", "pattern", "layer", "module", "dtype", "all"})
      .Excludes(show)
      .Placeholder("WHAT");
  line.Add("--fail-on", command.fail_on, "States that make the exit code 1; repeatable")
      .OneOf({"equal", "close", "changed", "added", "removed", "reshaped", "retyped", "moved"})
      .Repeatable()
      .Placeholder("STATE");
  AddRowOptions(line, command.rows);
  line.AddFlag("--no-verify", command.no_verify, "Do not check checksums");
  line.Add("-j,--threads", command.threads, "Threads; 0: one for each core, at most 8")
      .Within(0, 256)
      .Placeholder("N");
}

}  // namespace

Command AddDiff(Program& program) {
  auto command = std::make_shared<DiffCommand>();
  CommandLine line = program.AddCommand("diff", "Compare two checkpoints, tensor by tensor");
  line.Add("A", command->a, "A dsckpt or safetensors file; a checkpoint, run or model directory")
      .Required()
      .Placeholder(" ");
  line.Add("B", command->b, "What it is compared with").Required().Placeholder(" ");
  AddNameFilter(line, command->names, "Only names that match, as they are compared; repeatable",
                "Not those that match; repeatable");
  AddCriteria(line, *command);
  AddNameRules(line, command->rules);
  AddReport(line, *command);
  line.Footer(
      "Examples:\n"
      "  dsckpt diff run/step-0000001000 run/step-0000002000\n"
      "  dsckpt diff a.safetensors b.dsckpt --rtol 1e-5 --atol 1e-8 && echo close\n"
      "  dsckpt diff a b --strip-prefix-a module. --sort ratio:desc --limit 10\n"
      "  dsckpt diff a b --show 5 --filter '*.norm.*'\n"
      "  dsckpt diff run@1000 run@2000 --by layer --sort ratio:desc\n"
      "  dsckpt diff a b --json | jq '.rows[] | select(.nan_b > 0)'\n"
      "\n"
      "What is not equal, then counts, then the criterion. States: equal; close (equal by --rtol,\n"
      "--atol, --ulp, or but for the bits of NaN); changed; added and removed (in B or in A\n"
      "only); reshaped; retyped (compared as 64-bit floating point, without ulp); moved (equal,\n"
      "under another name). dsckpt files are equal where their digests are, and chunks of 4 MiB\n"
      "with equal checksums are not read: ratio, angle and NaN are then known with --whole only.\n"
      "Everything else is read and compared; the last lines say how much.\n"
      "max_rel is |b - a| / max(|a|, |b|), ratio |b - a| / |a| of the whole tensor, angle 1 - cos\n"
      "of the angle between both, changed% the share of elements with other bits, ulp_max the\n"
      "most steps between two numbers of the dtype. NaN and infinities have no part in norms.\n"
      "--show names elements with other bits by |b - a|, the greatest first, and of equal ones\n"
      "the lowest index; a NaN or an infinity on one side counts as the greatest.\n"
      "--by adds the sums of tensors up: numbers of a group are of its tensors that were\n"
      "compared; differ counts those that are changed.\n"
      "--json, schema dsckpt.diff/1: by, a, b, criterion, counts, rows with all columns, elements\n"
      "(with --show: name, index, a, b, distance, ulp), read_bytes.\n"
      "Exit code: 0 equal or close; 1 different, or a file is bad; 2 could not compare.");
  return {line, [command](Console& console) { return RunDiff(console, *command); }};
}

}  // namespace dsckpt::tools
