#include "format/columns/flatbuffer_build.h"

namespace dsckpt::format {

uint64_t Bound(const PieceColumns& pieces) {
  return Bound(pieces.logical_names) + Bound(pieces.logical_dim_end) + Bound(pieces.logical_dims) +
         Bound(pieces.tensor) + Bound(pieces.logical) + Bound(pieces.element_offset) +
         Bound(pieces.form) + Bound(pieces.bounds_end) + Bound(pieces.bounds) +
         Bound(pieces.replica_group);
}

flatbuffers::Offset<fbs::Pieces> BuildPieces(Builder& builder, const PieceColumns& pieces) {
  const auto names = Names(builder, pieces.logical_names);
  const auto dim_end = Scalars(builder, pieces.logical_dim_end);
  const auto dims = Scalars(builder, pieces.logical_dims);
  const auto tensor = Scalars(builder, pieces.tensor);
  const auto logical = Scalars(builder, pieces.logical);
  const auto element_offset = Scalars(builder, pieces.element_offset);
  const auto form = Scalars(builder, pieces.form);
  const auto bounds_end = Scalars(builder, pieces.bounds_end);
  const auto bounds = Scalars(builder, pieces.bounds);
  const auto replica_group = Scalars(builder, pieces.replica_group);
  return fbs::CreatePieces(builder, names, dim_end, dims, tensor, logical, element_offset, form,
                           bounds_end, bounds, replica_group);
}

}  // namespace dsckpt::format
