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

/// A half-open range of one dimension or of flattened elements: `begin` belongs to it, `end` does
/// not.
struct Range {
  /// The first index in the range.
  int64_t begin = 0;
  /// The first index behind the range.
  int64_t end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

/// The key below which readers find what belongs to one rank alone (RankOwn()) when they look at a
/// checkpoint of several ranks as one state: "ranks/3/rng/torch" is rank 3's "rng/torch". It is
/// used in the names of logical tensors too (spec/format.md, "What belongs to a rank").
inline constexpr std::string_view kRanksKey = "ranks";
/// Returns the name by which rank `rank`'s own item `name` is known among all ranks:
/// "ranks/RANK/NAME".
std::string RankOwnName(uint32_t rank, std::string_view name);
/// Parses a name that RankOwnName() made. Returns the rank and sets `*name` to the part behind it,
/// which borrows from `whole`. Returns nothing for any other name.
std::optional<uint32_t> ParseRankOwnName(std::string_view whole, std::string_view* name);
/// Returns whether `name` is kRanksKey or lies below it.
bool IsBelowRanks(std::string_view name);

/// The part of a logical tensor that a stored tensor, or a stretch of its elements, holds
/// (spec/format.md, "Pieces"). A **logical tensor** is what the job calls one tensor, whole,
/// however its elements are split over ranks.
///
/// One stored tensor may hold several pieces: a ZeRO partition holds flat ranges of many
/// parameters, and a fused QKV shard holds one box of each. Pieces of one stored tensor may
/// overlap: the same elements can be part of a parameter and of a flat buffer. The rows of a box
/// and the ends of a flat range of a packed dtype lie on byte boundaries.
///
/// All texts and arrays are borrowed; each function that takes a Piece says for how long.
struct Piece {
  /// The name of the whole tensor.
  std::string_view logical_name;
  /// The shape of the whole tensor, without any padding that the job adds to it.
  std::span<const int64_t> logical_shape;
  /// How the part is described.
  enum class Form : uint8_t {
    /// `box` holds one range for each dimension; its elements are stored row-major.
    kBox = 0,
    /// `flat` is a range of the elements in row-major order.
    kFlat = 1,
  };
  /// Which of `box` and `flat` describes the part.
  Form form = Form::kBox;
  /// For Form::kBox: one range for each dimension of the logical tensor.
  std::span<const Range> box = {};
  /// For Form::kFlat: a range of the logical tensor's elements in row-major order.
  Range flat = {};
  /// The position of the piece's first element in the stored tensor, counted in elements in
  /// row-major order. The other elements of the piece follow it without gaps.
  uint64_t element_offset = 0;
  /// Pieces with the same nonzero number declare that they are equal copies. A load then reads one
  /// of them, while `dsckpt verify` and `dsckpt merge` compare all. With 0 nothing is declared, and
  /// copies of the same elements are always compared.
  uint32_t replica_group = 0;
};

/// A Piece that owns its texts and arrays. The fields have the same meaning.
struct OwnedPiece {
  /// See Piece::logical_name.
  std::string logical_name;
  /// See Piece::logical_shape.
  std::vector<int64_t> logical_shape;
  /// See Piece::form.
  Piece::Form form = Piece::Form::kBox;
  /// See Piece::box.
  std::vector<Range> box = {};
  /// See Piece::flat.
  Range flat = {};
  /// See Piece::element_offset.
  uint64_t element_offset = 0;
  /// See Piece::replica_group.
  uint32_t replica_group = 0;

  /// Returns a Piece that borrows from this object.
  Piece view() const {
    return {logical_name, logical_shape, form, box, flat, element_offset, replica_group};
  }
};

/// A function that says which pieces a tensor holds, given its item name and its shape. When it
/// returns none, the tensor is a whole logical tensor of its own name.
using PiecesOf =
    std::function<std::vector<OwnedPiece>(std::string_view name, std::span<const int64_t> shape)>;

/// Returns a provider that describes `part`, and gives those of its tensors that name no pieces
/// themselves the pieces that `pieces` returns for them. `pieces` is called once for each such
/// tensor in each Describe(), on the thread that calls it. What is below RankOwn() is left alone.
std::unique_ptr<StateProvider> Sharded(std::shared_ptr<const StateProvider> part, PiecesOf pieces);

/// Returns the box of part `index` of `count` when a logical tensor is split along dimension `dim`
/// in the usual way: into blocks of ceil(size / count) rows, of which the last ones are shorter or
/// empty. torch.chunk and DTensor's Shard split in the same way.
/// REQUIRES: 0 <= index < count, and dim < logical_shape.size().
std::vector<Range> SplitBox(std::span<const int64_t> logical_shape, size_t dim, int64_t index,
                            int64_t count);

}  // namespace dsckpt

#endif  // DSCKPT_PIECE_H_
