// dsckpt average: the average of checkpoints, as a checkpoint.

#include "dsckpt/average.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/average_report.h"
#include "tools/commands.h"
#include "tools/operand.h"
#include "tools/save.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

struct AverageCommand {
  std::vector<std::string> operands;
  StepChoice choice;  ///< Which checkpoints of them.
  std::string output, format = "dsckpt";
  std::string weights, ema, alpha;  ///< As they were given; empty: not.
  bool lerp = false, force = false, no_verify = false;
  AverageOptions average;

  /// Whether the order in which operands are named counts, not that of steps.
  bool ordered() const { return lerp || !weights.empty(); }
};

Status InvalidAverage(std::string message) {
  return Status(StatusCode::kInvalidArgument, "average: " + std::move(message));
}

/// "0.5,0.3" is two numbers, at the commas or whatever `mark` is.
Result<std::vector<double>> ParseNumbers(const std::string& text, char mark, const char* option) {
  std::vector<double> numbers;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(mark, from), text.size());
    double number = 0;
    const auto [at, error] = std::from_chars(text.data() + from, text.data() + end, number);
    if (error != std::errc() || at != text.data() + end || !std::isfinite(number)) {
      return InvalidAverage(Format("{} takes numbers, not '{}'", option, TerminalName(text)));
    }
    numbers.push_back(number);
    from = end + 1;
  }
  return numbers;
}

/// Checkpoints in the order in which they are named, those of a run in the order of steps.
Result<std::vector<uint32_t>> AsNamed(const Trajectory& run, const AverageCommand& command) {
  std::vector<uint32_t> checkpoints;
  for (const std::string& text : command.operands) {
    DSCKPT_ASSIGN_OR_RETURN(const Operand operand, ToOperand(text));
    std::vector<std::string> paths = {operand.path};
    if (operand.kind == OperandKind::kRun) {
      DSCKPT_ASSIGN_OR_RETURN(const Trajectory alone, Trajectory::Open(text));
      paths.clear();
      for (uint32_t t = 0; t < alone.size(); ++t) paths.push_back(alone.path(t));
    }
    for (const std::string& path : paths) {
      for (uint32_t t = 0; t < run.size(); ++t) {
        if (run.path(t) != path) continue;
        checkpoints.push_back(t);
        break;
      }
    }
  }
  return checkpoints;
}

Result<std::vector<double>> WeightsOf(const AverageCommand& command, uint32_t count) {
  if (!command.ema.empty()) {
    DSCKPT_ASSIGN_OR_RETURN(const auto beta, ParseNumbers(command.ema, ',', "--ema"));
    if (beta.size() != 1 || beta[0] < 0 || beta[0] >= 1) {
      return InvalidAverage("--ema takes one number from 0 to below 1, such as 0.9");
    }
    return EmaWeights(count, beta[0]);
  }
  if (command.weights.empty()) return std::vector<double>(count, 1.0);
  DSCKPT_ASSIGN_OR_RETURN(auto weights, ParseNumbers(command.weights, ',', "--weights"));
  if (weights.size() == count) return weights;
  return InvalidAverage(Format("--weights has {} for {}: give one for each",
                               Count(weights.size(), "weight"), Count(count, "checkpoint")));
}

/// LO, LO + STEP and so on up to HI, with at most 10 digits, as they stand in names.
Result<std::vector<double>> Alphas(const std::string& text) {
  constexpr double kMost = 1000;
  DSCKPT_ASSIGN_OR_RETURN(const auto parts, ParseNumbers(text, ':', "--alpha"));
  if (parts.size() == 1) return parts;
  if (parts.size() != 3 || parts[2] <= 0 || parts[1] < parts[0] ||
      (parts[1] - parts[0]) / parts[2] > kMost) {
    return InvalidAverage(
        "--alpha takes a number, or LOW:HIGH:STEP of at most 1,000 steps upwards");
  }
  std::vector<double> alphas;
  const auto last = static_cast<int>(std::floor((parts[1] - parts[0]) / parts[2] + 1e-9));
  for (int k = 0; k <= last; ++k) {
    alphas.push_back(std::stod(Format("{:.10g}", parts[0] + k * parts[2])));
  }
  return alphas;
}

