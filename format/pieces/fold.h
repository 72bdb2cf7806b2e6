#ifndef DSCKPT_FORMAT_PIECES_FOLD_H_
#define DSCKPT_FORMAT_PIECES_FOLD_H_

// Equal logical tensors and equal pieces become one.

#include <cstdint>
#include <functional>
#include <vector>

#include "dsckpt/status.h"
#include "format/pieces/pieces.h"

namespace dsckpt::format {

/// Which columns come first in the order of pieces.
enum class PieceOrder {
  kByTensor,   // an index: tensor, element offset, logical tensor
  kByLogical,  // a manifest of one shard: logical tensor, tensor, element offset
};

/// Makes pieces with a logical tensor each (AppendPiece) share the logical tensors that have the
/// same name, sorts both, and drops repeated pieces. `conflict` is asked for a status, unless OK,
/// for a piece and an earlier one of the same logical tensor; where their logical shapes differ,
/// `shape_conflict` gives it.
using PiecePair = std::function<Status(uint32_t earlier, uint32_t later)>;
Result<PieceColumns> FoldPieces(const PieceColumns& all, PieceOrder order,
                                const PiecePair& conflict, const PiecePair& shape_conflict);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_PIECES_FOLD_H_
