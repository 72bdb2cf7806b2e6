#include "tools/report/collect.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <variant>

#include "tools/groups.h"
#include "tools/items.h"

namespace dsckpt::tools {
namespace {

/// More are of no use on a page: each is a tensor in a checkpoint, or several.
constexpr size_t kMostFindings = 500;
constexpr size_t kMostAttributes = 8;
constexpr size_t kMostLeftOut = 100;

uint64_t ElementsOf(const TrajectoryForm& form) {
  const auto elements = ElementCount(form.shape);
  return elements.ok() ? *elements : 0;
}

std::optional<double> NumberOf(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

/// The straight way over the way that was gone.
std::optional<double> StraightnessOf(std::span<const TensorMeasure> measures) {
  double way = 0;
  for (const TensorMeasure& measure : measures) {
    if (measure.update) way += measure.update->Norm();
  }
  if (measures.empty() || way == 0) return std::nullopt;
  return measures.back().distance / way;
}

}  // namespace

ReportCollector::ReportCollector(const Trace& trace)
    : trace_(trace),
      report_(static_cast<uint32_t>(trace.selection.checkpoints.size()), kReportColumns),
      position_(trace.run.size()) {
  const Trajectory& run = trace.run;
  for (uint32_t k = 0; k < trace.selection.checkpoints.size(); ++k) {
    const uint32_t t = trace.selection.checkpoints[k];
    position_[t] = k;
    report_.steps.push_back(run.step(t));
    report_.operands.push_back(run.operand(t));
  }
  AddAttributes();
  const auto& skipped = run.skipped();
  report_.left_out.assign(skipped.begin(), skipped.begin() + static_cast<ptrdiff_t>(std::min(
                                                                 skipped.size(), kMostLeftOut)));
}

void ReportCollector::AddAttributes() {
  const auto& checkpoints = trace_.selection.checkpoints;
  std::map<std::string, std::vector<std::optional<double>>> found;
  for (size_t k = 0; k < checkpoints.size(); ++k) {
    for (const auto& [name, value] : trace_.run.attributes(checkpoints[k])) {
      const auto number = NumberOf(value);
      if (!number || name == "step") continue;
      found.try_emplace(name, checkpoints.size()).first->second[k] = number;
    }
  }
  for (auto& [name, values] : found) {
    const std::set<std::optional<double>> different(values.begin(), values.end());
    if (different.size() < 2 || report_.attributes.size() == kMostAttributes) continue;
    report_.attributes.push_back({name, std::move(values)});
  }
}

void ReportCollector::AddMeasured(uint32_t tensor, std::span<const TensorMeasure> measures) {
  const Trajectory& run = trace_.run;
  std::vector<ReportCell> cells;
  for (const TensorMeasure& measure : measures) {
    const auto form = run.Form(measure.checkpoint, tensor);
    std::optional<int64_t> gap;
    const auto step = run.step(measure.checkpoint);
    const auto before = measure.before ? run.step(*measure.before) : std::nullopt;
    if (step && before) gap = *step - *before;
    ReportCell& cell = cells.emplace_back(
        CellOf(measure, gap, form ? form->dtype.code : run.tensor(tensor).dtype.code));
    cell.step = position_[measure.checkpoint];
    const bool same = measure.update && measure.update->changed == 0;
    cell.content = same && cells.size() > 1 ? cells[cells.size() - 2].content : cell.step;
    if (measure.first_nan) first_nan_[{measure.checkpoint, tensor}] = *measure.first_nan;
  }
  const std::vector<TrajectoryEvent> events =
      FindTensorEvents(run, trace_.selection, tensor, measures);
  events_.insert(events_.end(), events.begin(), events.end());
  report_.scope.measured += measures.size();
  AddRow(tensor, std::move(cells));
  report_.rows.back().straightness = StraightnessOf(measures);
}

void ReportCollector::AddIndexed(uint32_t tensor) {
  const Trajectory& run = trace_.run;
  std::vector<ReportCell> cells;
  for (const uint32_t t : trace_.selection.checkpoints) {
    const auto form = run.Form(t, tensor);
    if (!form) continue;
    ReportCell& cell = cells.emplace_back();
    cell.step = position_[t];
    const auto statistics = run.Statistics(t, tensor);
    if (!statistics) continue;
    ++report_.scope.measured;
    cell.value(ReportMetric::kNan) = static_cast<double>(statistics->nan);
    cell.value(ReportMetric::kInf) = static_cast<double>(statistics->inf);
    if (statistics->nan + statistics->inf < ElementsOf(*form)) {
      cell.value(ReportMetric::kNorm) = std::sqrt(statistics->sum_squares);
    }
  }
  AddRow(tensor, std::move(cells));
}

/// What indexes say of content goes before what was measured: it knows equal checkpoints that are
/// far apart.
void ReportCollector::NoteContent(uint32_t tensor, std::span<ReportCell> cells) {
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first;
  for (size_t i = 0; i < cells.size(); ++i) {
    ReportCell& cell = cells[i];
    const auto digest = trace_.run.Content(trace_.selection.checkpoints[cell.step], tensor);
    if (digest) {
      ++report_.scope.with_content;
      cell.content = first.emplace(std::pair(digest->high, digest->low), cell.step).first->second;
    }
    if (i > 0 && cell.content && cell.content == cells[i - 1].content) cell.flags |= kFlagSame;
  }
}

void ReportCollector::NoteForms(uint32_t tensor, std::span<ReportCell> cells) {
  std::optional<TrajectoryForm> before;
  for (ReportCell& cell : cells) {
    const auto form = trace_.run.Form(trace_.selection.checkpoints[cell.step], tensor);
    if (!form) continue;
    const bool other = before && (before->dtype.code != form->dtype.code ||
                                  !std::ranges::equal(before->shape, form->shape));
    if (other) cell.flags |= kFlagRetyped;
    before = form;
    ++report_.scope.cells;
    report_.scope.bytes += form->bytes;
  }
}

void ReportCollector::AddSizes(uint32_t tensor) {
  const auto& checkpoints = trace_.selection.checkpoints;
  for (size_t k = checkpoints.size(); k-- > 0;) {
    const auto form = trace_.run.Form(checkpoints[k], tensor);
    if (!form) continue;
    const std::string module = GroupOf("module", trace_.run.tensor(tensor).name, "");
    const std::string dtype = DTypeText(form->dtype);
    ReportSize& size = sizes_[{module, dtype}];
    size.module = module;
    size.dtype = dtype;
    ++size.tensors;
    size.elements += ElementsOf(*form);
    size.bytes += form->bytes;
    return;
  }
}

void ReportCollector::AddRow(uint32_t tensor, std::vector<ReportCell> cells) {
  NoteContent(tensor, cells);
  NoteForms(tensor, cells);
  AddSizes(tensor);
  const TrajectoryTensor about = trace_.run.tensor(tensor);
  ReportRow row;
  row.name = about.name;
  row.module = NamePattern(about.name);
  row.layer = LayerOf(about.name);
  row.dtype = DTypeText(about.dtype);
  row.shape = ShapeText(about.shape);
  row.elements = ElementsOf({about.dtype, about.shape, 0});
  row_of_tensor_[tensor] = static_cast<uint32_t>(report_.rows.size());
  report_.rows.push_back(std::move(row));
  report_.cells.AddRow(cells);
}

/// Events that differ in the numbers of the name alone become one finding, as in dsckpt trace.
void ReportCollector::AddFinding(const TrajectoryEvent& event) {
  const auto row = event.tensor ? row_of_tensor_.find(*event.tensor) : row_of_tensor_.end();
  ReportFinding finding;
  finding.kind = TrajectoryEventName(event.kind);
  finding.step = event.step;
  if (event.other) finding.other_step = trace_.run.step(*event.other);
  finding.column_step = position_[event.checkpoint];
  if (row != row_of_tensor_.end()) {
    finding.row = row->second;
    finding.name = report_.rows[row->second].name;
    if (event.kind == TrajectoryEventKind::kJump) {
      report_.cells.AddFlag(row->second, finding.column_step, kFlagJump);
    }
  }
  for (auto known = report_.findings.rbegin(); known != report_.findings.rend(); ++known) {
    if (known->kind != finding.kind || known->column_step != finding.column_step) break;
    if (!finding.row || !known->row) continue;
    if (report_.rows[*known->row].module != report_.rows[*finding.row].module) continue;
    ++known->tensors;
    known->name = report_.rows[*finding.row].module;
    return;
  }
  if (report_.findings.size() == kMostFindings) {
    ++report_.more_findings;
    return;
  }
  finding.value = event.value;
  finding.threshold = event.threshold;
  if (event.tensor) {
    const auto index = first_nan_.find({event.checkpoint, *event.tensor});
    if (index != first_nan_.end()) finding.first_nan = index->second;
  }
  finding.command = CommandFor(trace_, event);
  report_.findings.push_back(std::move(finding));
}

Report ReportCollector::Finish(std::vector<TrajectoryEvent> events) {
  events_.insert(events_.end(), events.begin(), events.end());
  SortEvents(events_);
  for (const TrajectoryEvent& event : events_) AddFinding(event);
  for (auto& [key, size] : sizes_) report_.sizes.push_back(std::move(size));
  std::ranges::stable_sort(report_.sizes, std::greater<>(), &ReportSize::bytes);
  PairMoments(report_.rows);
  return std::move(report_);
}

}  // namespace dsckpt::tools