/// "out-0.25.dsckpt" of "out.dsckpt".
std::string NameFor(const std::string& output, double alpha) {
  const size_t slash = output.find_last_of('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = output.find_last_of('.');
  const size_t end = dot == std::string::npos || dot <= base ? output.size() : dot;
  return output.substr(0, end) + Format("-{:.10g}", alpha) + output.substr(end);
}

Result<std::vector<PlannedAverage>> Plan(const Trajectory& run, const AverageCommand& command) {
  std::vector<uint32_t> checkpoints;
  if (command.ordered()) {
    DSCKPT_ASSIGN_OR_RETURN(checkpoints, AsNamed(run, command));
  } else {
    DSCKPT_ASSIGN_OR_RETURN(checkpoints, SelectCheckpoints(run, command.choice));
  }
  if (checkpoints.empty()) return InvalidAverage("--steps and --last leave no checkpoint");
  std::vector<PlannedAverage> planned;
  if (!command.lerp) {
    DSCKPT_ASSIGN_OR_RETURN(const auto weights,
                            WeightsOf(command, static_cast<uint32_t>(checkpoints.size())));
    PlannedAverage& one = planned.emplace_back(PlannedAverage{command.output, {}, {}});
    for (size_t k = 0; k < weights.size(); ++k) {
      one.terms.push_back({checkpoints[k], weights[k]});
    }
    return planned;
  }
  if (checkpoints.size() != 2) {
    return InvalidAverage(
        Format("--lerp is between two checkpoints, not {}", Grouped(checkpoints.size())));
  }
  DSCKPT_ASSIGN_OR_RETURN(const auto alphas, Alphas(command.alpha));
  for (const double alpha : alphas) {
    const bool one = alphas.size() == 1;
    planned.push_back({one ? command.output : NameFor(command.output, alpha),
                       alpha,
                       {{checkpoints[0], 1 - alpha}, {checkpoints[1], alpha}}});
  }
  return planned;
}

Status CheckModes(const AverageCommand& command) {
  const int modes =
      (command.lerp ? 1 : 0) + (command.weights.empty() ? 0 : 1) + (command.ema.empty() ? 0 : 1);
  if (modes > 1) return InvalidAverage("give one of --weights, --ema and --lerp");
  if (command.lerp == command.alpha.empty()) {
    return InvalidAverage("--lerp and --alpha belong together: give both");
  }
  if (command.ordered() && (command.choice.last || !command.choice.steps.empty())) {
    return InvalidAverage(
        "--last and --steps choose by steps, --weights and --lerp by the order of the operands: "
        "name the checkpoints, such as RUN@1000 RUN@-1");
  }
  return {};
}

Status CheckFree(const AverageCommand& command, const std::vector<PlannedAverage>& planned) {
  for (const PlannedAverage& each : planned) {
    struct stat there {};
    if (command.force || stat(each.output.c_str(), &there) != 0 || !S_ISREG(there.st_mode))
      continue;
    return Status(StatusCode::kAlreadyExists, each.output + " exists: --force replaces it")
        .WithPath(each.output);
  }
  return {};
}

Result<AverageReport> WriteOne(Console& console, const Trajectory& run,
                               const AverageCommand& command, const PlannedAverage& planned) {
  AverageOptions options = command.average;
  options.replace = command.force;
  options.verify = !command.no_verify;
  if (command.format == "safetensors") options.container = Container::kSafetensors;
  std::optional<ProgressBar> bar;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (!bar) bar.emplace(console, SafeText(planned.output));
    bar->Update(done, total);
  };
  options.cancelled = [] { return InterruptGuard::signal() != 0; };
  return dsckpt::Average(run, planned.terms, planned.output, options);
}

int RunAverage(Console& console, const AverageCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  if (const Status status = CheckModes(command); !status.ok()) return console.Fail(status);
  TrajectoryOptions how;
  how.step_from = command.choice.step_from;
  const auto run = Trajectory::Open(command.operands, how);
  if (!run.ok()) return console.Fail(run.status());
  NoteSkipped(console, *run);
  const auto planned = Plan(*run, command);
  if (!planned.ok()) return console.Fail(planned.status());
  if (const Status status = CheckFree(command, *planned); !status.ok()) return console.Fail(status);
  WrittenAverages written{*planned, {}, 0};
  const InterruptGuard guard;
  for (const PlannedAverage& each : *planned) {
    auto report = WriteOne(console, *run, command, each);
    if (!report.ok()) {
      const StatusCode code = report.status().code();
      if (code == StatusCode::kInvalidArgument || code == StatusCode::kAlreadyExists) {
        return console.Fail(report.status());
      }
      return FailOutput(console, {command.operands[0], each.output, command.force},
                        report.status());
    }
    written.reports.push_back(*std::move(report));
  }
  written.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (console.json()) {
    ReportAveragesJson(console, *run, written);
  } else {
    ReportAverages(console, written);
  }
  NoteAverages(console, written);
  return kExitOk;
}

