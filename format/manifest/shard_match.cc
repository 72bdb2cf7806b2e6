#include "format/manifest/shard_match.h"

#include <algorithm>
#include <string>

#include "format/checksum.h"
#include "format/manifest/dtypes.h"
#include "format/names.h"
#include "format/pieces/fold.h"

namespace dsckpt::format {
namespace {

constexpr size_t kShownBounds = 16;

// "tensor 0 from element 4 on, box [0, 2, 4, 2], replica group 1".
std::string PieceText(const PieceView& pieces, uint32_t piece) {
  std::string text = "tensor " + std::to_string(pieces.tensor[piece]) + " from element " +
                     std::to_string(pieces.element_offset[piece]) + " on, ";
  const uint8_t form = pieces.form[piece];
  text += form == static_cast<uint8_t>(Piece::Form::kBox) ? "box ["
          : form == static_cast<uint8_t>(Piece::Form::kFlat)
              ? "flat range ["
              : "form " + std::to_string(form) + " [";
  const auto bounds = pieces.bounds_of(piece);
  for (size_t i = 0; i < bounds.size() && i < kShownBounds; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(bounds[i]);
  }
  text += bounds.size() > kShownBounds ? ", ...]" : "]";
  if (pieces.replica_group[piece] != 0) {
    text += ", replica group " + std::to_string(pieces.replica_group[piece]);
  }
  return text;
}

class ShardComparison {
 public:
  ShardComparison(const ManifestView& manifest, uint32_t shard, std::span<const uint32_t> pieces,
                  const ManifestView& own)
      : manifest_(manifest), shard_(shard), positions_(pieces), own_(own) {}

  Status Compare() const {
    const size_t common = std::min<size_t>(positions_.size(), own_.pieces.size());
    for (uint32_t i = 0; i < common; ++i) DSCKPT_RETURN_IF_ERROR(ComparePiece(i, positions_[i]));
    if (positions_.size() > common) {
      const uint32_t piece = positions_[common];
      return Differs(LogicalOf(manifest_, piece), "nothing more",
                     PieceText(manifest_.pieces, piece));
    }
    if (own_.pieces.size() > common) {
      const auto piece = static_cast<uint32_t>(common);
      return Differs(LogicalOf(own_, piece), PieceText(own_.pieces, piece), "nothing more");
    }
    return {};
  }

 private:
  static std::string_view LogicalOf(const ManifestView& manifest, uint32_t piece) {
    return manifest.pieces.logical_names[manifest.pieces.logical[piece]];
  }
  static const DTypeRecord& DTypeOf(const ManifestView& manifest, uint32_t logical) {
    return manifest.dtypes[manifest.logical_dtype[logical]];
  }

  Status Differs(std::string_view logical, const std::string& held, const std::string& said) const {
    return Status(StatusCode::kMismatch,
                  "shard '" + Printable(manifest_.shard_names[shard_]) +
                      "' is not what the manifest says of it: logical tensor '" +
                      Printable(logical) + "': the shard holds " + held + ", the manifest says " +
                      said + ": use another checkpoint");
  }

  Status ComparePiece(uint32_t own, uint32_t said) const {
    const PieceView& a = own_.pieces;
    const PieceView& b = manifest_.pieces;
    const std::string_view name = LogicalOf(own_, own);
    if (const std::string_view other = LogicalOf(manifest_, said); other != name) {
      return Differs(name, PieceText(a, own),
                     "logical tensor '" + Printable(other) + "', " + PieceText(b, said));
    }
    const auto shape = a.logical_shape(a.logical[own]);
    const auto said_shape = b.logical_shape(b.logical[said]);
    if (!std::equal(shape.begin(), shape.end(), said_shape.begin(), said_shape.end())) {
      return Differs(name, "shape " + ShapeText(shape), ShapeText(said_shape));
    }
    const DTypeRecord& dtype = DTypeOf(own_, a.logical[own]);
    const DTypeRecord& said_dtype = DTypeOf(manifest_, b.logical[said]);
    if (dtype != said_dtype) {
      return Differs(name, "dtype " + DTypeText(DType{dtype.code}),
                     DTypeText(DType{said_dtype.code}));
    }
    const auto bounds = a.bounds_of(own);
    const auto said_bounds = b.bounds_of(said);
    if (a.tensor[own] == b.tensor[said] && a.element_offset[own] == b.element_offset[said] &&
        a.form[own] == b.form[said] && a.replica_group[own] == b.replica_group[said] &&
        std::equal(bounds.begin(), bounds.end(), said_bounds.begin(), said_bounds.end())) {
      return {};
    }
    return Differs(name, PieceText(a, own), PieceText(b, said));
  }

