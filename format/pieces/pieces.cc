#include "format/pieces/pieces.h"

#include <algorithm>
#include <compare>
#include <limits>

#include "dsckpt/limits.h"
#include "format/columns/columns.h"

namespace dsckpt::format {
namespace {

constexpr auto kBox = static_cast<uint8_t>(Piece::Form::kBox);
constexpr auto kFlat = static_cast<uint8_t>(Piece::Form::kFlat);

Range RangeOf(uint64_t begin, uint64_t count) {
  return {static_cast<int64_t>(begin), static_cast<int64_t>(begin + count)};
}

// All but the bounds, for which there is room.
Status AppendCommon(PieceColumns& columns, uint32_t tensor, std::string_view logical_name,
                    std::span<const int64_t> logical_shape, uint64_t element_offset, uint8_t form,
                    uint32_t replica_group, size_t bounds) {
  constexpr uint64_t kMaxColumn = std::numeric_limits<uint32_t>::max();
  if (columns.logical_names.bytes.size() + logical_name.size() > kMaxColumn ||
      columns.logical_dims.size() + logical_shape.size() > kMaxColumn ||
      columns.bounds.size() + bounds > kMaxColumn || columns.tensor.size() >= kMaxItems) {
    return Status(StatusCode::kLimitExceeded,
                  "pieces: all names, dimensions or bounds together exceed 2^32 - 1 entries");
  }
  columns.logical.push_back(columns.size());
  columns.tensor.push_back(tensor);
  columns.logical_names.Append(logical_name);
  columns.logical_dims.insert(columns.logical_dims.end(), logical_shape.begin(),
                              logical_shape.end());
  columns.logical_dim_end.push_back(static_cast<uint32_t>(columns.logical_dims.size()));
  columns.element_offset.push_back(element_offset);
  columns.form.push_back(form);
  columns.replica_group.push_back(replica_group);
  return {};
}

int Sign(std::strong_ordering order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }

}  // namespace

std::span<const int64_t> PieceView::logical_shape(uint32_t logical_tensor) const {
  return Part(logical_dims, logical_dim_end, logical_tensor);
}

std::span<const uint64_t> PieceView::bounds_of(uint32_t piece) const {
  return Part(bounds, bounds_end, piece);
}

std::optional<uint64_t> PieceView::elements(uint32_t piece) const {
  const std::span<const uint64_t> all = bounds_of(piece);
  if (form[piece] == kFlat) return all[1];
  if (form[piece] != kBox) return std::nullopt;
  uint64_t product = 1;
  for (const uint64_t extent : all.last(all.size() / 2)) product *= extent;
  return product;
}

std::optional<OwnedPiece> PieceView::Get(uint32_t piece) const {
  if (form[piece] > kFlat) return std::nullopt;
  const std::span<const int64_t> shape = logical_shape(logical[piece]);
  const std::span<const uint64_t> all = bounds_of(piece);
  OwnedPiece out;
  out.logical_name = logical_names[logical[piece]];
  out.logical_shape.assign(shape.begin(), shape.end());
  out.form = static_cast<Piece::Form>(form[piece]);
  out.element_offset = element_offset[piece];
  out.replica_group = replica_group[piece];
  if (form[piece] == kFlat) {
    out.flat = RangeOf(all[0], all[1]);
    return out;
  }
  const size_t rank = shape.size();
  out.box.reserve(rank);
  for (size_t dim = 0; dim < rank; ++dim) out.box.push_back(RangeOf(all[dim], all[rank + dim]));
  return out;
}

PieceView ViewOf(const PieceColumns& columns) {
  return {{columns.logical_names.bytes, columns.logical_names.ends},
          columns.logical_dim_end,
          columns.logical_dims,
          columns.tensor,
          columns.logical,
          columns.element_offset,
          columns.form,
          columns.bounds_end,
          columns.bounds,
          columns.replica_group};
}

Status AppendPiece(PieceColumns& columns, uint32_t tensor, const Piece& piece) {
  const std::span<const Range> ranges =
      piece.form == Piece::Form::kFlat ? std::span<const Range>(&piece.flat, 1) : piece.box;
  DSCKPT_RETURN_IF_ERROR(AppendCommon(columns, tensor, piece.logical_name, piece.logical_shape,
                                      piece.element_offset, static_cast<uint8_t>(piece.form),
                                      piece.replica_group, 2 * ranges.size()));
  for (const Range& range : ranges) {
    columns.bounds.push_back(static_cast<uint64_t>(range.begin));
  }
  for (const Range& range : ranges) {
    columns.bounds.push_back(static_cast<uint64_t>(range.end - range.begin));
  }
  columns.bounds_end.push_back(static_cast<uint32_t>(columns.bounds.size()));
  return {};
}

Status AppendPiece(PieceColumns& columns, uint32_t tensor, const PieceView& from, uint32_t piece) {
  const uint32_t logical = from.logical[piece];
  const std::span<const uint64_t> bounds = from.bounds_of(piece);
  DSCKPT_RETURN_IF_ERROR(AppendCommon(columns, tensor, from.logical_names[logical],
                                      from.logical_shape(logical), from.element_offset[piece],
                                      from.form[piece], from.replica_group[piece], bounds.size()));
  columns.bounds.insert(columns.bounds.end(), bounds.begin(), bounds.end());
  columns.bounds_end.push_back(static_cast<uint32_t>(columns.bounds.size()));
  return {};
}

int CompareExtents(const PieceView& pieces, uint32_t a, uint32_t b) {
  if (pieces.form[a] != pieces.form[b]) return pieces.form[a] < pieces.form[b] ? -1 : 1;
  const auto x = pieces.bounds_of(a);
  const auto y = pieces.bounds_of(b);
  const int order =
      Sign(std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end()));
  return order != 0 ? order : Sign(pieces.replica_group[a] <=> pieces.replica_group[b]);
}

}  // namespace dsckpt::format
