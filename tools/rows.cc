#include "tools/rows.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "tools/items.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

std::string TableText(const Cell& cell) {
  if (IsMissing(cell)) return "";
  if (const auto* text = std::get_if<std::string>(&cell)) return TerminalName(*text);
  if (const auto* count = std::get_if<uint64_t>(&cell)) return Grouped(*count);
  if (const auto* integer = std::get_if<int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&cell)) return Format("{:.4g}", *number);
  return ShapeText(std::get<std::vector<int64_t>>(cell));
}

/// Cells without a value come last either way.
bool ComesBefore(const Cell& a, const Cell& b, bool descending) {
  if (IsMissing(a) || IsMissing(b)) return !IsMissing(a) && IsMissing(b);
  return descending ? b < a : a < b;
}

std::string FormatOf(const Console& console, const RowOptions& options) {
  if (console.json()) return "json";
  return options.format.empty() ? FormatOfName(options.file) : options.format;
}

}  // namespace

std::string FormatOfName(std::string_view file) {
  for (const char* const format : {"csv", "jsonl", "json", "arrow"}) {
    if (file.ends_with(std::string(".") + format)) return format;
  }
  return "table";
}

void AddFormatOption(CommandLine& line, std::string& format) {
  line.Add("--format", format, "table (default), csv, jsonl, json or arrow")
      .OneOf({"table", "csv", "jsonl", "json", "arrow"})
      .Placeholder("NAME");
}

Cell MaybeCell(const std::optional<double>& number) {
  return number ? Cell(*number) : Cell(std::monostate());
}

void AddRowOptions(CommandLine& line, RowOptions& options) {
  AddFormatOption(line, options.format);
  line.Add("-o,--output", options.file, "Write .csv, .jsonl, .json or .arrow there")
      .Placeholder("FILE");
  const auto parse_columns = [&options](const std::string& list) {
    std::istringstream names(list);
    for (std::string name; std::getline(names, name, ',');) options.columns.push_back(name);
    return std::string();
  };
  line.AddParsed("--columns", parse_columns, "Which ones, in this order; all for every one")
      .Placeholder("A,B,...");
  line.Add("--sort", options.sort, "By a column; :desc puts the greatest first")
      .Placeholder("COL[:desc]");
  line.Add("--limit", options.limit, "At most so many rows").FromZero().Placeholder("N");
}

Rows::Rows(std::vector<CellColumn> columns, std::vector<std::string> shown)
    : columns_(std::move(columns)), shown_(std::move(shown)), written_(columns_.size()) {
  std::iota(written_.begin(), written_.end(), size_t{0});
}

Result<size_t> Rows::FindColumn(std::string_view name) const {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [name](const CellColumn& column) { return column.name == name; });
  if (found != columns_.end()) return static_cast<size_t>(found - columns_.begin());
  std::string all;
  for (const CellColumn& column : columns_) all += (all.empty() ? "" : ", ") + column.name;
  return Status(StatusCode::kInvalidArgument,
                "there is no column '" + std::string(name) + "': there are " + all);
}

Status Rows::Arrange(const RowOptions& options) {
  chosen_ = options.columns;
  if (chosen_ == std::vector<std::string>{"all"}) {
    chosen_.clear();
    for (const CellColumn& column : columns_) chosen_.push_back(column.name);
  }
  for (const std::string& column : chosen_) {
    DSCKPT_RETURN_IF_ERROR(FindColumn(column).status());
  }
  if (!chosen_.empty()) written_ = Positions(chosen_);
  if (!options.sort.empty()) {
    const size_t colon = options.sort.find(':');
    const std::string order = colon == std::string::npos ? "asc" : options.sort.substr(colon + 1);
    if (order != "asc" && order != "desc") {
      return Status(StatusCode::kInvalidArgument,
                    "--sort " + options.sort + ": the order is asc or desc, not '" + order + "'");
    }
    DSCKPT_ASSIGN_OR_RETURN(const size_t column, FindColumn(options.sort.substr(0, colon)));
    std::stable_sort(rows_.begin(), rows_.end(), [&](const auto& a, const auto& b) {
      return ComesBefore(a[column], b[column], order == "desc");
    });
  }
  if (options.limit && rows_.size() > *options.limit) rows_.resize(*options.limit);
  return {};
}

bool Rows::IsTable(const Console& console, const RowOptions& options) {
  return FormatOf(console, options) == "table";
}

Status Rows::Write(Console& console, const RowOptions& options, const std::string& head,
                   const std::string& tail) const {
  const std::string format = FormatOf(console, options);
  if (format != "table") {
    DSCKPT_ASSIGN_OR_RETURN(const auto writer, Writer(console, options, head, tail));
    for (const auto& row : rows_) DSCKPT_RETURN_IF_ERROR(writer->Add(Written(row)));
    return writer->Finish();
  }
  if (!options.file.empty()) {
    return Status(
               StatusCode::kInvalidArgument,
               "-o " + options.file +
                   ": the name ends in none of .csv, .jsonl, .json and .arrow, and a table goes to "
                   "standard output only: give --format")
        .WithPath(options.file);
  }
  PrintAsTable(console);
  return {};
}

std::vector<size_t> Rows::Positions(const std::vector<std::string>& names) const {
  std::vector<size_t> positions;
  for (const std::string& name : names) positions.push_back(*FindColumn(name));
  return positions;
}

std::vector<Cell> Rows::Written(const std::vector<Cell>& row) const {
  std::vector<Cell> cells;
  for (const size_t at : written_) cells.push_back(row[at]);
  return cells;
}

Result<std::unique_ptr<RowWriter>> Rows::Writer(Console& console, const RowOptions& options,
                                                const std::string& head,
                                                const std::string& tail) const {
  std::vector<CellColumn> columns;
  for (const size_t at : written_) columns.push_back(columns_[at]);
  return RowWriter::Create(console, {FormatOf(console, options), options.file, head, tail},
                           std::move(columns));
}

void Rows::PrintAsTable(Console& console) const {
  if (rows_.empty()) return;
  const std::vector<size_t> positions = Positions(chosen_.empty() ? shown_ : chosen_);
  std::vector<std::string> headings;
  std::vector<Column> columns;
  for (const size_t at : positions) {
    std::string heading = columns_[at].name;
    std::transform(heading.begin(), heading.end(), heading.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    headings.push_back(std::move(heading));
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    const bool text = std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
      return std::holds_alternative<std::string>(row[positions[i]]);
    });
    columns.push_back({headings[i].c_str(), text ? Column::Align::kLeft : Column::Align::kRight,
                       columns_[positions[i]].name.starts_with("name")});
  }
  PrintTable(console, columns, rows_.size(), [&](size_t row, std::vector<std::string>& cells) {
    cells.clear();
    for (const size_t at : positions) cells.push_back(TableText(rows_[row][at]));
  });
}

}  // namespace dsckpt::tools
