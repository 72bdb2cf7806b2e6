// dsckpt stats: what the elements of tensors are, in numbers.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
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
  std::vector<double> quantiles;
  std::string hist;  ///< "log2" or "linear:N"; empty: no histogram.
  int threads = 0;
  bool quick = false, no_verify = false;
};

/// What the tensors of a checkpoint come to, and what is not known.
struct Found {
  std::vector<std::optional<TensorMoments>> moments;
  std::vector<TensorHistogram> histograms;
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
  const bool histograms = !options.quantiles.empty() || !options.hist.empty();
  DSCKPT_ASSIGN_OR_RETURN(MomentsReport report, Moments(checkpoint, tensors, reading, histograms));
  return Found{std::move(report.tensors), std::move(report.histograms), report.read_bytes};
}

/// "q0.5".
std::string QuantileName(double q) { return Format("q{}", q); }

Rows NewRows(const StatsOptions& options) {
  using enum CellType;
  std::vector<CellColumn> columns = {{"name", kText},   {"tensors", kUint64}, {"dtype", kText},
                                     {"shape", kShape}, {"n", kUint64},       {"nan", kUint64},
                                     {"inf", kUint64},  {"zero", kUint64},    {"min", kDouble},
                                     {"max", kDouble},  {"absmax", kDouble},  {"mean", kDouble},
                                     {"std", kDouble},  {"rms", kDouble},     {"norm", kDouble}};
  std::vector<std::string> shown = {"name", "dtype", "shape", "n",   "nan", "inf", "zero",
                                    "min",  "max",   "mean",  "std", "rms", "norm"};
  for (const double q : options.quantiles) {
    columns.push_back({QuantileName(q), kDouble});
    shown.push_back(QuantileName(q));
  }
  return Rows(std::move(columns), std::move(shown));
}

/// Tensors under one name, or one tensor.
struct StatsGroup {
  TensorMoments moments;
  TensorHistogram histogram;
  uint64_t tensors = 0;
  Cell dtype, shape;
};
using StatsGroups = std::map<std::string, StatsGroup>;

StatsGroups GroupTensors(const Checkpoint& checkpoint, const StatsOptions& options,
                         const std::vector<uint32_t>& tensors, const Found& found) {
  StatsGroups groups;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!found.moments[i]) continue;
    const LogicalTensorInfo info = checkpoint.tensor(tensors[i]);
    const std::string dtype = DTypeText(info.dtype);
    StatsGroup& group = groups[GroupOf(options.by, info.name, dtype)];
    group.moments = group.tensors == 0 ? *found.moments[i] : group.moments.With(*found.moments[i]);
    if (!found.histograms.empty()) group.histogram = group.histogram.With(found.histograms[i]);
    const bool same = group.tensors++ == 0 || group.dtype == Cell(dtype);
    group.dtype = same ? Cell(dtype) : Cell(std::string("mixed"));
    if (options.by == "tensor") {
      group.shape = std::vector<int64_t>(info.shape.begin(), info.shape.end());
    }
  }
  return groups;
}

void AddRow(Rows& rows, const std::string& name, const StatsGroup& group,
            const StatsOptions& options) {
  const TensorMoments& moments = group.moments;
  const auto number = [&](double value) {
    return moments.finite() == 0 ? Cell(std::monostate()) : Cell(value);
  };
  std::vector<Cell> row = {name,
                           group.tensors,
                           group.dtype,
                           group.shape,
                           moments.count,
                           moments.nan,
                           moments.inf,
                           moments.zero,
                           number(moments.min),
                           number(moments.max),
                           number(moments.AbsMax()),
                           number(moments.mean),
                           number(moments.Std()),
                           number(moments.Rms()),
                           number(moments.Norm())};
  for (const double q : options.quantiles) row.push_back(MaybeCell(group.histogram.Quantile(q)));
  rows.Add(std::move(row));
}

/// Returns what is wrong, if anything.
std::string ParseQuantiles(const std::string& list, std::vector<double>& quantiles) {
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    double q = -1;
    const char* const end = part.data() + part.size();
    const auto [parsed, error] = std::from_chars(part.data(), end, q);
    if (error != std::errc() || parsed != end || !(q >= 0 && q <= 1)) {
      return "a quantile is a number from 0 to 1, not '" + part + "'";
    }
    quantiles.push_back(q);
  }
  return {};
}

/// "linear:20" has 20; "log2" none. InvalidArgument.
Result<std::optional<uint32_t>> LinearBins(const std::string& hist) {
  if (hist == "log2") return std::optional<uint32_t>();
  constexpr std::string_view kLinear = "linear:";
  uint32_t count = 0;
  const char* const end = hist.data() + hist.size();
  const char* const begin = hist.data() + std::min(kLinear.size(), hist.size());
  const auto [parsed, error] = std::from_chars(begin, end, count);
  if (hist.starts_with(kLinear) && error == std::errc() && parsed == end && count > 0 &&
      count <= 100'000) {
    return std::optional(count);
  }
  return Status(StatusCode::kInvalidArgument,
                "--hist takes log2, or linear:N with 1 to 100000 bins, not '" + hist + "'");
}

