#ifndef DSCKPT_PYTHON_TABLE_H_
#define DSCKPT_PYTHON_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"

// Tables of results: columns in the layout of Apache Arrow.

namespace dsckpt::python {

/// What is in a column, as the format strings of Arrow's C data interface have it.
enum class ColumnType : char {
  kInt32 = 'i',
  kUint32 = 'I',
  kInt64 = 'l',
  kUint64 = 'L',
  kDouble = 'g',
  kText = 'u'
};

/// A column of a table.
struct TableColumn {
  std::string name;
  ColumnType type = ColumnType::kDouble;
  /// Whether values may be missing.
  bool optional = false;
  /// How many values it has, and how many of them are missing.
  uint64_t length = 0, missing = 0;
  /// One bit a value, the lowest first: 1 where it is there. Empty where all are.
  std::vector<uint8_t> valid;
  /// Numbers one behind the other, or all texts. A double that is missing is NaN, an integer 0.
  std::string values;
  /// Of texts: where each begins in `values`, and the end of the last one.
  std::vector<int64_t> offsets;

  TableColumn(std::string its_name, ColumnType its_type, bool its_optional);

  /// REQUIRES: the column is of this type; a missing value only where it is optional.
  void Add(std::optional<double> value);
  void AddInteger(std::optional<int64_t> value);
  void AddText(std::optional<std::string_view> value);
  /// Adds rows [begin, end) of another column of the same type.
  void AddRows(const TableColumn& other, uint64_t begin, uint64_t end);

  bool has(uint64_t row) const { return valid.empty() || (valid[row / 8] >> row % 8 & 1) != 0; }
  std::string_view TextAt(uint64_t row) const;
  /// The size of a number in bytes.
  size_t width() const;

 private:
  void CountOne(bool there);
};

/// Columns of equal length.
struct Table {
  std::vector<TableColumn> columns;
  uint64_t rows = 0;

  /// kInvalidArgument: buffers are of other lengths than `rows` says, or offsets do not ascend; or
  /// there are more rows than there can be.
  Status Check() const;
  /// The position of a column, or nothing.
  std::optional<size_t> Find(std::string_view name) const;
};

/// A table as an object of Python, which arrays of numpy and Arrow share.
struct SharedTable {
  std::shared_ptr<const Table> table;
};

/// The rows of all tables, in the order of the texts in column `key`; rows of one text stay as they
/// are. kInvalidArgument: other columns, or rows of one text in two tables.
Result<Table> CombineTables(const std::vector<const Table*>& tables, std::string_view key);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_TABLE_H_
