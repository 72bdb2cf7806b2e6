// Makes the manifest of one shard from its index.

#include <algorithm>
#include <string>
#include <utility>

#include "format/manifest/dtypes.h"
#include "format/manifest/manifest.h"
#include "format/names.h"
#include "format/pieces/fold.h"

namespace dsckpt::format {
namespace {

// Collects the pieces of one shard, declared or not, with a logical tensor each.
class ShardPieces {
 public:
  explicit ShardPieces(const IndexView& index) : index_(index) {}

  Status Collect() {
    std::vector<bool> declared(index_.tensor_names.size());
    for (uint32_t i = 0; i < index_.pieces.size(); ++i) {
      declared[index_.pieces.tensor[i]] = true;
      DSCKPT_RETURN_IF_ERROR(AppendPiece(all_, index_.pieces.tensor[i], index_.pieces, i));
    }
    for (uint32_t i = 0; i < index_.tensor_names.size(); ++i) {
      if (!declared[i]) DSCKPT_RETURN_IF_ERROR(AddWhole(index_.tensor_names[i], i));
    }
    for (uint32_t i = 0; i < index_.alias_names.size(); ++i) {
      const uint32_t target = index_.alias_target[i];
      if (!declared[target]) DSCKPT_RETURN_IF_ERROR(AddWhole(index_.alias_names[i], target));
    }
    return {};
  }

  Result<PieceColumns> Fold(std::string_view shard) const {
    const auto conflict = [&](uint32_t a, const char* what, const std::string& x,
                              const std::string& y) {
      return Status(StatusCode::kMismatch, "logical tensor '" + Printable(all_.logical_names[a]) +
                                               "' has " + what + " " + x + " and " + y +
                                               " in shard '" + Printable(shard) + "'");
    };
    const auto dtypes = [&](uint32_t a, uint32_t b) {
      const DTypeRecord& x = DTypeOf(all_.tensor[a]);
      const DTypeRecord& y = DTypeOf(all_.tensor[b]);
      return x == y ? Status()
                    : conflict(a, "dtype", DTypeText(DType{x.code}), DTypeText(DType{y.code}));
    };
    const auto shapes = [&](uint32_t a, uint32_t b) {
      const PieceView view = ViewOf(all_);
      return conflict(a, "shape", ShapeText(view.logical_shape(a)),
                      ShapeText(view.logical_shape(b)));
    };
    return FoldPieces(all_, PieceOrder::kByLogical, dtypes, shapes);
  }

  const DTypeRecord& DTypeOf(uint32_t tensor) const {
    return index_.dtypes[index_.tensor_dtype[tensor]];
  }

 private:
  Status AddWhole(std::string_view name, uint32_t tensor) {
    const auto shape = index_.shape(tensor);
    box_.clear();
    for (const int64_t dim : shape) box_.push_back({0, dim});
    return AppendPiece(all_, tensor,
                       Piece{.logical_name = name, .logical_shape = shape, .box = box_});
  }

  const IndexView& index_;
  PieceColumns all_;
  std::vector<Range> box_;
};

}  // namespace

Result<ManifestColumns> ManifestOfShard(const ShardIdentity& shard, const IndexView& index) {
  ShardPieces pieces(index);
  DSCKPT_RETURN_IF_ERROR(pieces.Collect());
  ManifestColumns out;
  DSCKPT_ASSIGN_OR_RETURN(out.pieces, pieces.Fold(shard.name));
  out.ranks = shard.rank + 1;
  out.shard_names.emplace_back(shard.name);
  out.shard_rank = {shard.rank};
  out.shard_file_bytes = {shard.file_bytes};
  out.shard_index_bytes = {shard.index_bytes};
  out.shard_index_xxh3_64 = {shard.index_xxh3_64};
  if (index.annotations.content) out.shard_content = {*index.annotations.content};
  out.piece_shard.assign(out.pieces.size(), 0);
  std::vector<DTypeRecord> dtypes(out.pieces.logical_names.size());
  for (uint32_t i = 0; i < out.pieces.size(); ++i) {
    dtypes[out.pieces.logical[i]] = pieces.DTypeOf(out.pieces.tensor[i]);
  }
  DSCKPT_RETURN_IF_ERROR(SetLogicalDTypes(dtypes, out));
  return out;
}

}  // namespace dsckpt::format
