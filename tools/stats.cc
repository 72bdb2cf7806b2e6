// dsckpt stats: what the elements of tensors are, in numbers.

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/analysis.h"
#include "tools/commands.h"
#include "tools/groups.h"
#include "tools/index_moments.h"
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

struct StatsOptions {
  std::string path;
  NameFilter names;
  std::string by = "tensor";
  RowOptions rows;
  int threads = 0;
  bool quick = false, no_verify = false;
};

/// What the tensors of a checkpoint come to, and what is not known.
struct Found {
  std::vector<std::optional<TensorMoments>> moments;
  uint64_t read_bytes = 0;
};

Result<Found> ReadIndexes(const Checkpoint& checkpoint, const std::vector<uint32_t>& tensors) {
  Found found;
  for (const uint32_t tensor : tensors) {
    DSCKPT_ASSIGN_OR_RETURN(const auto statistics, checkpoint.Statistics(tensor));
    DSCKPT_ASSIGN_OR_RETURN(const uint64_t count, ElementCount(checkpoint.tensor(tensor).shape));
    found.moments.push_back(statistics ? std::optional(IndexMoments(*statistics, count))
                                       : std::nullopt);
  }
  return found;
}

Result<Found> Find(Console& console, const Checkpoint& checkpoint, const StatsOptions& options,
                   const std::vector<uint32_t>& tensors) {
  if (options.quick) return ReadIndexes(checkpoint, tensors);
  ProgressBar bar(console, SafeText(options.path));
  AnalysisOptions reading;
  reading.threads = options.threads;
  reading.verify = !options.no_verify;
  reading.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  DSCKPT_ASSIGN_OR_RETURN(MomentsReport report, Moments(checkpoint, tensors, reading));
  return Found{std::move(report.tensors), report.read_bytes};
}

Rows NewRows() {
  using enum CellType;
  return Rows({{"name", kText},
               {"tensors", kUint64},
               {"dtype", kText},
               {"shape", kShape},
               {"n", kUint64},
               {"nan", kUint64},
               {"inf", kUint64},
               {"zero", kUint64},
               {"min", kDouble},
               {"max", kDouble},
               {"absmax", kDouble},
               {"mean", kDouble},
               {"std", kDouble},
               {"rms", kDouble},
               {"norm", kDouble}},
              {"name", "dtype", "shape", "n", "nan", "inf", "zero", "min", "max", "mean", "std",
               "rms", "norm"});
}

/// Tensors under one name, or one tensor.
struct StatsGroup {
  TensorMoments moments;
  uint64_t tensors = 0;
  Cell dtype, shape;
};

void AddRow(Rows& rows, const std::string& name, const StatsGroup& group) {
  const TensorMoments& moments = group.moments;
  const auto number = [&](double value) {
    return moments.finite() == 0 ? Cell(std::monostate()) : Cell(value);
  };
  rows.Add({name, group.tensors, group.dtype, group.shape, moments.count, moments.nan, moments.inf,
            moments.zero, number(moments.min), number(moments.max), number(moments.AbsMax()),
            number(moments.mean), number(moments.Std()), number(moments.Rms()),
            number(moments.Norm())});
}

Rows ToRows(const Checkpoint& checkpoint, const StatsOptions& options,
            const std::vector<uint32_t>& tensors, const Found& found) {
  std::map<std::string, StatsGroup> groups;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!found.moments[i]) continue;
    const LogicalTensorInfo info = checkpoint.tensor(tensors[i]);
    const std::string dtype = DTypeText(info.dtype);
    StatsGroup& group = groups[GroupOf(options.by, info.name, dtype)];
    group.moments = group.tensors == 0 ? *found.moments[i] : group.moments.With(*found.moments[i]);
    const bool same = group.tensors++ == 0 || group.dtype == Cell(dtype);
    group.dtype = same ? Cell(dtype) : Cell(std::string("mixed"));
    if (options.by == "tensor") {
      group.shape = std::vector<int64_t>(info.shape.begin(), info.shape.end());
    }
  }
  Rows rows = NewRows();
  for (const auto& [name, group] : groups) AddRow(rows, name, group);
  return rows;
}

/// Names of tensors of which nothing is known.
std::vector<std::string> Skipped(const Checkpoint& checkpoint, const std::vector<uint32_t>& tensors,
                                 const Found& found) {
  std::vector<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!found.moments[i]) names.emplace_back(checkpoint.tensor(tensors[i]).name);
  }
  return names;
}

