#include "tools/rows.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>
#include <sstream>

#include "tools/arrow_writer.h"
#include "tools/items.h"
#include "tools/output_file.h"
#include "tools/terminal/console.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

/// Reads back to the same double, and as a double.
std::string ShortestDouble(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  std::string shortest(text, end);
  if (shortest.find_first_of(".e") == std::string::npos) shortest += ".0";
  return shortest;
}

std::string ShapeJson(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

std::string CsvCell(const Cell& cell) {
  if (IsMissing(cell)) return "";
  const auto* text = std::get_if<std::string>(&cell);
  return CsvText(text != nullptr ? *text : JsonText(cell));
}

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

Status WriteText(Console& console, const std::string& file, const std::string& text) {
  if (file.empty()) {
    console.Write(text);
    return {};
  }
  DSCKPT_ASSIGN_OR_RETURN(const auto out, OutputFile::Create(file));
  DSCKPT_RETURN_IF_ERROR(out->Write(std::as_bytes(std::span(text))));
  return out->Publish();
}

}  // namespace

std::string CsvText(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

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

std::string JsonText(const Cell& cell) {
  if (IsMissing(cell)) return "null";
  if (const auto* text = std::get_if<std::string>(&cell)) return JsonQuoted(*text);
  if (const auto* count = std::get_if<uint64_t>(&cell)) return std::to_string(*count);
  if (const auto* integer = std::get_if<int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&cell)) return ShortestDouble(*number);
  return ShapeJson(std::get<std::vector<int64_t>>(cell));
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
  if (format == "csv") return WriteText(console, options.file, Csv());
  if (format == "json") return WriteText(console, options.file, Json(head, tail));
  if (format == "jsonl") {
    std::string lines;
    for (const auto& row : rows_) lines += JsonRow(row) + "\n";
    return WriteText(console, options.file, lines);
  }
  if (format == "arrow") {
    if (options.file.empty() && console.out_is_terminal()) {
      return Status(StatusCode::kInvalidArgument,
                    "arrow is no text for a terminal: give -o FILE.arrow");
    }
    return WriteText(console, options.file, Arrow());
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

std::vector<size_t> Rows::Written() const {
  if (!chosen_.empty()) return Positions(chosen_);
  std::vector<size_t> all(columns_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
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

std::string Rows::Csv() const {
  const std::vector<size_t> written = Written();
  std::string text;
  for (const size_t at : written) text += (text.empty() ? "" : ",") + columns_[at].name;
  text += "\n";
  for (const auto& row : rows_) {
    std::string line;
    for (const size_t at : written) line += CsvCell(row[at]) + ",";
    line.back() = '\n';
    text += line;
  }
  return text;
}

std::string Rows::Arrow() const {
  const std::vector<size_t> written = Written();
  std::vector<CellColumn> columns;
  for (const size_t at : written) columns.push_back(columns_[at]);
  std::string file;
  ArrowWriter writer(std::move(columns), [&file](std::string_view bytes) { file += bytes; });
  for (const auto& row : rows_) {
    std::vector<Cell> cells;
    for (const size_t at : written) cells.push_back(row[at]);
    writer.Add(cells);
  }
  writer.Finish();
  return file;
}

std::string Rows::JsonRow(const std::vector<Cell>& row) const {
  std::string text = "{";
  for (const size_t at : Written()) {
    text +=
        (text.size() > 1 ? ", " : "") + JsonQuoted(columns_[at].name) + ": " + JsonText(row[at]);
  }
  return text + "}";
}

std::string Rows::Json(const std::string& head, const std::string& tail) const {
  std::string text = "{\n  " + head + ",\n  \"rows\": [";
  for (size_t i = 0; i < rows_.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + JsonRow(rows_[i]);
  }
  return text + (rows_.empty() ? "]" : "\n  ]") + (tail.empty() ? "" : ",\n  " + tail) + "\n}\n";
}

}  // namespace dsckpt::tools
