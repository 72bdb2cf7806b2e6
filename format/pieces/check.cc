#include "format/pieces/check.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "dsckpt/limits.h"
#include "format/columns/check.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

constexpr uint64_t kMaxCount = std::numeric_limits<int64_t>::max();

PieceFault Fault(std::string_view field, std::string expected, std::string found) {
  return {field, std::move(expected), std::move(found)};
}

// Overflow-safe: begin + count <= limit.
bool Inside(uint64_t begin, uint64_t count, uint64_t limit) {
  return begin <= limit && count <= limit - begin;
}

std::string BeginCount(uint64_t begin, uint64_t count) {
  return std::to_string(begin) + " + " + std::to_string(count);
}

std::optional<PieceFault> BoxFault(std::span<const int64_t> shape,
                                   std::span<const uint64_t> bounds) {
  const size_t rank = shape.size();
  if (bounds.size() != 2 * rank) {
    return Fault("box", std::to_string(2 * rank) + " bounds", std::to_string(bounds.size()));
  }
  for (size_t dim = 0; dim < rank; ++dim) {
    if (!Inside(bounds[dim], bounds[rank + dim], static_cast<uint64_t>(shape[dim]))) {
      return Fault("box",
                   "within dimension " + std::to_string(dim) + " of " + std::to_string(shape[dim]),
                   BeginCount(bounds[dim], bounds[rank + dim]));
    }
  }
  return std::nullopt;
}

std::optional<PieceFault> FlatFault(uint64_t logical_elements, std::span<const uint64_t> bounds) {
  if (bounds.size() != 2) return Fault("flat range", "2 bounds", std::to_string(bounds.size()));
  if (!Inside(bounds[0], bounds[1], logical_elements)) {
    return Fault("flat range", "within " + std::to_string(logical_elements) + " elements",
                 BeginCount(bounds[0], bounds[1]));
  }
  return std::nullopt;
}

// True when every row of the box begins and ends between blocks, in the logical tensor and thereby
// in the stored one.
bool RowsOnBlocks(std::span<const int64_t> shape, std::span<const uint64_t> bounds,
                  uint32_t block) {
  const size_t rank = shape.size();
  bool whole = true;
  for (size_t dim = 0; dim < rank; ++dim) {
    whole &= bounds[dim] == 0 && bounds[rank + dim] == static_cast<uint64_t>(shape[dim]);
  }
  if (whole) return true;
  return bounds[rank - 1] % block == 0 && bounds[2 * rank - 1] % block == 0 &&
         static_cast<uint64_t>(shape[rank - 1]) % block == 0;
}

std::optional<PieceFault> BlockFault(const PieceView& pieces, uint32_t piece, uint32_t block) {
  const std::string blocks = "multiples of " + std::to_string(block) +
                             " elements, since the dtype packs as many into a block";
  const auto bounds = pieces.bounds_of(piece);
  if (pieces.element_offset[piece] % block != 0) {
    return Fault("element_offset", blocks, std::to_string(pieces.element_offset[piece]));
  }
  if (pieces.form[piece] == static_cast<uint8_t>(Piece::Form::kFlat)) {
    if (bounds[0] % block == 0 && bounds[1] % block == 0) return std::nullopt;
    return Fault("flat range", blocks, BeginCount(bounds[0], bounds[1]));
  }
  const auto shape = pieces.logical_shape(pieces.logical[piece]);
  if (RowsOnBlocks(shape, bounds, block)) return std::nullopt;
  return Fault("box", "rows that begin and end at " + blocks,
               BeginCount(bounds[shape.size() - 1], bounds.back()) + " of rows of " +
                   std::to_string(shape.back()));
}

// "piece 3 of 'q'"; without the name where that is not known to be in its column.
std::string PieceTitle(const PieceView& pieces, uint32_t piece) {
  std::string title = "piece " + std::to_string(piece);
  if (piece >= pieces.logical.size() || !pieces.logical_names.Holds(pieces.logical[piece])) {
    return title;
  }
  return title + " of '" + Printable(pieces.logical_names[pieces.logical[piece]]) + "'";
}

Status CheckPieceLengths(std::string_view part, const PieceView& pieces) {
  const size_t logical = pieces.logical_names.size();
  const size_t count = pieces.tensor.size();
  const ColumnLength columns[] = {
      {"pieces.logical_dim_end", logical, pieces.logical_dim_end.size()},
      {"pieces.logical", count, pieces.logical.size()},
      {"pieces.element_offset", count, pieces.element_offset.size()},
      {"pieces.form", count, pieces.form.size()},
      {"pieces.bounds_end", count, pieces.bounds_end.size()},
      {"pieces.replica_group", count, pieces.replica_group.size()},
  };
  return CheckLengths(part, columns);
}

Status CheckLogicalShapes(std::string_view part, const PieceView& pieces) {
  uint32_t begin = 0;
  for (uint32_t i = 0; i < pieces.logical_names.size(); ++i) {
    const uint32_t end = pieces.logical_dim_end[i];
    if (end < begin || end > pieces.logical_dims.size() || end - begin > kMaxRank) {
      return ColumnError(
          part, ItemTitle("logical tensor", pieces.logical_names, i), "dim_end",
          std::to_string(begin) + " to " +
              std::to_string(std::min<uint64_t>(begin + kMaxRank, pieces.logical_dims.size())),
          std::to_string(end));
    }
    uint64_t elements = 0;
    if (!ShapeElements(pieces.logical_dims.subspan(begin, end - begin), elements)) {
      return ColumnError(part, ItemTitle("logical tensor", pieces.logical_names, i), "shape",
                         "dimensions >= 0 whose product fits 63 bits", "others");
    }
    begin = end;
  }
  if (begin != pieces.logical_dims.size()) {
    return ColumnError(part, "pieces.logical_dims", "entries", begin, pieces.logical_dims.size());
  }
  return {};
}

