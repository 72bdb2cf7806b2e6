#ifndef DSCKPT_FORMAT_PIECES_PIECES_H_
#define DSCKPT_FORMAT_PIECES_PIECES_H_

// The pieces of logical tensors as columns.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/piece.h"
#include "dsckpt/status.h"
#include "format/columns/names.h"

namespace dsckpt::format {

/// Pieces of logical tensors as columns; rules: spec/format.md, "Pieces". In an index ordered by
/// (tensor, element offset, logical), in a manifest by (logical, shard, tensor, element offset); in
/// both further by (form, bounds, replica group).
struct PieceColumns {
  NameColumns logical_names;
  std::vector<uint32_t> logical_dim_end;
  std::vector<int64_t> logical_dims;
  std::vector<uint32_t> tensor, logical;
  std::vector<uint64_t> element_offset;
  std::vector<uint8_t> form;
  std::vector<uint32_t> bounds_end;
  std::vector<uint64_t> bounds;
  std::vector<uint32_t> replica_group;

  uint32_t size() const { return static_cast<uint32_t>(tensor.size()); }
};

struct PieceView {
  NameView logical_names;
  std::span<const uint32_t> logical_dim_end;
  std::span<const int64_t> logical_dims;
  std::span<const uint32_t> tensor, logical;
  std::span<const uint64_t> element_offset;
  std::span<const uint8_t> form;
  std::span<const uint32_t> bounds_end;
  std::span<const uint64_t> bounds;
  std::span<const uint32_t> replica_group;

  uint32_t size() const { return static_cast<uint32_t>(tensor.size()); }
  std::span<const int64_t> logical_shape(uint32_t logical_tensor) const;
  std::span<const uint64_t> bounds_of(uint32_t piece) const;
  /// Elements in a piece; nothing for a form that this release does not know. REQUIRES: rules hold.
  std::optional<uint64_t> elements(uint32_t piece) const;
  /// Nothing for a form that this release does not know.
  std::optional<OwnedPiece> Get(uint32_t piece) const;
};

PieceView ViewOf(const PieceColumns& columns);

/// Appends a piece with a logical tensor of its own, so that names repeat; FoldPieces() makes them
/// one. kLimitExceeded when a column would pass 2^32 - 1 entries.
Status AppendPiece(PieceColumns& columns, uint32_t tensor, const Piece& piece);
/// The same for a piece of any form.
Status AppendPiece(PieceColumns& columns, uint32_t tensor, const PieceView& from, uint32_t piece);

/// Orders by (form, bounds, replica group): what tells apart the pieces of one logical tensor at
/// one place of one stored tensor. Negative, zero, positive.
int CompareExtents(const PieceView& pieces, uint32_t a, uint32_t b);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_PIECES_PIECES_H_
