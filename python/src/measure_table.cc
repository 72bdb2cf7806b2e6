#include "python/src/measure_table.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "python/src/infos.h"
#include "python/src/measure_row.h"

namespace dsckpt::python {
namespace {

using Type = ColumnType;

struct ColumnKind {
  const char* name;
  Type type;
  bool optional;
  /// Whether it says how a tensor moves.
  bool update;
};

constexpr ColumnKind kColumns[] = {
    {"step", Type::kInt64, true, false},      {"prev_step", Type::kInt64, true, true},
    {"name", Type::kText, false, false},      {"group", Type::kText, false, false},
    {"layer", Type::kInt32, true, false},     {"dtype", Type::kText, false, false},
    {"n", Type::kUint64, false, false},       {"n_finite", Type::kUint64, true, false},
    {"nan", Type::kUint64, true, false},      {"inf", Type::kUint64, true, false},
    {"zero", Type::kUint64, true, false},     {"min", Type::kDouble, true, false},
    {"max", Type::kDouble, true, false},      {"absmax", Type::kDouble, true, false},
    {"mean", Type::kDouble, true, false},     {"std", Type::kDouble, true, false},
    {"rms", Type::kDouble, true, false},      {"norm", Type::kDouble, true, false},
    {"upd_norm", Type::kDouble, true, true},  {"upd_rms", Type::kDouble, true, true},
    {"upd_ratio", Type::kDouble, true, true}, {"upd_per_step", Type::kDouble, true, true},
    {"cos_prev", Type::kDouble, true, true},  {"angle_prev", Type::kDouble, true, true},
    {"dist_init", Type::kDouble, true, true}, {"changed", Type::kDouble, true, true},
    {"digest", Type::kText, true, false},     {"same_as_step", Type::kInt64, true, true},
    {"flags", Type::kUint32, false, true}};

/// A number without a value for one that is not finite.
std::optional<double> Finite(std::optional<double> number) {
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// Writes rows into the columns of a table.
class RowWriter {
 public:
  RowWriter(const Trajectory& run, bool updates) : run_(run), updates_(updates) {
    for (const ColumnKind& kind : kColumns) {
      if (updates || !kind.update) table_.columns.emplace_back(kind.name, kind.type, kind.optional);
    }
  }

  void Write(const MeasureRow& row) {
    at_ = 0;
    Next().AddInteger(run_.step(row.checkpoint));
    if (updates_) Next().AddInteger(StepOf(row.before));
    Next().AddText(row.name);
    Next().AddText(row.group);
    Next().AddInteger(row.layer);
    Next().AddText(row.dtype);
    Next().AddInteger(static_cast<int64_t>(row.count));
    WriteMoments(row.moments);
    if (updates_) WriteUpdate(row);
    Next().AddText(ToHex(row.digest));
    if (updates_) {
      Next().AddInteger(StepOf(row.same_as));
      Next().AddInteger(row.flags);
    }
    ++table_.rows;
  }
  Table Take() { return std::move(table_); }

 private:
  TableColumn& Next() { return table_.columns[at_++]; }

  std::optional<int64_t> StepOf(std::optional<uint32_t> checkpoint) const {
    return checkpoint ? run_.step(*checkpoint) : std::nullopt;
  }

  void WriteMoments(const std::optional<TensorMoments>& moments) {
    const TensorMoments m = moments.value_or(TensorMoments{});
    for (const uint64_t count : {m.finite(), m.nan, m.inf, m.zero}) {
      Next().AddInteger(moments ? std::optional(static_cast<int64_t>(count)) : std::nullopt);
    }
    for (const double number : {m.min, m.max, m.AbsMax(), m.mean, m.Std(), m.Rms(), m.Norm()}) {
      Next().Add(m.finite() == 0 ? std::nullopt : Finite(number));
    }
  }

  void WriteUpdate(const MeasureRow& row) {
    // Without a pair of finite elements there are sums of nothing.
    const TensorUpdate* update = row.update && row.update->finite > 0 ? &*row.update : nullptr;
    const auto of = [&](auto number) -> std::optional<double> {
      return update == nullptr ? std::nullopt : Finite(number(*update));
    };
    const auto norm = of([](const TensorUpdate& u) { return u.Norm(); });
    Next().Add(norm);
    Next().Add(of([](const TensorUpdate& u) { return u.Rms(); }));
    Next().Add(of([](const TensorUpdate& u) { return u.Ratio(); }));
    Next().Add(PerStep(row, norm));
    Next().Add(row.turn ? Finite(row.turn->Cosine()) : std::nullopt);
    Next().Add(of([](const TensorUpdate& u) { return u.Angle(); }));
    Next().Add(Finite(row.distance));
    Next().Add(row.update                        ? std::optional(row.update->ChangedShare())
               : (row.flags & kSameContent) != 0 ? std::optional(0.0)
                                                 : std::nullopt);
  }

  std::optional<double> PerStep(const MeasureRow& row, std::optional<double> norm) const {
    const auto step = run_.step(row.checkpoint), before = StepOf(row.before);
    if (!norm || !step || !before || *step == *before) return std::nullopt;
    return *norm / std::abs(static_cast<double>(*step - *before));
  }

  const Trajectory& run_;
  bool updates_;
  Table table_;
  size_t at_ = 0;
};

/// Makes rows of what Measure() gives, tensor by tensor.
class TableMaker {
 public:
  TableMaker(const Trajectory& run, const MeasureQuery& query)
      : run_(run), query_(query), writer_(run, query.updates) {}

  Status Take(uint32_t tensor, std::span<const TensorMeasure> measures) {
    SkipTo(tensor);
    TakeRows(measures);
    return {};
  }

  Table Finish() {
    SkipTo(std::nullopt);
    for (const auto& [group, rows] : groups_) {
      for (const auto& [checkpoint, row] : rows) writer_.Write(row);
    }
    return writer_.Take();
  }

 private:
  /// Tensors that cannot be measured have rows too, but no part in sums.
  void SkipTo(std::optional<uint32_t> tensor) {
    const auto& tensors = query_.selection.tensors;
    while (next_ < tensors.size() && tensors[next_] != tensor) {
      if (query_.sum_groups) {
        ++next_;
      } else {
        TakeRows({});
      }
    }
  }

  void TakeRows(std::span<const TensorMeasure> measures) {
    const uint32_t tensor = query_.selection.tensors[next_];
    for (MeasureRow& row :
         RowsOfTensor(run_, query_.selection, tensor, measures, query_.options.against)) {
      row.group = query_.by_dtype ? row.dtype : query_.groups[next_];
      row.name = query_.sum_groups ? row.group : std::string(run_.tensor(tensor).name);
      row.layer = query_.layers[next_];
      if (query_.sum_groups) {
        const auto [known, added] = groups_[row.group].try_emplace(row.checkpoint, row);
        if (!added) known->second.Join(row);
      } else {
        writer_.Write(row);
      }
    }
    ++next_;
  }

  const Trajectory& run_;
  const MeasureQuery& query_;
  RowWriter writer_;
  size_t next_ = 0;  // By position in the selection.
  std::map<std::string, std::map<uint32_t, MeasureRow>> groups_;
};

}  // namespace

Result<Table> MeasureTable(const Trajectory& run, const MeasureQuery& query) {
  TableMaker maker(run, query);
  const auto take = [&](uint32_t tensor, std::span<const TensorMeasure> measures) {
    return maker.Take(tensor, measures);
  };
  DSCKPT_RETURN_IF_ERROR(Measure(run, query.selection, take, query.options).status());
  return maker.Finish();
}

}  // namespace dsckpt::python
