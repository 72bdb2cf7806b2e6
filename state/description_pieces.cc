// The pieces of a described tensor.

#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "format/columns/check.h"
#include "format/names.h"
#include "format/pieces/check.h"
#include "format/rank_own.h"
#include "state/description.h"

namespace dsckpt {
namespace {

Status Invalid(const Piece& piece, std::string what) {
  return Status(StatusCode::kInvalidArgument,
                "piece of '" + format::Printable(piece.logical_name) + "': " + what);
}

// Fits what a column stores: an unsigned begin and count.
Status CheckRange(const Piece& piece, const Range& range) {
  if (range.begin >= 0 && range.end >= range.begin) return {};
  return Invalid(piece, "the range " + std::to_string(range.begin) + " to " +
                            std::to_string(range.end) + " is none");
}

Status CheckForm(const Piece& piece) {
  if (const Status status = format::CheckItemName(piece.logical_name); !status.ok()) {
    return Invalid(piece, "logical name: " + status.message());
  }
  if (piece.logical_shape.size() > kMaxRank) {
    return Status(StatusCode::kLimitExceeded,
                  "piece of '" + format::Printable(piece.logical_name) +
                      "': " + std::to_string(piece.logical_shape.size()) + " dimensions, at most " +
                      std::to_string(kMaxRank) + " are possible");
  }
  if (piece.form == Piece::Form::kFlat) return CheckRange(piece, piece.flat);
  if (piece.form != Piece::Form::kBox) {
    return Invalid(piece, "unknown form " + std::to_string(static_cast<unsigned>(piece.form)));
  }
  if (piece.box.size() != piece.logical_shape.size()) {
    return Invalid(piece, "the box has " + std::to_string(piece.box.size()) +
                              " ranges for a logical shape of " +
                              std::to_string(piece.logical_shape.size()) + " dimensions");
  }
  for (const Range& range : piece.box) DSCKPT_RETURN_IF_ERROR(CheckRange(piece, range));
  return {};
}

// A rank's own tensor is one logical tensor, whole, of a name that no other rank uses.
OwnedPiece WholeOfRank(uint32_t rank, std::string_view name, std::span<const int64_t> shape) {
  OwnedPiece piece;
  piece.logical_name = RankOwnName(rank, name);
  piece.logical_shape.assign(shape.begin(), shape.end());
  for (const int64_t dim : shape) piece.box.push_back({0, dim});
  return piece;
}

}  // namespace

Status AddPieces(Description::Data& data, std::string_view name, const TensorSource& source) {
  std::vector<OwnedPiece> owned;
  std::vector<Piece> views;
  std::span<const Piece> pieces = source.pieces;
  if (pieces.empty() && data.walk.default_pieces) {
    owned = data.walk.default_pieces(name, source.shape);
    for (const OwnedPiece& piece : owned) views.push_back(piece.view());
    pieces = views;
  }
  if (data.walk.rank_own) {
    if (!pieces.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "it is part of '" + format::Printable(pieces[0].logical_name) +
                        "', which several ranks hold, and so no rank's own: take it out of what "
                        "is declared to be");
    }
    owned = {WholeOfRank(*data.walk.rank_own, name, source.shape)};
    views = {owned[0].view()};
    pieces = views;
  }
  if (pieces.empty()) return {};
  const DTypeInfo dtype = *FindDType(source.dtype);
  const format::DTypeRecord record{static_cast<uint16_t>(dtype.code), dtype.bits,
                                   dtype.block_elements, dtype.block_bytes};
  DSCKPT_ASSIGN_OR_RETURN(const uint64_t elements, ElementCount(source.shape));
  const auto tensor = static_cast<uint32_t>(data.identity.tensors.size());
  for (const Piece& piece : pieces) {
    DSCKPT_RETURN_IF_ERROR(CheckForm(piece));
    DSCKPT_RETURN_IF_ERROR(format::AppendPiece(data.identity.pieces, tensor, piece));
    const format::PieceView view = format::ViewOf(data.identity.pieces);
    if (const auto fault = format::FindPieceFault(view, view.size() - 1, record, elements)) {
      return Invalid(piece, std::string(fault->field) + ": expected " + fault->expected +
                                ", found " + fault->found);
    }
  }
  return {};
}

}  // namespace dsckpt
