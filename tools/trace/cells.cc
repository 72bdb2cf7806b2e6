// The long table's columns.

#include <cmath>
#include <cstdlib>

#include "tools/items.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

Cell StepCell(const Trajectory& run, std::optional<uint32_t> t) {
  const auto step = t ? run.step(*t) : std::nullopt;
  return step ? Cell(*step) : Cell();
}

Cell CountCell(std::optional<uint64_t> count) { return count ? Cell(*count) : Cell(); }

void AddMoments(std::vector<Cell>& cells, const std::optional<TensorMoments>& moments) {
  const auto count = [&](auto get) {
    cells.push_back(moments ? Cell(static_cast<uint64_t>(get(*moments))) : Cell());
  };
  count([](const TensorMoments& m) { return m.finite(); });
  count([](const TensorMoments& m) { return m.nan; });
  count([](const TensorMoments& m) { return m.inf; });
  count([](const TensorMoments& m) { return m.zero; });
  const bool known = moments && moments->finite() != 0;
  const auto number = [&](auto get) { cells.push_back(known ? Cell(get(*moments)) : Cell()); };
  number([](const TensorMoments& m) { return m.min; });
  number([](const TensorMoments& m) { return m.max; });
  number([](const TensorMoments& m) { return m.AbsMax(); });
  number([](const TensorMoments& m) { return m.mean; });
  number([](const TensorMoments& m) { return m.Std(); });
  number([](const TensorMoments& m) { return m.Rms(); });
  number([](const TensorMoments& m) { return m.Norm(); });
}

/// The update by step.
std::optional<double> PerStep(const Trajectory& run, const TraceRow& row, double norm) {
  const auto step = run.step(row.checkpoint);
  const auto before = row.before ? run.step(*row.before) : std::nullopt;
  if (!step || !before || *step == *before) return std::nullopt;
  return norm / std::abs(static_cast<double>(*step - *before));
}

void AddUpdate(std::vector<Cell>& cells, const Trajectory& run, const TraceRow& row) {
  // Without a pair of finite elements there are sums of nothing.
  const TensorUpdate* const update = row.update && row.update->finite != 0 ? &*row.update : nullptr;
  const auto norm = update != nullptr ? std::optional(update->Norm()) : std::nullopt;
  cells.push_back(MaybeCell(norm));
  cells.push_back(update != nullptr ? Cell(update->Rms()) : Cell());
  cells.push_back(update != nullptr ? MaybeCell(update->Ratio()) : Cell());
  cells.push_back(norm ? MaybeCell(PerStep(run, row, *norm)) : Cell());
  cells.push_back(row.turn ? MaybeCell(row.turn->Cosine()) : Cell());
  cells.push_back(update != nullptr ? MaybeCell(update->Angle()) : Cell());
  cells.push_back(MaybeCell(row.distance));
  if (row.update) {
    cells.emplace_back(row.update->ChangedShare());
  } else {
    cells.push_back((row.flags & kFlagSame) != 0 ? Cell(0.0) : Cell());
  }
}

std::vector<Cell> CellsOf(const Trajectory& run, const TraceRow& row) {
  std::vector<Cell> cells = {StepCell(run, row.checkpoint),
                             StepCell(run, row.before),
                             row.name,
                             row.group,
                             CountCell(row.layer),
                             row.dtype,
                             row.count};
  AddMoments(cells, row.moments);
  AddUpdate(cells, run, row);
  cells.push_back(row.digest ? Cell(HexDigest(*row.digest)) : Cell());
  cells.push_back(StepCell(run, row.same_as));
  cells.emplace_back(row.flags);
  return cells;
}

}  // namespace

Rows EmptyTraceRows() {
  using enum CellType;
  return Rows({{"step", kInt64},       {"prev_step", kInt64},
               {"name", kText},        {"group", kText},
               {"layer", kInt32},      {"dtype", kText},
               {"n", kUint64},         {"n_finite", kUint64},
               {"nan", kUint64},       {"inf", kUint64},
               {"zero", kUint64},      {"min", kDouble},
               {"max", kDouble},       {"absmax", kDouble},
               {"mean", kDouble},      {"std", kDouble},
               {"rms", kDouble},       {"norm", kDouble},
               {"upd_norm", kDouble},  {"upd_rms", kDouble},
               {"upd_ratio", kDouble}, {"upd_per_step", kDouble},
               {"cos_prev", kDouble},  {"angle_prev", kDouble},
               {"dist_init", kDouble}, {"changed", kDouble},
               {"digest", kText},      {"same_as_step", kInt64},
               {"flags", kUint32}},
              {"step", "name", "nan", "norm", "upd_ratio", "cos_prev", "dist_init", "changed"});
}

void ForEachTraceRow(const Trace& trace, const std::string& by, const TakeTraceRow& take) {
  if (by != "tensor") {
    for (const TraceRow& row : RowsOfGroups(trace, by)) {
      if (!take(CellsOf(trace.run, row))) return;
    }
    return;
  }
  for (size_t position = 0; position < trace.selection.tensors.size(); ++position) {
    for (const TraceRow& row : RowsOfTensor(trace, position)) {
      if (!take(CellsOf(trace.run, row))) return;
    }
  }
}

}  // namespace dsckpt::tools
