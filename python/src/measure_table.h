#ifndef DSCKPT_PYTHON_MEASURE_TABLE_H_
#define DSCKPT_PYTHON_MEASURE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/trajectory_measures.h"
#include "python/src/table.h"

// What Measure() says of a run, as a table with the columns of the command trace.

namespace dsckpt::python {

/// What is measured, and how it is written down.
struct MeasureQuery {
  TrajectorySelection selection;
  /// By position in `selection.tensors`: the group, and the layer that the name tells.
  std::vector<std::string> groups;
  std::vector<std::optional<int64_t>> layers;  ///< See above.
  /// Rows are of groups, which are summed up, instead of tensors.
  bool sum_groups = false;
  /// Groups are dtypes.
  bool by_dtype = false;
  /// Columns that say what changed, too.
  bool updates = true;
  MeasureOptions options;
};

/// Reads the selected tensors. The rows are in the order of names, then of checkpoints.
/// Errors: those of Measure().
Result<Table> MeasureTable(const Trajectory& run, const MeasureQuery& query);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_MEASURE_TABLE_H_