constexpr const char* kAverageFooter =
    "Examples:\n"
    "  dsckpt average run --last 5 -o average.dsckpt\n"
    "  dsckpt average run@1000 run@2000 run@3000 --weights 0.2,0.3,0.5 -o soup.dsckpt\n"
    "  dsckpt average run --ema 0.9 -o ema.safetensors --format safetensors --dtype BF16\n"
    "  dsckpt average --lerp a.safetensors b.safetensors --alpha 0:1:0.25 -o path.dsckpt\n"
    "\n"
    "Without --weights, --ema or --lerp all checkpoints count the same. Weights are divided\n"
    "by their sum. --ema B is the moving average that begins at the first checkpoint and\n"
    "keeps B of itself at each further one: weight (1-B) B^(n-1-k) for checkpoint k of n,\n"
    "counted from 0, and B^(n-1) for the first. --lerp is (1-ALPHA) A + ALPHA B; of several\n"
    "alphas each has a file: path-0.dsckpt, path-0.25.dsckpt and so on.\n"
    "Elements are summed up in 64-bit floating point and rounded once, to the nearest even\n"
    "number of the dtype. NaN and infinities go through, and are said. Integers, booleans\n"
    "and packed dtypes are copied from the last checkpoint, as are state tree, objects and\n"
    "attributes; the attribute averaged_from lists what was averaged. All checkpoints need\n"
    "the same tensors: --exclude leaves out what they do not share, and what has no use as\n"
    "an average. With --filter and --exclude only tensors and attributes are written.\n"
    "--json, schema dsckpt.average/1: averages with output, alpha, from, averaged, copied,\n"
    "nonfinite and sizes; seconds.\n"
    "Exit code: 0 done; 1 the checkpoints do not have the same tensors, or one is damaged;\n"
    "2 could not do it.";

}  // namespace

Command AddAverage(Program& program) {
  auto command = std::make_shared<AverageCommand>();
  CommandLine line = program.AddCommand("average", "Average checkpoints into one");
  line.Add("PATH", command->operands, "Runs, or checkpoints one by one")
      .Required()
      .Placeholder("...");
  line.Add("-o,--output", command->output, "The file to write (required)")
      .Required()
      .Placeholder("OUT");
  line.Add("--last", command->choice.last, "Only the last N checkpoints")
      .Within(1, 1'000'000)
      .Placeholder("N");
  line.Add("--steps", command->choice.steps, "Only these steps and ranges; repeatable")
      .Repeatable()
      .Placeholder("LIST");
  line.Add("--step-from", command->choice.step_from, "What tells the step").Placeholder("RULE");
  line.Add("--weights", command->weights, "How much each counts, in the order of PATH")
      .Placeholder("W,W,...");
  line.Add("--ema", command->ema, "Moving average: keep this share at each checkpoint")
      .Placeholder("B");
  line.AddFlag("--lerp", command->lerp, "Between two checkpoints, with --alpha");
  line.Add("--alpha", command->alpha, "How far: 0 is the first, 1 the second; or LOW:HIGH:STEP")
      .Placeholder("X");
  AddNameFilter(line, command->average.names, "Only tensors whose names match; repeatable",
                "Not those whose names match; repeatable");
  AddDTypeOption(line, command->average.dtype,
                 "The dtype of the average: BF16, F16, F32 or F64 (default: as in the last one)");
  line.Add("--format", command->format,
           "dsckpt (default), or safetensors, as Hugging Face tools load it")
      .OneOf({"dsckpt", "safetensors"})
      .Placeholder("NAME");
  line.AddFlag("--no-verify", command->no_verify, "Do not check checksums");
  line.AddFlag("--force", command->force, "Replace OUT if it exists");
  line.Footer(kAverageFooter);
  return {line, [command](Console& console) { return RunAverage(console, *command); }};
}

}  // namespace dsckpt::tools
