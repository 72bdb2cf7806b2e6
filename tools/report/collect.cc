#include "tools/report/collect.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "tools/groups.h"
#include "tools/items.h"

namespace dsckpt::tools {
namespace {

/// More are of no use on a page: each is a tensor in a checkpoint, or several.
constexpr size_t kMostFindings = 500;
constexpr size_t kMostAttributes = 8;
constexpr size_t kMostLeftOut = 100;

uint64_t ElementsOf(std::span<const int64_t> shape) {
  const auto elements = ElementCount(shape);
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

/// Puts a report together, tensor by tensor.
class Collector {
 public:
  explicit Collector(const Trace& trace);

  void AddAttributes();
  void AddTensor(size_t position);
  void AddFinding(const TrajectoryEvent& event);
  Report Finish();

 private:
  std::vector<ReportCell> MeasuredCells(std::span<const TensorMeasure> measures);
  std::vector<ReportCell> IndexedCells(uint32_t tensor);
  void NoteContent(uint32_t tensor, std::span<ReportCell> cells);
  void NoteForms(uint32_t tensor, std::span<ReportCell> cells);
  void AddSizes(uint32_t tensor);
  /// The finding of which this is one more.
  ReportFinding* FindSame(const ReportFinding& finding);

  uint32_t CheckpointOf(const ReportCell& cell) const {
    return trace_.selection.checkpoints[cell.step];
  }

  const Trace& trace_;
  Report report_;
  std::vector<uint32_t> step_of_;  // by checkpoint: its position among the selected ones
  std::map<uint32_t, uint32_t> row_of_;
  std::map<std::pair<std::string, std::string>, ReportSize> sizes_;
};

Collector::Collector(const Trace& trace)
    : trace_(trace),
      report_(static_cast<uint32_t>(trace.selection.checkpoints.size()), kReportColumns),
      step_of_(trace.run.size()) {
  const Trajectory& run = trace.run;
  for (const uint32_t t : trace.selection.checkpoints) {
    step_of_[t] = static_cast<uint32_t>(report_.steps.size());
    report_.steps.push_back(run.step(t));
    report_.operands.push_back(run.operand(t));
  }
  for (const auto& entry : run.skipped()) {
    if (report_.left_out.size() < kMostLeftOut) report_.left_out.push_back(entry);
  }
  report_.scope.quick = trace.quick;
  report_.scope.read_bytes = run.index_bytes() + trace.summary.read_bytes;
  report_.scope.skipped = trace.summary.skipped.size();
}

void Collector::AddAttributes() {
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

std::vector<ReportCell> Collector::MeasuredCells(std::span<const TensorMeasure> measures) {
  const Trajectory& run = trace_.run;
  std::vector<ReportCell> cells;
  for (const TensorMeasure& measure : measures) {
    const auto step = run.step(measure.checkpoint);
    const auto before = measure.before ? run.step(*measure.before) : std::nullopt;
    const auto gap = step && before ? std::optional(*step - *before) : std::nullopt;
    const auto form = run.Form(measure.checkpoint, measure.tensor);
    const DTypeInfo dtype = form ? form->dtype : run.tensor(measure.tensor).dtype;
    ReportCell cell = CellOf(measure, gap, dtype.code);
    cell.step = step_of_[measure.checkpoint];
    const bool same = !cells.empty() && measure.update && measure.update->changed == 0;
    cell.content = same ? cells.back().content : cell.step;
    cells.push_back(cell);
  }
  report_.scope.measured += cells.size();
  return cells;
}

std::vector<ReportCell> Collector::IndexedCells(uint32_t tensor) {
  std::vector<ReportCell> cells;
  for (const uint32_t t : trace_.selection.checkpoints) {
    const auto form = trace_.run.Form(t, tensor);
    if (!form) continue;
    ReportCell& cell = cells.emplace_back();
    cell.step = step_of_[t];
    const auto statistics = trace_.run.Statistics(t, tensor);
    if (!statistics) continue;
    ++report_.scope.measured;
    cell.value(ReportMetric::kNan) = static_cast<double>(statistics->nan);
    cell.value(ReportMetric::kInf) = static_cast<double>(statistics->inf);
    if (statistics->nan + statistics->inf < ElementsOf(form->shape)) {
      cell.value(ReportMetric::kNorm) = std::sqrt(statistics->sum_squares);
    }
  }
  return cells;
}

/// What indexes say of content goes before what was measured: it knows equal checkpoints that are
/// far apart.
void Collector::NoteContent(uint32_t tensor, std::span<ReportCell> cells) {
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first;
  std::optional<uint32_t> before;
  for (ReportCell& cell : cells) {
    if (const auto digest = trace_.run.Content(CheckpointOf(cell), tensor)) {
      ++report_.scope.with_content;
      cell.content = first.emplace(std::pair(digest->high, digest->low), cell.step).first->second;
    }
    if (cell.content && cell.content == before) cell.flags |= kFlagSame;
    before = cell.content;
  }
}

void Collector::NoteForms(uint32_t tensor, std::span<ReportCell> cells) {
  std::optional<TrajectoryForm> before;
  for (ReportCell& cell : cells) {
    const auto form = trace_.run.Form(CheckpointOf(cell), tensor);
    if (!form) continue;
    const bool other = before && (before->dtype.code != form->dtype.code ||
                                  !std::ranges::equal(before->shape, form->shape));
    if (other) cell.flags |= kFlagOther;
    before = form;
    ++report_.scope.cells;
    report_.scope.bytes += form->bytes;
  }
}

void Collector::AddSizes(uint32_t tensor) {
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
    size.elements += ElementsOf(form->shape);
    size.bytes += form->bytes;
    return;
  }
}

void Collector::AddTensor(size_t position) {
  const uint32_t tensor = trace_.selection.tensors[position];
  const TrajectoryTensor about = trace_.run.tensor(tensor);
  ReportRow row;
  row.name = about.name;
  row.module = NamePattern(about.name);
  row.layer = LayerOf(about.name);
  row.dtype = DTypeText(about.dtype);
  row.shape = ShapeText(about.shape);
  row.elements = ElementsOf(about.shape);
  std::vector<ReportCell> cells;
  // Tensors that cannot be measured have no measures.
  if (trace_.quick || trace_.measures[position].empty()) {
    cells = IndexedCells(tensor);
  } else {
    cells = MeasuredCells(trace_.measures[position]);
    row.straightness = StraightnessOf(trace_.measures[position]);
  }
  NoteContent(tensor, cells);
  NoteForms(tensor, cells);
  AddSizes(tensor);
  row_of_[tensor] = static_cast<uint32_t>(report_.rows.size());
  report_.rows.push_back(std::move(row));
  report_.cells.AddRow(cells);
}

ReportFinding* Collector::FindSame(const ReportFinding& finding) {
  if (!finding.row) return nullptr;
  for (size_t i = report_.findings.size(); i-- > 0;) {
    ReportFinding& known = report_.findings[i];
    if (known.kind != finding.kind || known.column_step != finding.column_step) return nullptr;
    if (known.row && report_.rows[*known.row].module == report_.rows[*finding.row].module) {
      return &known;
    }
  }
  return nullptr;
}

void Collector::AddFinding(const TrajectoryEvent& event) {
  ReportFinding finding;
  finding.kind = TrajectoryEventName(event.kind);
  finding.step = event.step;
  if (event.other) finding.other_step = trace_.run.step(*event.other);
  finding.column_step = step_of_[event.checkpoint];
  if (event.tensor) {
    finding.row = row_of_.at(*event.tensor);
    finding.name = report_.rows[*finding.row].name;
    if (event.kind == TrajectoryEventKind::kJump) {
      report_.cells.AddFlag(*finding.row, finding.column_step, kFlagJump);
    }
  }
  if (ReportFinding* const same = FindSame(finding)) {
    ++same->tensors;
    same->name = report_.rows[*same->row].module;
    return;
  }
  if (report_.findings.size() == kMostFindings) {
    ++report_.more_findings;
    return;
  }
  finding.value = event.value;
  finding.threshold = event.threshold;
  finding.first_nan = event.element;
  finding.command = CommandFor(trace_, event);
  report_.findings.push_back(std::move(finding));
}

Report Collector::Finish() {
  for (auto& [key, size] : sizes_) report_.sizes.push_back(std::move(size));
  std::ranges::stable_sort(report_.sizes, std::greater<>(), &ReportSize::bytes);
  PairMoments(report_.rows);
  return std::move(report_);
}

}  // namespace

Report CollectReport(const Trace& trace) {
  Collector collector(trace);
  collector.AddAttributes();
  for (size_t position = 0; position < trace.selection.tensors.size(); ++position) {
    collector.AddTensor(position);
  }
  for (const TrajectoryEvent& event : trace.events) collector.AddFinding(event);
  return collector.Finish();
}

}  // namespace dsckpt::tools
