// Numbers about whole checkpoints.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/analysis.h"
#include "dsckpt/merge.h"
#include "dsckpt/operand.h"
#include "python/src/bind.h"
#include "python/src/infos.h"
#include "python/src/status.h"
#include "python/src/text.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;
using Patterns = std::vector<std::string>;

nb::object ShapeOf(const LogicalTensorInfo& info) {
  nb::list shape;
  for (const int64_t size : info.shape) shape.append(size);
  return nb::tuple(shape);
}

nb::object NumberOr(bool known, double value) {
  return known && std::isfinite(value) ? nb::cast(value) : nb::none();
}

nb::object MomentsRow(const LogicalTensorInfo& info, const TensorMoments& moments) {
  const bool some = moments.finite() > 0;
  return nb::make_tuple(ToStr(info.name), ToStr(info.dtype.name), ShapeOf(info), moments.count,
                        moments.nan, moments.inf, moments.zero, NumberOr(some, moments.min),
                        NumberOr(some, moments.max), NumberOr(some, moments.mean),
                        NumberOr(some, moments.Std()), NumberOr(some, moments.Rms()),
                        NumberOr(some, moments.Norm()));
}

struct Measured {
  Checkpoint checkpoint;
  std::vector<uint32_t> tensors;
  MomentsReport report;
};

nb::list Stats(const FsPath& path, Patterns filters, Patterns excludes, bool verify, int threads) {
  const NameFilter names{std::move(filters), std::move(excludes)};
  const auto measured = Unwrap(WithoutGil([&]() -> Result<Measured> {
    Measured found;
    DSCKPT_ASSIGN_OR_RETURN(found.checkpoint, OpenCheckpoint(path.bytes));
    for (uint32_t i = 0; i < found.checkpoint.tensor_count(); ++i) {
      if (names.Takes(found.checkpoint.tensor(i).name)) found.tensors.push_back(i);
    }
    DSCKPT_ASSIGN_OR_RETURN(found.report, Moments(found.checkpoint, found.tensors,
                                                  {.threads = threads, .verify = verify}));
    return found;
  }));
  nb::list rows;
  for (size_t i = 0; i < measured.tensors.size(); ++i) {
    const auto& moments = measured.report.tensors[i];
    if (moments) rows.append(MomentsRow(measured.checkpoint.tensor(measured.tensors[i]), *moments));
  }
  return rows;
}

nb::object DifferenceRow(const std::optional<Difference>& found) {
  if (!found) return nb::none();
  const bool some = found->finite > 0;
  const auto ratio = found->Ratio(), angle = found->Angle();
  return nb::make_tuple(found->count, found->compared, found->changed, found->nan_a, found->nan_b,
                        NumberOr(some, found->max_abs), NumberOr(some, found->max_rel),
                        NumberOr(some, found->Norm()),
                        NumberOr(ratio.has_value(), ratio.value_or(0)),
                        NumberOr(angle.has_value(), angle.value_or(0)), found->max_ulp);
}

nb::tuple PlaceOf(uint64_t index, std::span<const int64_t> shape) {
  std::vector<uint64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = index % static_cast<uint64_t>(shape[i]);
    index /= static_cast<uint64_t>(shape[i]);
  }
  return nb::tuple(nb::cast(place));
}

nb::list ElementRows(const TensorDiff& diff, const Checkpoint& second) {
  nb::list rows;
  for (const ElementDiff& element : diff.elements) {
    rows.append(nb::make_tuple(PlaceOf(element.index, second.tensor(diff.tensor_b).shape),
                               element.a, element.b, element.distance, element.ulp));
  }
  return rows;
}

nb::object NameOrNone(const std::string& name) {
  return name.empty() ? nb::none() : nb::object(ToStr(name));
}

nb::list DiffPaths(const FsPath& a, const FsPath& b, std::optional<double> relative,
                   std::optional<double> absolute, std::optional<uint64_t> ulp, bool nan_equal,
                   bool whole, uint32_t show, Patterns filters, Patterns excludes, bool verify,
                   int threads) {
  const NameFilter names{std::move(filters), std::move(excludes)};
  DiffOptions options;
  options.reading = {.threads = threads, .verify = verify};
  options.relative_tolerance = relative;
  options.absolute_tolerance = absolute;
  options.ulp = ulp;
  options.nan_equal = nan_equal;
  options.whole = whole;
  options.show = show;
  options.name_a =
      options.name_b = [&names](std::string_view name) -> Result<std::optional<std::string>> {
    return names.Takes(name) ? std::optional(std::string(name)) : std::nullopt;
  };
  Checkpoint second;
  const DiffReport report = Unwrap(WithoutGil([&]() -> Result<DiffReport> {
    DSCKPT_ASSIGN_OR_RETURN(const Checkpoint first, OpenCheckpoint(a.bytes));
    DSCKPT_ASSIGN_OR_RETURN(second, OpenCheckpoint(b.bytes));
    return Diff(first, second, options);
  }));
  nb::list rows;
  for (const TensorDiff& diff : report.tensors) {
    rows.append(nb::make_tuple(ToStr(DiffStateName(diff.state)), NameOrNone(diff.name_a),
                               NameOrNone(diff.name_b), DifferenceRow(diff.difference),
                               ElementRows(diff, second)));
  }
  return rows;
}

}  // namespace

void BindAnalysis(nb::module_& module) {
  module.def("stats", &Stats, "path"_a, nb::kw_only(), "filters"_a = Patterns(),
             "excludes"_a = Patterns(), "verify"_a = true, "threads"_a = 0);
  module.def("diff", &DiffPaths, "a"_a, "b"_a, nb::kw_only(), "rtol"_a = nb::none(),
             "atol"_a = nb::none(), "ulp"_a = nb::none(), "nan_equal"_a = true, "whole"_a = false,
             "show"_a = 0, "filters"_a = Patterns(), "excludes"_a = Patterns(), "verify"_a = true,
             "threads"_a = 0);
}

}  // namespace dsckpt::python