Status CheckBoundsEnds(std::string_view part, const PieceView& pieces) {
  uint32_t begin = 0;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const uint32_t end = pieces.bounds_end[i];
    if (end < begin || end > pieces.bounds.size()) {
      return ColumnError(part, PieceTitle(pieces, i), "bounds_end",
                         std::to_string(begin) + " to " + std::to_string(pieces.bounds.size()),
                         std::to_string(end));
    }
    begin = end;
  }
  if (begin != pieces.bounds.size()) {
    return ColumnError(part, "pieces.bounds", "entries", begin, pieces.bounds.size());
  }
  return {};
}

}  // namespace

std::optional<PieceFault> FindPieceFault(const PieceView& pieces, uint32_t piece,
                                         const DTypeRecord& dtype, uint64_t stored_elements) {
  const uint8_t form = pieces.form[piece];
  if (form > static_cast<uint8_t>(Piece::Form::kFlat)) return std::nullopt;
  const auto shape = pieces.logical_shape(pieces.logical[piece]);
  uint64_t logical_elements = 0;
  uint64_t bytes = 0;
  if (!ShapeElements(shape, logical_elements) || !ShapeBytes(shape, dtype, bytes) ||
      bytes > kMaxCount) {
    return Fault("logical shape",
                 "dimensions >= 0 whose product fits 63 bits, in bytes too, and whole blocks of "
                 "dtype " +
                     std::to_string(dtype.code),
                 "others");
  }
  const auto fault = form == static_cast<uint8_t>(Piece::Form::kBox)
                         ? BoxFault(shape, pieces.bounds_of(piece))
                         : FlatFault(logical_elements, pieces.bounds_of(piece));
  if (fault) return fault;
  const uint64_t elements = *pieces.elements(piece);
  if (!Inside(pieces.element_offset[piece], elements, stored_elements)) {
    return Fault(
        "element_offset",
        "the piece within the stored tensor's " + std::to_string(stored_elements) + " elements",
        BeginCount(pieces.element_offset[piece], elements));
  }
  if (dtype.block_elements != 1) return BlockFault(pieces, piece, dtype.block_elements);
  return std::nullopt;
}

Status CheckPiece(std::string_view part, const PieceView& pieces, uint32_t piece,
                  const DTypeRecord& dtype, uint64_t stored_elements) {
  const auto fault = FindPieceFault(pieces, piece, dtype, stored_elements);
  if (!fault) return {};
  return ColumnError(part, PieceTitle(pieces, piece), fault->field, fault->expected, fault->found);
}

Status CheckPieceColumns(std::string_view part, const PieceView& pieces) {
  DSCKPT_RETURN_IF_ERROR(CheckPieceLengths(part, pieces));
  DSCKPT_RETURN_IF_ERROR(CheckNames(part, pieces.logical_names, "logical tensor"));
  DSCKPT_RETURN_IF_ERROR(CheckLogicalShapes(part, pieces));
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (pieces.logical[i] >= pieces.logical_names.size()) {
      return ColumnError(part, "piece " + std::to_string(i), "logical",
                         "below " + std::to_string(pieces.logical_names.size()),
                         std::to_string(pieces.logical[i]));
    }
  }
  return CheckBoundsEnds(part, pieces);
}

Status PieceOrderError(std::string_view part, uint32_t piece, std::string_view order) {
  return ColumnError(part, "piece " + std::to_string(piece), "order",
                     "above the piece before it by " + std::string(order), "not above it");
}

Status CheckIndexPieces(const IndexView& index) {
  constexpr std::string_view kPart = "index";
  const PieceView& pieces = index.pieces;
  DSCKPT_RETURN_IF_ERROR(CheckPieceColumns(kPart, pieces));
  const auto place = [&pieces](uint32_t i) {
    return std::tuple(pieces.tensor[i], pieces.element_offset[i], pieces.logical[i]);
  };
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const uint32_t tensor = pieces.tensor[i];
    if (tensor >= index.tensor_names.size()) {
      return ColumnError(kPart, PieceTitle(pieces, i), "tensor",
                         "below " + std::to_string(index.tensor_names.size()),
                         std::to_string(tensor));
    }
    if (i > 0 && (place(i - 1) > place(i) ||
                  (place(i - 1) == place(i) && CompareExtents(pieces, i - 1, i) >= 0))) {
      return PieceOrderError(kPart, i, "tensor, element_offset, logical, form, bounds, group");
    }
    const DTypeRecord& dtype = index.dtypes[index.tensor_dtype[tensor]];
    const uint64_t stored =
        index.tensors.raw_bytes[tensor] / dtype.block_bytes * dtype.block_elements;
    DSCKPT_RETURN_IF_ERROR(CheckPiece(kPart, pieces, i, dtype, stored));
  }
  return {};
}

}  // namespace dsckpt::format
