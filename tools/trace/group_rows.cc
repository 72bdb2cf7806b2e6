// Rows of groups: sums of tensors, as if they were one.

#include <cmath>
#include <map>
#include <utility>

#include "tools/groups.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

/// Nothing and a sum make the sum.
template <typename Sum>
void JoinSum(std::optional<Sum>& sum, const std::optional<Sum>& more) {
  if (!more) return;
  sum = sum ? sum->With(*more) : *more;
}

/// Of values that are not the same there is none.
template <typename Value>
void KeepEqual(std::optional<Value>& value, const std::optional<Value>& other) {
  if (value != other) value.reset();
}

void JoinRow(TraceRow& row, const TraceRow& more) {
  KeepEqual(row.before, more.before);
  KeepEqual(row.layer, more.layer);
  KeepEqual(row.same_as, more.same_as);
  if (row.dtype != more.dtype) row.dtype = "mixed";
  row.count += more.count;
  // A sum that lacks some of the tensors says nothing.
  if (row.moments && more.moments) {
    row.moments = row.moments->With(*more.moments);
  } else {
    row.moments.reset();
  }
  JoinSum(row.update, more.update);
  JoinSum(row.turn, more.turn);
  if (row.distance && more.distance) row.distance = std::hypot(*row.distance, *more.distance);
  row.digest.reset();
  const uint64_t both = row.flags & more.flags & kFlagSame;
  row.flags = ((row.flags | more.flags) & ~uint64_t{kFlagSame}) | both;
}

}  // namespace

std::vector<TraceRow> RowsOfGroups(const Trace& trace, const std::string& by) {
  std::map<std::string, std::map<uint32_t, TraceRow>> groups;
  for (size_t position = 0; position < trace.selection.tensors.size(); ++position) {
    // What cannot be measured is told as skipped, and leaves no hole in sums.
    if (!trace.quick && trace.measures[position].empty()) continue;
    for (TraceRow& row : RowsOfTensor(trace, position)) {
      const std::string group = GroupOf(by, row.name, row.dtype);
      row.name = row.group = group;
      const auto [known, added] = groups[group].try_emplace(row.checkpoint, row);
      if (!added) JoinRow(known->second, row);
    }
  }
  std::vector<TraceRow> rows;
  for (auto& [name, by_checkpoint] : groups) {
    for (auto& [checkpoint, row] : by_checkpoint) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dsckpt::tools
