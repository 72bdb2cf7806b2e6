#include "python/src/table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dsckpt/limits.h"

namespace dsckpt::python {
namespace {

/// More do not fit into memory; sizes in bytes are of 64 bits.
constexpr uint64_t kMostRows = uint64_t{1} << 48;

template <typename Number>
void Append(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Rows of one table that have the same text in the key.
struct Run {
  std::string_view text;
  const Table* table;
  uint64_t begin, end;
};

void AddRuns(std::vector<Run>& runs, const Table& table, const TableColumn& key) {
  for (uint64_t row = 0; row < table.rows; ++row) {
    const std::string_view text = key.TextAt(row);
    const bool more = row > 0 && runs.back().text == text;
    if (more) {
      runs.back().end = row + 1;
    } else {
      runs.push_back({text, &table, row, row + 1});
    }
  }
}

bool SameColumns(const Table& a, const Table& b) {
  return std::equal(a.columns.begin(), a.columns.end(), b.columns.begin(), b.columns.end(),
                    [](const TableColumn& x, const TableColumn& y) {
                      return x.name == y.name && x.type == y.type && x.optional == y.optional;
                    });
}

Status CheckColumn(const TableColumn& column, uint64_t rows) {
  const auto wrong = [&](const char* what) {
    return Status(StatusCode::kInvalidArgument,
                  "column '" + column.name + "' of " + std::to_string(rows) + " rows: " + what);
  };
  if (column.length != rows) return wrong("it has another length");
  if (!column.valid.empty() && column.valid.size() != (rows + 7) / 8) {
    return wrong("the bitmap of missing values has another length");
  }
  if (column.type != ColumnType::kText) {
    return column.values.size() == rows * column.width() ? Status()
                                                         : wrong("its values have another length");
  }
  const std::vector<int64_t>& offsets = column.offsets;
  if (offsets.size() != rows + 1 || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(column.values.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    return wrong("its texts do not follow each other");
  }
  for (uint64_t row = 0; row < rows; ++row) {
    if (column.TextAt(row).size() > kMaxNameBytes) return wrong("a text is longer than a name");
  }
  return {};
}

}  // namespace

TableColumn::TableColumn(std::string its_name, ColumnType its_type, bool its_optional)
    : name(std::move(its_name)), type(its_type), optional(its_optional) {
  if (type == ColumnType::kText) offsets.push_back(0);
}

size_t TableColumn::width() const {
  return type == ColumnType::kInt32 || type == ColumnType::kUint32 ? 4 : 8;
}

void TableColumn::CountOne(bool there) {
  if (!there && valid.empty()) {
    // All before are there.
    valid.assign(length / 8 + 1, 0xFF);
    valid.back() = static_cast<uint8_t>((1 << length % 8) - 1);
  } else if (!valid.empty() && length % 8 == 0) {
    valid.push_back(0);
  }
  if (there && !valid.empty()) valid.back() |= static_cast<uint8_t>(1 << length % 8);
  ++length;
  missing += !there;
}

void TableColumn::Add(std::optional<double> value) {
  Append(values, value.value_or(std::numeric_limits<double>::quiet_NaN()));
  CountOne(value.has_value());
}

void TableColumn::AddInteger(std::optional<int64_t> value) {
  if (width() == 4) {
    Append(values, static_cast<int32_t>(value.value_or(0)));
  } else {
    Append(values, value.value_or(0));
  }
  CountOne(value.has_value());
}

void TableColumn::AddText(std::optional<std::string_view> value) {
  values += value.value_or(std::string_view());
  offsets.push_back(static_cast<int64_t>(values.size()));
  CountOne(value.has_value());
}

void TableColumn::AddRows(const TableColumn& other, uint64_t begin, uint64_t end) {
  if (type != ColumnType::kText) {
    values.append(other.values, begin * width(), (end - begin) * width());
  }
  for (uint64_t row = begin; row < end; ++row) {
    if (type == ColumnType::kText) {
      AddText(other.has(row) ? std::optional(other.TextAt(row)) : std::nullopt);
    } else {
      CountOne(other.has(row));
    }
  }
}

std::string_view TableColumn::TextAt(uint64_t row) const {
  return std::string_view(values).substr(static_cast<size_t>(offsets[row]),
                                         static_cast<size_t>(offsets[row + 1] - offsets[row]));
}

Status Table::Check() const {
  if (rows >= kMostRows || (columns.empty() && rows > 0)) {
    return Status(StatusCode::kInvalidArgument, "no table has " + std::to_string(rows) +
                                                    " rows of " + std::to_string(columns.size()) +
                                                    " columns");
  }
  for (const TableColumn& column : columns) DSCKPT_RETURN_IF_ERROR(CheckColumn(column, rows));
  return {};
}

std::optional<size_t> Table::Find(std::string_view name) const {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
  }
  return std::nullopt;
}

Result<Table> CombineTables(const std::vector<const Table*>& tables, std::string_view key) {
  Table all;
  for (const TableColumn& column : tables.front()->columns) {
    all.columns.emplace_back(column.name, column.type, column.optional);
  }
  const auto at = all.Find(key);
  if (!at || all.columns[*at].type != ColumnType::kText) {
    return Status(StatusCode::kInvalidArgument,
                  "the tables have no column '" + std::string(key) + "' of texts");
  }
  std::vector<Run> runs;
  for (const Table* table : tables) {
    if (!SameColumns(*table, *tables.front())) {
      return Status(StatusCode::kInvalidArgument,
                    "the tables have different columns: combine those of one call");
    }
    std::vector<Run> own;
    AddRuns(own, *table, table->columns[*at]);
    runs.insert(runs.end(), own.begin(), own.end());
    all.rows += table->rows;
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.text < b.text; });
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0 && runs[i].text == runs[i - 1].text && runs[i].table != runs[i - 1].table) {
      return Status(StatusCode::kInvalidArgument,
                    "'" + std::string(runs[i].text) +
                        "' is in two of the tables: each part is combined once, and tables of "
                        "groups cannot be combined");
    }
    for (size_t c = 0; c < all.columns.size(); ++c) {
      all.columns[c].AddRows(runs[i].table->columns[c], runs[i].begin, runs[i].end);
    }
  }
  return all;
}

}  // namespace dsckpt::python
