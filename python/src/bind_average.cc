// Averages of checkpoints, and their inner products.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/average.h"
#include "dsckpt/dtype.h"
#include "dsckpt/gram.h"
#include "python/src/bind.h"
#include "python/src/hold.h"
#include "python/src/infos.h"
#include "python/src/long_call.h"
#include "python/src/status.h"
#include "python/src/text.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;
using Patterns = std::vector<std::string>;

nb::dict ToDict(const AverageReport& report) {
  nb::list copied, nonfinite, terms;
  for (const AverageTerm& term : report.terms) {
    terms.append(nb::make_tuple(term.checkpoint, term.weight));
  }
  for (const auto& each : report.copied) {
    copied.append(nb::make_tuple(ToStr(each.name), each.equal));
  }
  for (const auto& each : report.nonfinite) {
    nonfinite.append(nb::make_tuple(ToStr(each.name), each.nan, each.inf));
  }
  nb::dict out;
  out["terms"] = terms;
  out["averaged"] = report.averaged;
  out["copied"] = copied;
  out["nonfinite"] = nonfinite;
  out["became_infinite"] = report.became_infinite;
  out["bytes"] = report.output.bytes;
  out["read_bytes"] = report.read_bytes;
  return out;
}

nb::dict AverageOf(const Trajectory& run, const std::vector<uint32_t>& checkpoints,
                   const std::vector<double>& weights, const FsPath& output, Patterns filters,
                   Patterns excludes, std::optional<int> dtype, bool safetensors, bool verify,
                   bool replace, nb::object progress) {
  if (checkpoints.size() != weights.size()) ThrowInvalid("each checkpoint needs one weight");
  std::vector<AverageTerm> terms;
  for (size_t k = 0; k < weights.size(); ++k) terms.push_back({checkpoints[k], weights[k]});
  AverageOptions options;
  options.names = {std::move(filters), std::move(excludes)};
  if (dtype) options.dtype = static_cast<DType>(*dtype);
  options.container = safetensors ? Container::kSafetensors : Container::kDsckpt;
  options.verify = verify;
  options.replace = replace;
  if (!progress.is_none()) {
    options.progress = [call = Callback(progress)](uint64_t done, uint64_t total) {
      (void)call(done, total);
    };
  }
  const auto state = std::make_shared<LongCall<AverageReport>>();
  return ToDict(RunLong(state, /*to_the_end=*/true,
                        [run, terms, output = output.bytes, options](auto& running) {
                          auto stoppable = options;
                          stoppable.cancelled = [&running] { return running.stop.load(); };
                          return Average(run, terms, output, stoppable);
                        }));
}

nb::dict GramOf(const Trajectory& run, const std::vector<uint32_t>& tensors, uint64_t memory,
                int threads, bool verify) {
  TrajectorySelection selection = SelectAll(run);
  for (const uint32_t tensor : tensors) {
    if (tensor >= run.tensor_count()) throw nb::index_error("no such tensor");
  }
  selection.tensors = tensors;
  GramOptions options;
  options.memory = memory;
  options.reading.threads = threads;
  options.reading.verify = verify;
  const GramReport report = Unwrap(WithoutGil([&] { return Gram(run, selection, options); }));
  nb::list skipped;
  for (const GramReport::Skipped& each : report.skipped) {
    skipped.append(nb::make_tuple(ToStr(run.tensor(each.tensor).name), Message{each.why}));
  }
  nb::dict out;
  out["products"] = nb::bytes(reinterpret_cast<const char*>(report.products.data()),
                              report.products.size() * sizeof(double));
  out["nonfinite"] = report.nonfinite;
  out["skipped"] = skipped;
  out["elements"] = report.elements;
  out["read_bytes"] = report.read_bytes;
  return out;
}

}  // namespace

void BindAverage(nb::module_& module) {
  module.def("average", &AverageOf, "run"_a, "checkpoints"_a, "weights"_a, "output"_a,
             nb::kw_only(), "filters"_a = Patterns(), "excludes"_a = Patterns(),
             "dtype"_a = nb::none(), "safetensors"_a = false, "verify"_a = true,
             "replace"_a = false, "progress"_a = nb::none());
  module.def("ema_weights", &EmaWeights, "count"_a, "beta"_a);
  module.def("gram", &GramOf, "run"_a, "tensors"_a, nb::kw_only(), "memory"_a = 256 << 20,
             "threads"_a = 0, "verify"_a = true);
}

}  // namespace dsckpt::python
