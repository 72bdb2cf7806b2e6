#include "tools/row_writer.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "tools/terminal/console.h"
#include "tools/terminal/json.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kPending = 1 << 20;

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

/// A field, as RFC 4180 has it.
std::string QuotedField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string CsvText(const Cell& cell) {
  if (IsMissing(cell)) return "";
  const auto* text = std::get_if<std::string>(&cell);
  return QuotedField(text != nullptr ? *text : JsonText(cell));
}

std::string JsonText(const Cell& cell) {
  if (IsMissing(cell)) return "null";
  if (const auto* text = std::get_if<std::string>(&cell)) return JsonQuoted(*text);
  if (const auto* count = std::get_if<uint64_t>(&cell)) return std::to_string(*count);
  if (const auto* integer = std::get_if<int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&cell)) return ShortestDouble(*number);
  return ShapeJson(std::get<std::vector<int64_t>>(cell));
}

Result<std::unique_ptr<RowWriter>> RowWriter::Create(Console& console, RowTarget target,
                                                     std::vector<CellColumn> columns) {
  if (target.format == "arrow" && target.file.empty() && console.out_is_terminal()) {
    return Status(StatusCode::kInvalidArgument,
                  "arrow is no text for a terminal: give -o FILE.arrow");
  }
  std::unique_ptr<OutputFile> file;
  if (!target.file.empty()) {
    DSCKPT_ASSIGN_OR_RETURN(file, OutputFile::Create(target.file));
  }
  std::unique_ptr<RowWriter> writer(
      new RowWriter(console, std::move(target), std::move(columns), std::move(file)));
  writer->Begin();
  return writer;
}

RowWriter::RowWriter(Console& console, RowTarget target, std::vector<CellColumn> columns,
                     std::unique_ptr<OutputFile> file)
    : console_(console),
      target_(std::move(target)),
      columns_(std::move(columns)),
      file_(std::move(file)) {}

void RowWriter::Begin() {
  if (target_.format == "arrow") {
    arrow_ =
        std::make_unique<ArrowWriter>(columns_, [this](std::string_view text) { Write(text); });
  } else if (target_.format == "json") {
    Write("{\n  " + target_.head + ",\n  \"rows\": [");
  } else if (target_.format == "csv") {
    std::string names;
    for (const CellColumn& column : columns_) names += (names.empty() ? "" : ",") + column.name;
    Write(names + "\n");
  }
}

Status RowWriter::Add(std::span<const Cell> row) {
  if (arrow_) {
    arrow_->Add(row);
  } else if (target_.format == "json") {
    Write((rows_ == 0 ? "\n    " : ",\n    ") + JsonRow(row));
  } else {
    Write(target_.format == "csv" ? CsvLine(row) : JsonRow(row) + "\n");
  }
  ++rows_;
  return pending_.size() < kPending ? Status() : Flush();
}

Status RowWriter::Finish() {
  if (arrow_) arrow_->Finish();
  if (target_.format == "json") {
    Write(rows_ == 0 ? "]" : "\n  ]");
    Write((target_.tail.empty() ? "" : ",\n  " + target_.tail) + "\n}\n");
  }
  if (!file_) return {};
  DSCKPT_RETURN_IF_ERROR(Flush());
  return file_->Publish();
}

void RowWriter::Write(std::string_view text) {
  file_ ? static_cast<void>(pending_.append(text)) : console_.Write(text);
}

Status RowWriter::Flush() {
  DSCKPT_RETURN_IF_ERROR(file_->Write(std::as_bytes(std::span(pending_))));
  pending_.clear();
  return {};
}

std::string RowWriter::CsvLine(std::span<const Cell> row) const {
  std::string line;
  for (const Cell& cell : row) line += CsvText(cell) + ",";
  line.back() = '\n';
  return line;
}

std::string RowWriter::JsonRow(std::span<const Cell> row) const {
  std::string text = "{";
  for (size_t i = 0; i < columns_.size(); ++i) {
    text += (i != 0 ? ", " : "") + JsonQuoted(columns_[i].name) + ": " + JsonText(row[i]);
  }
  return text + "}";
}

}  // namespace dsckpt::tools
