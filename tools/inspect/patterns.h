#ifndef DSCKPT_TOOLS_INSPECT_PATTERNS_H_
#define DSCKPT_TOOLS_INSPECT_PATTERNS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dsckpt::tools {

/// What has to be equal for two rows of a table to be one.
struct RowDescription {
  std::string_view name;  ///< But for the numbers in it: NamePattern().
  std::string rest;
  uint64_t bytes = 0;  ///< Added up.
};

struct RowGroup {
  size_t first = 0;  ///< The first of its rows.
  uint64_t count = 0;
  uint64_t bytes = 0;
  std::string name;  ///< Of one row: its name; else the pattern.

  /// "x32"; empty for one row.
  std::string CountText() const;
};

/// In the order of the first rows, or with `by_size` the largest first.
std::vector<RowGroup> GroupRows(size_t rows, bool by_size,
                                const std::function<RowDescription(size_t row)>& describe);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_INSPECT_PATTERNS_H_
