#ifndef DSCKPT_TOOLS_TERMINAL_TABLE_H_
#define DSCKPT_TOOLS_TERMINAL_TABLE_H_

// Aligned tables.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dsckpt::tools {

class Console;

struct Column {
  const char* heading;
  enum class Align { kLeft, kRight } align = Align::kLeft;
  /// May be cut to fit a terminal. The first such column holds names.
  bool shrinks = false;
};

/// Fills `cells`, one for each column, with printable text. Called several times a row: to measure,
/// to print, so that a table of any length takes no memory.
using FillRow = std::function<void(size_t row, std::vector<std::string>& cells)>;

/// Prints headings and rows, aligned. Columns without content are left out. On a terminal lines are
/// cut to its width; elsewhere nothing is cut.
void PrintTable(Console& console, const std::vector<Column>& columns, size_t rows,
                const FillRow& fill);

/// Says how many rows of a table were left out, if any.
void PrintMore(Console& console, uint64_t more);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_TABLE_H_