std::string WhySkipped(const StatsOptions& options) {
  return options.quick ? "the index has no statistics of it: leave out --quick to read it"
                       : "its dtype is packed or unknown";
}

std::string Tail(const StatsOptions& options, const std::vector<std::string>& skipped,
                 uint64_t read_bytes) {
  std::string text = "\"skipped\": [";
  for (size_t i = 0; i < skipped.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ("{\"name\": " + JsonQuoted(skipped[i]) +
                                    ", \"why\": " + JsonQuoted(WhySkipped(options)) + "}");
  }
  return text + "],\n  \"read_bytes\": " + std::to_string(read_bytes);
}

int Stats(Console& console, const StatsOptions& options) {
  const auto inputs = OpenInputs(console, {options.path}, true);
  if (!inputs.ok()) return console.Fail(inputs.status());
  const Checkpoint& checkpoint = inputs->checkpoint;
  std::vector<uint32_t> tensors;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    if (options.names.Takes(checkpoint.tensor(i).name)) tensors.push_back(i);
  }
  const auto found = Find(console, checkpoint, options, tensors);
  if (!found.ok()) return console.Fail(found.status());
  Rows rows = ToRows(checkpoint, options, tensors, *found);
  if (const Status status = rows.Arrange(options.rows); !status.ok()) return console.Fail(status);
  const auto skipped = Skipped(checkpoint, tensors, *found);
  const std::string head =
      "\"schema\": \"dsckpt.stats/1\",\n  \"path\": " + JsonQuoted(options.path) +
      ",\n  \"by\": " + JsonQuoted(options.by);
  const Status written =
      rows.Write(console, options.rows, head, Tail(options, skipped, found->read_bytes));
  if (!written.ok()) return console.Fail(written);
  if (!skipped.empty()) {
    console.Note(Format("{} left out, {} among them: {}", Count(skipped.size(), "tensor"),
                        TerminalName(skipped[0]), WhySkipped(options)));
  }
  if (!tensors.empty() || !options.names.any()) return kExitOk;
  console.Note(options.path + ": no name is taken by --filter and --exclude");
  return kExitNo;
}

}  // namespace

Command AddStats(Program& program) {
  auto options = std::make_shared<StatsOptions>();
  CommandLine line = program.AddCommand("stats", "Count, measure and find NaN in tensors");
  line.Add("PATH", options->path,
           "A dsckpt or safetensors file; a checkpoint, run or model directory")
      .Required()
      .Placeholder(" ");
  AddNameFilter(line, options->names, "Only tensors whose names match; repeatable",
                "Not those whose names match; repeatable");
  line.Add("--by", options->by, "tensor (default), pattern, layer, module, dtype or all")
      .OneOf({"tensor", "pattern", "layer", "module", "dtype", "all"})
      .Placeholder("WHAT");
  AddRowOptions(line, options->rows);
  line.AddFlag("--quick", options->quick, "Only what indexes say, of files saved with statistics");
  line.AddFlag("--no-verify", options->no_verify, "Do not check checksums");
  line.Add("-j,--threads", options->threads, "Threads; 0: one for each core, at most 8")
      .Within(0, 256)
      .Placeholder("N");
  line.Footer(
      "Examples:\n"
      "  dsckpt stats model.safetensors --sort absmax:desc --limit 10\n"
      "  dsckpt stats run --by layer\n"
      "  dsckpt stats run/step-0000001200 --filter '*.weight' --format csv > stats.csv\n"
      "  dsckpt stats run --json | jq '.rows[] | select(.nan > 0) | .name'\n"
      "\n"
      "Elements are widened to 64-bit floating point; NaN and infinities are counted and left\n"
      "out of everything else. std divides by the number of finite elements; norm is the square\n"
      "root of the sum of squares, rms the same of their mean. Complex elements count by their\n"
      "modulus. The numbers have the same bits on every machine and with any number of threads.\n"
      "Groups are as if their tensors were one: pattern has # for numbers in names, layer is a\n"
      "name up to its first number, module a pattern without its last part.\n"
      "--json, schema dsckpt.stats/1: path, by, rows with all columns, skipped, read_bytes.\n"
      "Exit code: 0 done, or a name was found; 1 no name is taken, or a file is bad; 2 could not\n"
      "do it.");
  return {line, [options](Console& console) { return Stats(console, *options); }};
}

}  // namespace dsckpt::tools
