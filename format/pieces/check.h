#ifndef DSCKPT_FORMAT_PIECES_CHECK_H_
#define DSCKPT_FORMAT_PIECES_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/status.h"
#include "format/columns/columns.h"

// Rules for pieces (spec/format.md, "Pieces"), shared by indexes, manifests and descriptions.

namespace dsckpt::format {

/// A rule that a piece breaks.
struct PieceFault {
  std::string_view field;
  std::string expected, found;
};

/// What a piece must meet for itself: bounds inside the logical shape, its elements inside the
/// stored tensor's, byte boundaries. Of a form that this release does not know nothing is checked.
/// REQUIRES: CheckPieceColumns passed, or would pass for this piece's entries.
std::optional<PieceFault> FindPieceFault(const PieceView& pieces, uint32_t piece,
                                         const DTypeRecord& dtype, uint64_t stored_elements);

/// FindPieceFault as kCorrupt; `part` as in column_check.h.
Status CheckPiece(std::string_view part, const PieceView& pieces, uint32_t piece,
                  const DTypeRecord& dtype, uint64_t stored_elements);

/// Lengths, names, logical shapes, ends and the pieces' logical ordinals.
Status CheckPieceColumns(std::string_view part, const PieceView& pieces);

/// kCorrupt: piece `i` does not stand above the one before it.
Status PieceOrderError(std::string_view part, uint32_t piece, std::string_view order);

/// All rules for the pieces of an index. REQUIRES: its other items passed.
Status CheckIndexPieces(const IndexView& index);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_PIECES_CHECK_H_
