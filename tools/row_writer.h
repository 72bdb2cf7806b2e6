#ifndef DSCKPT_TOOLS_ROW_WRITER_H_
#define DSCKPT_TOOLS_ROW_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"
#include "tools/arrow_writer.h"
#include "tools/cell.h"
#include "tools/output_file.h"

namespace dsckpt::tools {

class Console;


/// What stands in JSON for a cell.
std::string JsonText(const Cell& cell);
/// What stands in CSV for it, as RFC 4180 has it.
std::string CsvText(const Cell& cell);

/// Where rows go, and what is around them.
struct RowTarget {
  std::string format;  ///< "csv", "jsonl", "json" or "arrow"
  std::string file;    ///< empty: standard output
  /// Members of the JSON document before and behind "rows", as text, such as "\"path\":\"x\"".
  std::string head, tail;
};

/// Writes rows one by one: all of them together may be more than fits into memory. A file appears
/// whole, when it is finished, or not at all.
class RowWriter {
 public:
  static Result<std::unique_ptr<RowWriter>> Create(Console& console, RowTarget target,
                                                   std::vector<CellColumn> columns);
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  /// REQUIRES: a cell for each column, of its type or missing.
  Status Add(std::span<const Cell> row);
  Status Finish();

 private:
  RowWriter(Console& console, RowTarget target, std::vector<CellColumn> columns,
            std::unique_ptr<OutputFile> file);
  void Begin();
  void Write(std::string_view text);
  Status Flush();
  std::string CsvLine(std::span<const Cell> row) const;
  std::string JsonRow(std::span<const Cell> row) const;

  Console& console_;
  const RowTarget target_;
  const std::vector<CellColumn> columns_;
  std::unique_ptr<OutputFile> file_;    // null: standard output
  std::unique_ptr<ArrowWriter> arrow_;  // null: text
  std::string pending_;                 // of the file
  uint64_t rows_ = 0;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_ROW_WRITER_H_
