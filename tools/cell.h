#ifndef DSCKPT_TOOLS_CELL_H_
#define DSCKPT_TOOLS_CELL_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// What stands in one place of a table of results.

namespace dsckpt::tools {

/// Nothing, a text, a count, a number, a shape, or an integer that may be negative. A number that
/// is not finite has no value.
using Cell =
    std::variant<std::monostate, std::string, uint64_t, double, std::vector<int64_t>, int64_t>;

/// What the cells of a column are, where they have a value. Integers may stand in either
/// alternative of a Cell.
enum class CellType : uint8_t { kText, kUint32, kUint64, kInt32, kInt64, kDouble, kShape };

/// A column and what is in it.
struct CellColumn {
  std::string name;
  CellType type;
};

inline bool IsMissing(const Cell& cell) {
  if (const double* number = std::get_if<double>(&cell)) return !std::isfinite(*number);
  return std::holds_alternative<std::monostate>(cell);
}

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_CELL_H_
