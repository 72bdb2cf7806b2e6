// The parts of logical tensors that a shard holds.

#include <algorithm>

#include "tools/inspect/inspect.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct PieceRow {
  std::string_view tensor;
  OwnedPiece piece;
};

// The pieces of tensors that `options` selects.
std::vector<PieceRow> SelectPieces(const File& file, const InspectOptions& options) {
  std::vector<PieceRow> rows;
  for (const TensorRow row : SelectTensors(file, options.names, options.sort_by())) {
    if (row.alias) continue;
    const TensorInfo info = file.tensor(row.index);
    for (OwnedPiece& piece : file.Pieces(info)) rows.push_back({info.name, std::move(piece)});
  }
  return rows;
}

std::string RangeText(const Range& range) { return Format("{}:{}", range.begin, range.end); }

// "[0:2, 0:4]", or "elements 4:10".
std::string PartText(const OwnedPiece& piece) {
  if (piece.form == Piece::Form::kFlat) return "elements " + RangeText(piece.flat);
  std::string text;
  for (const Range& range : piece.box) text += (text.empty() ? "" : ", ") + RangeText(range);
  return "[" + text + "]";
}

void WriteRange(JsonWriter& json, const Range& range) {
  json.BeginArray();
  json.Int(range.begin);
  json.Int(range.end);
  json.End();
}

}  // namespace

void PrintPieces(Console& console, const File& file, const InspectOptions& options,
                 uint64_t limit) {
  const std::vector<PieceRow> rows = SelectPieces(file, options);
  if (rows.empty()) return;
  using Align = Column::Align;
  const std::vector<Column> columns = {
      {"PART OF", Align::kLeft, true}, {"SHAPE", Align::kLeft, true},
      {"PART", Align::kLeft, true},    {"STORED IN", Align::kLeft, true},
      {"FROM ELEMENT", Align::kRight}, {"REPLICAS", Align::kRight}};
  const uint64_t shown = limit == 0 ? rows.size() : std::min<uint64_t>(limit, rows.size());
  console.Write("\n");
  PrintTable(console, columns, shown, [&](size_t row, std::vector<std::string>& cells) {
    const auto& [tensor, piece] = rows[row];
    cells[0] = TerminalName(piece.logical_name);
    cells[1] = ShapeText(piece.logical_shape);
    cells[2] = PartText(piece);
    cells[3] = tensor.empty() ? "\"\"" : TerminalName(tensor);
    cells[4] = Grouped(piece.element_offset);
    cells[5] = piece.replica_group == 0 ? "" : Format("group {}", piece.replica_group);
  });
  PrintMore(console, rows.size() - shown);
}

void WritePieceJson(JsonWriter& json, const OwnedPiece& piece) {
  json.BeginObject();
  json.Key("logical_name").String(piece.logical_name);
  json.Key("logical_shape").BeginArray();
  for (const int64_t dim : piece.logical_shape) json.Int(dim);
  json.End();
  if (piece.form == Piece::Form::kFlat) {
    json.Key("flat");
    WriteRange(json, piece.flat);
  } else {
    json.Key("box").BeginArray();
    for (const Range& range : piece.box) WriteRange(json, range);
    json.End();
  }
  json.Key("element_offset").Uint(piece.element_offset);
  json.Key("replica_group").Uint(piece.replica_group);
  json.End();
}

}  // namespace dsckpt::tools