/// `linear`: how many equal bins; nothing: those of powers of two.
Rows HistogramRows(const StatsGroups& groups, std::optional<uint32_t> linear) {
  using enum CellType;
  Rows rows({{"name", kText}, {"low", kDouble}, {"high", kDouble}, {"count", kUint64}},
            {"name", "low", "high", "count"});
  for (const auto& [name, group] : groups) {
    const auto bins = linear ? group.histogram.Linear(*linear, group.moments.min, group.moments.max)
                             : group.histogram.Log2();
    for (const TensorHistogram::Bin& bin : bins) rows.Add({name, bin.low, bin.high, bin.count});
  }
  return rows;
}

Rows StatsRows(const StatsGroups& groups, const StatsOptions& options) {
  Rows rows = NewRows(options);
  for (const auto& [name, group] : groups) AddRow(rows, name, group, options);
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
  const bool hist = !options.hist.empty();
  const auto linear = hist ? LinearBins(options.hist) : std::optional<uint32_t>();
  if (!linear.ok()) return console.Fail(linear.status());
  const auto inputs = OpenInputs(console, {options.path}, true);
  if (!inputs.ok()) return console.Fail(inputs.status());
  const Checkpoint& checkpoint = inputs->checkpoint;
  std::vector<uint32_t> tensors;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    if (options.names.Takes(checkpoint.tensor(i).name)) tensors.push_back(i);
  }
  const auto found = Find(console, checkpoint, options, tensors);
  if (!found.ok()) return console.Fail(found.status());
  const StatsGroups groups = GroupTensors(checkpoint, options, tensors, *found);
  Rows rows = hist ? HistogramRows(groups, *linear) : StatsRows(groups, options);
  if (const Status status = rows.Arrange(options.rows); !status.ok()) return console.Fail(status);
  const auto skipped = Skipped(checkpoint, tensors, *found);
  const std::string head =
      "\"schema\": \"" + std::string(hist ? "dsckpt.histogram/1" : "dsckpt.stats/1") +
      "\",\n  \"path\": " + JsonQuoted(options.path) + ",\n  \"by\": " + JsonQuoted(options.by);
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
  const auto parse_quantiles = [options](const std::string& list) {
    return ParseQuantiles(list, options->quantiles);
  };
  const Argument quantiles = line.AddParsed("--quantiles", parse_quantiles,
                                            "Also these quantiles, from 0 to 1: 0.01,0.5,0.99")
                                 .Placeholder("Q,...");
  const Argument hist =
      line.Add("--hist", options->hist, "Instead a histogram: log2, or linear:N of N equal bins")
          .Excludes(quantiles)
          .Placeholder("KIND");
  line.AddFlag("--quick", options->quick, "Only what indexes say, of files saved with statistics")
      .Excludes(quantiles)
      .Excludes(hist);
  line.AddFlag("--no-verify", options->no_verify, "Do not check checksums");
  line.Add("-j,--threads", options->threads, "Threads; 0: one for each core, at most 8")
      .Within(0, 256)
      .Placeholder("N");
  line.Footer(
      "Examples:\n"
      "  dsckpt stats model.safetensors --sort absmax:desc --limit 10\n"
      "  dsckpt stats run --by layer --quantiles 0.01,0.5,0.99\n"
      "  dsckpt stats run --by all --hist log2\n"
      "  dsckpt stats run/step-0000001200 --filter '*.weight' --format csv > stats.csv\n"
      "  dsckpt stats run --json | jq '.rows[] | select(.nan > 0) | .name'\n"
      "\n"
      "Elements are widened to 64-bit floating point; NaN and infinities are counted and left\n"
      "out of everything else. std divides by the number of finite elements; norm is the square\n"
      "root of the sum of squares, rms the same of their mean. Complex elements count by their\n"
      "modulus. The numbers have the same bits on every machine and with any number of threads.\n"
      "Groups are as if their tensors were one: pattern has # for numbers in names, layer is a\n"
      "name up to its first number, module a pattern without its last part.\n"
      "--quantiles are those of finite elements: exact for dtypes of 8 and 16 bits, else within\n"
      "0.4 %. --hist log2 has a row for each power of two and sign, zeros by themselves: above\n"
      "and below the least and greatest numbers of a dtype there is room, or there is none.\n"
      "--json, schema dsckpt.stats/1: path, by, rows with all columns, skipped, read_bytes;\n"
      "with --hist dsckpt.histogram/1, whose rows have name, low, high and count.\n"
      "Exit code: 0 done, or a name was found; 1 no name is taken, or a file is bad; 2 could not\n"
      "do it.");
  return {line, [options](Console& console) { return Stats(console, *options); }};
}

}  // namespace dsckpt::tools
