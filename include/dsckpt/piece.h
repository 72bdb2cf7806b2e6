#ifndef DSCKPT_PIECE_H_
#define DSCKPT_PIECE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/export.h"

namespace DSCKPT_EXPORT dsckpt {

class StateProvider;

/// Half-open range of one dimension.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

/// Where states of several ranks come together, what is one rank's own (RankOwn()) goes below the
/// key kRanksKey, by rank: "ranks/3/rng/torch" is rank 3's "rng/torch". Names and logical tensors.
inline constexpr std::string_view kRanksKey = "ranks";
std::string RankOwnName(uint32_t rank, std::string_view name);
/// The inverse: the rank, and in `name` what stands behind it. Nothing for other names.
std::optional<uint32_t> ParseRankOwnName(std::string_view whole, std::string_view* name);
/// Whether `name` is kRanksKey or lies below it.
bool IsBelowRanks(std::string_view name);

/// The part of a logical tensor that a stored tensor, or a stretch of its elements, holds
/// (spec/format.md, "Pieces"). A **logical tensor** is what the job calls one tensor, whole,
/// however its elements are split over ranks. One stored tensor may hold several pieces: a ZeRO
/// partition holds flat ranges of many parameters, a fused QKV shard one box of each. Pieces of one
/// stored tensor may overlap: the same elements can be part of a parameter and of a flat buffer.
///
/// Sub-byte dtypes: rows of a box and flat ranges begin and end on byte boundaries.
struct Piece {
  std::string_view logical_name;
  /// Without any padding that the job uses.
  std::span<const int64_t> logical_shape;
  /// How the part is given.
  enum class Form : uint8_t {
    kBox = 0,   ///< `box`: one range a dimension; stored row-major.
    kFlat = 1,  ///< `flat`: a range of the elements in row-major order.
  };
  Form form = Form::kBox;
  std::span<const Range> box = {};
  Range flat = {};
  /// First element of the piece, counted in the stored tensor's row-major order. The piece's
  /// elements follow it without gaps.
  uint64_t element_offset = 0;
  /// Pieces of one nonzero group claim to be equal copies: loads read one of them, `dsckpt verify`
  /// and `merge` compare all. 0 claims nothing: copies are always compared.
  uint32_t replica_group = 0;
};

/// A Piece that owns its arrays.
struct OwnedPiece {
  std::string logical_name;
  std::vector<int64_t> logical_shape;
  Piece::Form form = Piece::Form::kBox;
  std::vector<Range> box = {};
  Range flat = {};
  uint64_t element_offset = 0;
  uint32_t replica_group = 0;

  Piece view() const {
    return {logical_name, logical_shape, form, box, flat, element_offset, replica_group};
  }
};

/// Says which pieces a tensor holds, from its item name and shape. None: the tensor is a logical
/// tensor of its own, whole.
using PiecesOf =
    std::function<std::vector<OwnedPiece>(std::string_view name, std::span<const int64_t> shape)>;

/// Tensors of `part` that name no pieces themselves get those that `pieces` gives them; called once
/// a tensor in each Describe().
std::unique_ptr<StateProvider> Sharded(std::shared_ptr<const StateProvider> part, PiecesOf pieces);

/// The usual split: part `index` of `count` along `dim` of a logical tensor, in blocks of
/// ceil(size / count) rows, the last ones shorter or empty (as torch.chunk and DTensor's Shard do).
/// REQUIRES: 0 <= index < count, dim < logical_shape.size().
std::vector<Range> SplitBox(std::span<const int64_t> logical_shape, size_t dim, int64_t index,
                            int64_t count);

}  // namespace dsckpt

#endif  // DSCKPT_PIECE_H_
