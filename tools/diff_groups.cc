#include "tools/diff_groups.h"

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tools/groups.h"
#include "tools/items.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kStateCount = 8;

struct DiffGroup {
  uint64_t tensors = 0;
  std::array<uint64_t, kStateCount> states = {};  // By DiffState.
  std::optional<Difference> difference;

  void Add(const TensorDiff& diff) {
    ++tensors;
    ++states[static_cast<size_t>(diff.state)];
    if (!diff.difference) return;
    difference = difference ? difference->With(*diff.difference) : *diff.difference;
  }
  bool equal() const { return states[static_cast<size_t>(DiffState::kEqual)] == tensors; }
};

Rows NewGroupRows() {
  using enum CellType;
  return Rows(
      {{"name", kText},        {"tensors", kUint64}, {"equal", kUint64},   {"close", kUint64},
       {"differ", kUint64},    {"added", kUint64},   {"removed", kUint64}, {"reshaped", kUint64},
       {"retyped", kUint64},   {"moved", kUint64},   {"n", kUint64},       {"changed", kUint64},
       {"changed%", kDouble},  {"beyond", kUint64},  {"max_abs", kDouble}, {"max_rel", kDouble},
       {"diff_norm", kDouble}, {"ratio", kDouble},   {"angle", kDouble},   {"ulp_max", kUint64},
       {"nan_a", kUint64},     {"nan_b", kUint64},   {"compared", kUint64}},
      {"name", "tensors", "equal", "differ", "max_abs", "max_rel", "diff_norm", "ratio", "angle",
       "changed%", "nan_a", "nan_b"});
}

void AddNumbers(std::vector<Cell>& row, const Difference& found, bool tolerant) {
  const auto if_any = [&](double value) { return found.finite == 0 ? Cell() : Cell(value); };
  const auto if_whole = [&](uint64_t value) { return found.whole() ? Cell(value) : Cell(); };
  const double share = found.count == 0 ? 0
                                        : 100 * static_cast<double>(found.changed) /
                                              static_cast<double>(found.count);
  row.emplace_back(found.count);
  row.emplace_back(found.changed);
  row.emplace_back(share);
  row.push_back(tolerant ? Cell(found.beyond) : Cell());
  row.push_back(if_any(found.max_abs));
  row.push_back(if_any(found.max_rel));
  row.push_back(if_any(found.Norm()));
  row.push_back(MaybeCell(found.Ratio()));
  row.push_back(MaybeCell(found.Angle()));
  row.push_back(found.max_ulp ? Cell(*found.max_ulp) : Cell());
  row.push_back(if_whole(found.nan_a));
  row.push_back(if_whole(found.nan_b));
  row.emplace_back(found.compared);
}

}  // namespace

Rows GroupDiffs(const Checkpoint& a, const Checkpoint& b, const DiffReport& report,
                const std::string& by, bool all, bool tolerant) {
  std::map<std::string, DiffGroup> groups;
  for (const TensorDiff& diff : report.tensors) {
    const bool in_b = !diff.name_b.empty();
    const LogicalTensorInfo info = in_b ? b.tensor(diff.tensor_b) : a.tensor(diff.tensor_a);
    groups[GroupOf(by, in_b ? diff.name_b : diff.name_a, DTypeText(info.dtype))].Add(diff);
  }
  Rows rows = NewGroupRows();
  for (const auto& [name, group] : groups) {
    if (group.equal() && !all) continue;
    std::vector<Cell> row = {name, group.tensors};
    for (const uint64_t count : group.states) row.emplace_back(count);
    if (group.difference) {
      AddNumbers(row, *group.difference, tolerant);
    } else {
      row.resize(23);
    }
    rows.Add(std::move(row));
  }
  return rows;
}

}  // namespace dsckpt::tools
