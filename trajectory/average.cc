// Average(): which tensors, from which checkpoints, and the output by way of a merge.

#include "dsckpt/average.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/guarded.h"
#include "base/unicode.h"
#include "merge/inputs.h"
#include "merge/made.h"
#include "trajectory/weighted_sum.h"

namespace dsckpt {

namespace {

using trajectory::PartsOf;

Status InvalidAverage(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

Status CheckTerms(const Trajectory& run, std::span<const AverageTerm> terms) {
  if (terms.empty()) return InvalidAverage("there is nothing to average: no checkpoint was given");
  double total = 0, size = 0;
  for (const AverageTerm& term : terms) {
    if (term.checkpoint >= run.size()) {
      return InvalidAverage("checkpoint " + std::to_string(term.checkpoint) +
                            " of an average is none of the " + std::to_string(run.size()) +
                            " of the trajectory");
    }
    total += term.weight;
    size += std::fabs(term.weight);
  }
  if (std::isfinite(size) && std::fabs(total) > 1e-12 * size) return {};
  return InvalidAverage(
      "the weights of an average are to be finite and their sum other than 0, for they are divided "
      "by it: the sum is " +
      std::to_string(total));
}

bool IsComplex(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }

bool IsAveraged(DType dtype) { return PartsOf(dtype).has_value(); }

/// What is wrong with a tensor that is to be averaged; empty: nothing.
std::string Mismatch(const Trajectory& run, std::span<const AverageTerm> terms, uint32_t i) {
  const uint32_t last = terms.back().checkpoint;
  const auto is = run.Form(last, i);
  for (const AverageTerm& term : terms) {
    const auto form = run.Form(term.checkpoint, i);
    if (!form || !is) return "is not in " + run.operand(form ? last : term.checkpoint);
    if (!std::ranges::equal(form->shape, is->shape)) {
      return "has the shape " + ShapeText(form->shape) + " in " + run.operand(term.checkpoint) +
             " and " + ShapeText(is->shape) + " in " + run.operand(last);
    }
    const bool alike = IsAveraged(form->dtype.code) && IsAveraged(is->dtype.code) &&
                       IsComplex(form->dtype.code) == IsComplex(is->dtype.code);
    if (form->dtype.code != is->dtype.code && !alike) {
      return "is " + std::string(form->dtype.name) + " in " + run.operand(term.checkpoint) +
             " and " + std::string(is->dtype.name) + " in " + run.operand(last);
    }
  }
  return {};
}

/// The tensors that the output has, and whether all `terms` have them alike.
Result<std::vector<uint32_t>> FindTensors(const Trajectory& run, std::span<const AverageTerm> terms,
                                          const NameFilter& names) {
  constexpr uint64_t kShown = 5;
  std::vector<uint32_t> tensors;
  std::string message;
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < run.tensor_count(); ++i) {
    const bool there = std::ranges::any_of(
        terms, [&](const AverageTerm& term) { return run.Form(term.checkpoint, i).has_value(); });
    if (!there || !names.Takes(run.tensor(i).name)) continue;
    tensors.push_back(i);
    const std::string mismatch = Mismatch(run, terms, i);
    if (mismatch.empty() || ++wrong > kShown) continue;
    message += (message.empty() ? "" : "; ") + QuotedName(run.tensor(i).name) + " " + mismatch;
  }
  if (wrong == 0) return tensors;
  if (wrong > kShown) message += "; and " + std::to_string(wrong - kShown) + " more";
  return Status(StatusCode::kMismatch,
                "checkpoints without the same tensors have no average: " + message +
                    ". Leave such tensors out: --exclude, in Python `exclude`, in C++ "
                    "AverageOptions::names")
      .WithPath(run.path(terms.back().checkpoint));
}

/// Terms that count, and the last one, whose names and shapes the output has.
std::vector<AverageTerm> NeededTerms(std::span<const AverageTerm> terms) {
  std::vector<AverageTerm> needed;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (terms[k].weight != 0 || k + 1 == terms.size()) needed.push_back(terms[k]);
  }
  return needed;
}

std::string AveragedFrom(const Trajectory& run, std::span<const AverageTerm> terms) {
  auto from = nlohmann::ordered_json::array();
  for (const AverageTerm& term : terms) {
    const auto step = run.step(term.checkpoint);
    nlohmann::ordered_json each;
    each["checkpoint"] = run.operand(term.checkpoint);
    each["step"] = step ? nlohmann::ordered_json(*step) : nlohmann::ordered_json();
    each["weight"] = term.weight;
    from.push_back(std::move(each));
  }
  using Errors = nlohmann::ordered_json::error_handler_t;
  return from.dump(-1, ' ', /*ensure_ascii=*/false, Errors::replace);
}

MergeOptions OptionsOf(const Trajectory& run, const AverageOptions& options,
                       std::span<const AverageTerm> terms) {
  MergeOptions merge;
  merge.container = options.container;
  merge.selection.names = options.names;
  merge.selection.dtype = options.dtype;
  merge.attributes = {{"averaged_from", Value(AveragedFrom(run, terms))}};
  merge.verify = options.verify;
  merge.replace = options.replace;
  merge.progress = options.progress;
  return merge;
}

/// Whether a tensor is the same in all checkpoints.
std::optional<bool> IsEqual(const Trajectory& run, std::span<const AverageTerm> terms, uint32_t i) {
  const auto last = run.Content(terms.back().checkpoint, i);
  for (const AverageTerm& term : terms) {
    const auto content = run.Content(term.checkpoint, i);
    if (!last || !content) return std::nullopt;
    if (content != last) return false;
  }
  return true;
}

void AddTensors(const Trajectory& run, std::span<const AverageTerm> terms,
                std::span<const uint32_t> tensors, const trajectory::WeightedSum& sum,
                AverageReport& report) {
  for (const uint32_t i : tensors) {
    const std::string name(run.tensor(i).name);
    if (!IsAveraged(run.Form(terms.back().checkpoint, i)->dtype.code)) {
      report.copied.push_back({name, IsEqual(run, terms, i)});
      continue;
    }
    ++report.averaged;
    const trajectory::SumCounts& counts = sum.counts(i);
    report.became_infinite += counts.overflows;
    if (counts.nan + counts.inf == 0) continue;
    report.nonfinite.push_back({name, counts.nan, counts.inf});
  }
}

Status RunAverage(const Trajectory& run, std::span<const AverageTerm> terms,
                  const std::string& output, const AverageOptions& options, AverageReport& report) {
  const std::vector<AverageTerm> needed = NeededTerms(terms);
  DSCKPT_ASSIGN_OR_RETURN(const auto tensors, FindTensors(run, needed, options.names));
  const std::string& base = run.path(needed.back().checkpoint);
  DSCKPT_ASSIGN_OR_RETURN(const merge::Inputs inputs,
                          merge::OpenInputs(std::span(&base, 1), /*ignore_header=*/false));
  std::vector<std::string> files;
  std::vector<AverageTerm> counting;
  for (const AverageTerm& term : needed) {
    DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, run.OpenCheckpoint(term.checkpoint));
    for (std::string& file : merge::FilesOf(checkpoint)) files.push_back(std::move(file));
    if (term.weight != 0) counting.push_back(term);
  }
  // Nothing is rounded on the way where one checkpoint is all.
  if (counting.size() == 1) counting[0].weight = 1;
  trajectory::WeightedSum sum(run, counting, options.verify);
  std::atomic<uint64_t> copied_bytes = 0;
  const merge::MakeTensor make = [&](uint32_t ordinal, DType dtype, uint64_t offset,
                                     std::span<std::byte> out) -> Status {
    const auto i = run.FindTensor(inputs.checkpoint.tensor(ordinal).name);
    if (i && IsAveraged(dtype)) return sum.Read(*i, dtype, offset, out);
    copied_bytes += out.size();
    return inputs.checkpoint.ReadBytes(ordinal, offset, out, options.verify);
  };
  MergeOptions merge = OptionsOf(run, options, report.terms);
  merge.cancelled = [&] {
    const bool stop = options.cancelled && options.cancelled();
    if (stop) sum.Stop();
    return stop;
  };
  DSCKPT_ASSIGN_OR_RETURN(report.output,
                          merge::MergeInputs(inputs, base, output, merge, make, files));
  AddTensors(run, needed, tensors, sum, report);
  report.read_bytes = sum.read_bytes() + copied_bytes;
  return {};
}

}  // namespace

std::vector<double> EmaWeights(uint32_t count, double beta) {
  std::vector<double> weights(count);
  double kept = 1;
  for (uint32_t age = 0; age < count; ++age) {
    weights[count - 1 - age] = age + 1 == count ? kept : (1 - beta) * kept;
    kept *= beta;
  }
  return weights;
}

Result<AverageReport> Average(const Trajectory& run, std::span<const AverageTerm> terms,
                              const std::string& output, const AverageOptions& options) {
  DSCKPT_RETURN_IF_ERROR(CheckTerms(run, terms));
  AverageReport report;
  double total = 0;
  for (const AverageTerm& term : terms) total += term.weight;
  for (const AverageTerm& term : terms) {
    report.terms.push_back({term.checkpoint, term.weight / total});
  }
  const Status status = Guarded([&] { return RunAverage(run, terms, output, options, report); });
  if (status.code() == StatusCode::kCancelled) {
    return Status(StatusCode::kCancelled, "the average was cancelled");
  }
  if (!status.ok()) return status;
  return report;
}

}  // namespace dsckpt
