#ifndef DSCKPT_TOOLS_ROWS_H_
#define DSCKPT_TOOLS_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"
#include "tools/cell.h"
#include "tools/row_writer.h"
#include "tools/terminal/command_line.h"

// Results that are rows of numbers: chosen, sorted, and written as a table, CSV, JSON or Arrow.

namespace dsckpt::tools {

class Console;

/// "csv", "jsonl", "json" or "arrow", by the suffix of a file's name; "table" for any other.
std::string FormatOfName(std::string_view file);
/// --format.
void AddFormatOption(CommandLine& line, std::string& format);

Cell MaybeCell(const std::optional<double>& number);

/// What the command line says of the output.
struct RowOptions {
  std::string format;  ///< "table", "csv", "jsonl", "json", "arrow"; empty: as it fits
  std::string file;    ///< empty: standard output
  std::vector<std::string> columns;  ///< empty: those of the command
  std::string sort;                  ///< COLUMN or COLUMN:desc
  std::optional<uint64_t> limit;
};

/// --format, -o, --columns, --sort and --limit.
void AddRowOptions(CommandLine& line, RowOptions& options);

/// Rows under named columns.
class Rows {
 public:
  /// `shown`: the columns that a table has by itself.
  Rows(std::vector<CellColumn> columns, std::vector<std::string> shown);

  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  size_t size() const { return rows_.size(); }
  /// All cells of a row, in the order of the columns that were named first.
  const std::vector<Cell>& row(size_t i) const { return rows_[i]; }

  /// Sorts, cuts and chooses. kInvalidArgument: there is no such column.
  Status Arrange(const RowOptions& options);
  /// Writes the rows. `head` and `tail`: members of the JSON document before and behind "rows", as
  /// text, such as "\"path\":\"x\"". Returns what kept it from being written.
  Status Write(Console& console, const RowOptions& options, const std::string& head,
               const std::string& tail) const;
  /// What Write() writes into, for rows that are not kept. REQUIRES: it is no table.
  Result<std::unique_ptr<RowWriter>> Writer(Console& console, const RowOptions& options,
                                            const std::string& head, const std::string& tail) const;
  /// What is written of a row.
  std::vector<Cell> Written(const std::vector<Cell>& row) const;
  /// Whether Write() prints a table, beside which a command may say more.
  static bool IsTable(const Console& console, const RowOptions& options);

 private:
  Result<size_t> FindColumn(std::string_view name) const;
  std::vector<size_t> Positions(const std::vector<std::string>& names) const;
  void PrintAsTable(Console& console) const;

  std::vector<CellColumn> columns_;
  std::vector<std::string> shown_;
  std::vector<std::string> chosen_;  // By --columns.
  std::vector<size_t> written_;      // The positions of these, or all.
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_ROWS_H_
