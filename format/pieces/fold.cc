#include "format/pieces/fold.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace dsckpt::format {
namespace {

// Gives `out` the distinct logical tensors of `all`, by name; returns each piece's.
Result<std::vector<uint32_t>> FoldLogicalTensors(const PieceColumns& all, const PiecePair& conflict,
                                                 const PiecePair& shape_conflict,
                                                 PieceColumns& out) {
  const PieceView view = ViewOf(all);
  std::vector<uint32_t> logical(all.size());
  uint32_t first = 0;  // The piece whose name was appended last.
  for (const uint32_t piece : SortedByName(all.logical_names)) {
    const std::string_view name = view.logical_names[piece];
    const auto shape = view.logical_shape(piece);
    const uint32_t count = out.logical_names.size();
    if (count == 0 || out.logical_names[count - 1] != name) {
      out.logical_names.Append(name);
      out.logical_dims.insert(out.logical_dims.end(), shape.begin(), shape.end());
      out.logical_dim_end.push_back(static_cast<uint32_t>(out.logical_dims.size()));
      first = piece;
    } else {
      const auto known = view.logical_shape(first);
      if (!std::equal(known.begin(), known.end(), shape.begin(), shape.end())) {
        return shape_conflict(std::min(first, piece), std::max(first, piece));
      }
      DSCKPT_RETURN_IF_ERROR(conflict(std::min(first, piece), std::max(first, piece)));
    }
    logical[piece] = out.logical_names.size() - 1;
  }
  return logical;
}

void AppendColumns(const PieceView& all, uint32_t piece, uint32_t logical, PieceColumns& out) {
  const auto bounds = all.bounds_of(piece);
  out.tensor.push_back(all.tensor[piece]);
  out.logical.push_back(logical);
  out.element_offset.push_back(all.element_offset[piece]);
  out.form.push_back(all.form[piece]);
  out.bounds.insert(out.bounds.end(), bounds.begin(), bounds.end());
  out.bounds_end.push_back(static_cast<uint32_t>(out.bounds.size()));
  out.replica_group.push_back(all.replica_group[piece]);
}

}  // namespace

Result<PieceColumns> FoldPieces(const PieceColumns& all, PieceOrder order,
                                const PiecePair& conflict, const PiecePair& shape_conflict) {
  PieceColumns out;
  DSCKPT_ASSIGN_OR_RETURN(const std::vector<uint32_t> logical,
                          FoldLogicalTensors(all, conflict, shape_conflict, out));
  const PieceView view = ViewOf(all);
  const auto place = [&](uint32_t i) {
    const uint64_t tensor = view.tensor[i];
    return order == PieceOrder::kByTensor ? std::tuple<uint64_t, uint64_t, uint64_t>(
                                                tensor, view.element_offset[i], logical[i])
                                          : std::tuple<uint64_t, uint64_t, uint64_t>(
                                                logical[i], tensor, view.element_offset[i]);
  };
  std::vector<uint32_t> sorted(all.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    const auto x = place(a);
    const auto y = place(b);
    return x != y ? x < y : CompareExtents(view, a, b) < 0;
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && place(sorted[i - 1]) == place(sorted[i]) &&
        CompareExtents(view, sorted[i - 1], sorted[i]) == 0) {
      continue;
    }
    AppendColumns(view, sorted[i], logical[sorted[i]], out);
  }
  return out;
}

}  // namespace dsckpt::format
