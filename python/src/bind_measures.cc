// What happened in a run, from indexes or from elements; and tables of how tensors move.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/trajectory_events.h"
#include "dsckpt/trajectory_measures.h"
#include "python/src/bind.h"
#include "python/src/measure_table.h"
#include "python/src/status.h"
#include "python/src/table.h"
#include "python/src/text.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;

/// As _native.Reading: how elements are read.
struct Reading {
  std::optional<uint32_t> against;
  uint64_t memory;
  int threads;
  bool verify;
  std::optional<FsPath> cache;

  MeasureOptions ToOptions(const Trajectory& run) const {
    if (against && *against >= run.size()) throw nb::index_error("no such checkpoint");
    MeasureOptions options;
    options.reading.threads = threads;
    options.reading.verify = verify;
    options.memory = memory;
    options.against = against;
    return options;
  }
};

TrajectorySelection SelectTensors(const Trajectory& run, const std::vector<uint32_t>& tensors) {
  TrajectorySelection selection = SelectAll(run);
  for (const uint32_t tensor : tensors) {
    if (tensor >= run.tensor_count()) throw nb::index_error("no such tensor");
  }
  selection.tensors = tensors;
  return selection;
}

/// Runs `measure` with what is known, and keeps what it adds also where it fails. GIL not held.
template <typename Measuring>
auto WithCache(const std::optional<FsPath>& file, MeasureOptions& options, Measuring measure)
    -> decltype(measure()) {
  if (!file) return measure();
  MeasureCache cache;
  DSCKPT_RETURN_IF_ERROR(cache.Load(file->bytes));
  options.cache = &cache;
  auto measured = measure();
  const Status saved = cache.Save(file->bytes);
  if (measured.ok() && !saved.ok()) return saved;
  return measured;
}

SharedTable MeasureRun(const Trajectory& run, const std::vector<uint32_t>& tensors,
                       std::vector<std::string> groups, std::vector<std::optional<int64_t>> layers,
                       const std::string& by, bool updates, const Reading& reading) {
  MeasureQuery query;
  query.selection = SelectTensors(run, tensors);
  if (groups.size() != tensors.size() || layers.size() != tensors.size()) {
    ThrowInvalid("each tensor has a group and a layer");
  }
  query.groups = std::move(groups);
  query.layers = std::move(layers);
  query.sum_groups = by != "tensor";
  query.by_dtype = by == "dtype";
  query.updates = updates;
  query.options = reading.ToOptions(run);
  return {std::make_shared<Table>(Unwrap(WithoutGil([&] {
    return WithCache(reading.cache, query.options, [&] { return MeasureTable(run, query); });
  })))};
}

using Events = std::vector<TrajectoryEvent>;

Result<Events> ReadEvents(const Trajectory& run, const TrajectorySelection& selection,
                          const MeasureOptions& options) {
  Events events = FindRunEvents(run, selection);
  const auto take = [&](uint32_t tensor, std::span<const TensorMeasure> measures) {
    const Events found = FindTensorEvents(run, selection, tensor, measures);
    events.insert(events.end(), found.begin(), found.end());
    return Status();
  };
  DSCKPT_ASSIGN_OR_RETURN(const MeasureSummary summary, Measure(run, selection, take, options));
  for (const uint32_t tensor : summary.skipped) (void)take(tensor, {});
  SortEvents(events);
  return events;
}

nb::list ToList(const Trajectory& run, const Events& events) {
  nb::list out;
  for (const TrajectoryEvent& event : events) {
    std::optional<nb::str> name;
    if (event.tensor) name = ToStr(run.tensor(*event.tensor).name);
    out.append(nb::make_tuple(ToStr(TrajectoryEventName(event.kind)), event.checkpoint, event.step,
                              event.other, name, event.value, event.threshold, event.element));
  }
  return out;
}

nb::list EventsOf(const Trajectory& run, const std::vector<uint32_t>& tensors,
                  const std::optional<Reading>& reading) {
  const TrajectorySelection selection = SelectTensors(run, tensors);
  if (!reading) return ToList(run, FindEvents(run, selection));
  MeasureOptions options = reading->ToOptions(run);
  const Events found = Unwrap(WithoutGil([&] {
    return WithCache(reading->cache, options, [&] { return ReadEvents(run, selection, options); });
  }));
  return ToList(run, found);
}

}  // namespace

void BindMeasures(nb::module_& module) {
  nb::class_<Reading>(module, "Reading")
      .def(
          "__init__",
          [](Reading* self, std::optional<uint32_t> against, uint64_t memory, int threads,
             bool verify, std::optional<FsPath> cache) {
            new (self) Reading{against, memory, threads, verify, std::move(cache)};
          },
          nb::kw_only(), "against"_a.none(), "memory"_a, "threads"_a, "verify"_a, "cache"_a.none());
  module.def("measure", &MeasureRun, "run"_a, "tensors"_a, "groups"_a, "layers"_a, nb::kw_only(),
             "by"_a, "updates"_a, "reading"_a);
  module.def("events", &EventsOf, "run"_a, "tensors"_a, "reading"_a.none());
  module.def(
      "divide",
      [](const Trajectory& run, const std::vector<uint32_t>& tensors, uint32_t parts) {
        if (parts == 0) ThrowInvalid("there is at least one part");
        return DivideTensors(run, SelectTensors(run, tensors), parts);
      },
      "run"_a, "tensors"_a, "parts"_a);
}

}  // namespace dsckpt::python