  const ManifestView& manifest_;
  const uint32_t shard_;
  const std::span<const uint32_t> positions_;
  const ManifestView& own_;  // What the shard's index comes to.
};

}  // namespace

PiecesByShard::PiecesByShard(const ManifestView& manifest)
    : positions_(manifest.piece_shard.size()), end_(size_t{manifest.shard_count()} + 1) {
  // A counting sort: end_[s] is where shard s begins until its pieces were placed.
  for (const uint32_t shard : manifest.piece_shard) ++end_[shard + 1];
  for (size_t i = 1; i < end_.size(); ++i) end_[i] += end_[i - 1];
  for (uint32_t i = 0; i < manifest.piece_shard.size(); ++i) {
    positions_[end_[manifest.piece_shard[i]]++] = i;
  }
}

std::span<const uint32_t> PiecesByShard::Of(uint32_t shard) const {
  const uint32_t begin = shard == 0 ? 0 : end_[shard - 1];
  return std::span(positions_).subspan(begin, end_[shard] - begin);
}

std::optional<int64_t> RecordedStep(const TreeView& attributes) {
  // Node 0 is the dict; all others are its leaves.
  for (size_t i = 1; i < attributes.nodes.size(); ++i) {
    const NodeRecord& node = attributes.nodes[i];
    if (HeapText(attributes.heap, node.key) != "step") continue;
    if (node.kind != NodeKind::kInt) return std::nullopt;
    return static_cast<int64_t>(node.payload);
  }
  return std::nullopt;
}

Status CheckShardAgainst(const ManifestView& manifest, uint32_t shard,
                         std::span<const uint32_t> pieces, const IndexView& index) {
  const std::string_view name = manifest.shard_names[shard];
  DSCKPT_ASSIGN_OR_RETURN(const ManifestColumns own, ManifestOfShard({.name = name}, index));
  const ManifestView own_view = ViewOf(own);
  DSCKPT_RETURN_IF_ERROR(ShardComparison(manifest, shard, pieces, own_view).Compare());
  if (!manifest.shard_content.empty() && !own.shard_content.empty() &&
      manifest.shard_content[shard] != own.shard_content[0]) {
    return Status(StatusCode::kMismatch,
                  "shard '" + Printable(name) + "' holds content of digest " +
                      ToHex(own.shard_content[0]) + ", the manifest says " +
                      ToHex(manifest.shard_content[shard]) + ": use another checkpoint");
  }
  if (index.rank_own.size() > 0 && index.rank != manifest.shard_rank[shard]) {
    return Status(StatusCode::kMismatch, "shard '" + Printable(name) + "' holds what is rank " +
                                             std::to_string(index.rank) +
                                             "'s own, the manifest says that rank " +
                                             std::to_string(manifest.shard_rank[shard]) +
                                             " wrote it: use another checkpoint");
  }
  const auto step = RecordedStep(index.attributes);
  if (!step || *step == manifest.step) return {};
  return Status(StatusCode::kMismatch, "shard '" + Printable(name) + "' is of step " +
                                           std::to_string(*step) + ", the manifest says " +
                                           std::to_string(manifest.step) +
                                           ": use another checkpoint");
}

}  // namespace dsckpt::format
