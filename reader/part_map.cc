#include "reader/part_map.h"

#include <algorithm>
#include <utility>

namespace dsckpt::reader {

namespace {

uint64_t Extent(const Range& range) { return static_cast<uint64_t>(range.end - range.begin); }

bool Before(const Box& a, const Box& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(), [](const Range& x, const Range& y) {
        return x.begin != y.begin ? x.begin < y.begin : x.end < y.end;
      });
}

bool Intersects(const Box& a, const Box& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].begin >= b[i].end || b[i].begin >= a[i].end) return false;
  }
  return true;
}

/// Cuts elements [begin, end) of a row-major tensor into boxes that each lie without gaps: at most
/// two a dimension.
class FlatCutter {
 public:
  using Visit = std::function<void(const Box& box, uint64_t element_offset)>;
  FlatCutter(std::span<const int64_t> shape, uint64_t element_offset, const Visit& visit)
      : shape_(shape), offset_(element_offset), visit_(visit), box_(WholeBox(shape)) {}

  void Cut(uint64_t begin, uint64_t end, size_t dim = 0) {
    if (begin == end) return;
    if (dim == shape_.size()) return Emit(1);
    uint64_t row = 1;
    for (size_t i = dim + 1; i < shape_.size(); ++i) row *= static_cast<uint64_t>(shape_[i]);
    if (begin % row != 0) {
      const uint64_t until = std::min(end, (begin / row + 1) * row);
      CutRow(begin, until, row, dim);
      begin = until;
    }
    if (const uint64_t whole = end / row * row; begin < whole) {
      box_[dim] = {static_cast<int64_t>(begin / row), static_cast<int64_t>(whole / row)};
      for (size_t i = dim + 1; i < shape_.size(); ++i) box_[i] = {0, shape_[i]};
      Emit(whole - begin);
      begin = whole;
    }
    if (begin < end) CutRow(begin, end, row, dim);
  }

 private:
  /// A range inside one row.
  void CutRow(uint64_t begin, uint64_t end, uint64_t row, size_t dim) {
    const auto at = static_cast<int64_t>(begin / row);
    box_[dim] = {at, at + 1};
    Cut(begin % row, begin % row + (end - begin), dim + 1);
  }
  void Emit(uint64_t elements) {
    visit_(box_, offset_);
    offset_ += elements;
  }

  std::span<const int64_t> shape_;
  uint64_t offset_;
  const Visit& visit_;
  Box box_;
};

/// What of `from` lies outside `cut`, as boxes.
void Subtract(const Box& from, const Box& cut, std::vector<Box>& out) {
  if (!Intersects(from, cut)) {
    out.push_back(from);
    return;
  }
  Box rest = from;
  for (size_t i = 0; i < from.size(); ++i) {
    if (rest[i].begin < cut[i].begin) {
      out.push_back(rest);
      out.back()[i].end = cut[i].begin;
      rest[i].begin = cut[i].begin;
    }
    if (rest[i].end > cut[i].end) {
      out.push_back(rest);
      out.back()[i].begin = cut[i].end;
      rest[i].end = cut[i].end;
    }
  }
}

}  // namespace

std::optional<Box> Intersect(const Box& a, const Box& b) {
  Box common(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    common[i] = {std::max(a[i].begin, b[i].begin), std::min(a[i].end, b[i].end)};
    if (common[i].begin >= common[i].end) return std::nullopt;
  }
  return common;
}

uint64_t Volume(std::span<const Range> box) {
  uint64_t volume = 1;
  for (const Range& range : box) volume *= Extent(range);
  return volume;
}

Box WholeBox(std::span<const int64_t> shape) {
  Box box;
  for (const int64_t size : shape) box.push_back({0, size});
  return box;
}

std::string BoxText(std::span<const Range> box) {
  std::string text = "[";
  for (const Range& range : box) {
    if (text.size() > 1) text += ", ";
    text.append(std::to_string(range.begin)).append(":").append(std::to_string(range.end));
  }
  return text += "]";
}

std::vector<int64_t> FrameShape(std::span<const int64_t> shape, uint32_t block_elements) {
  if (shape.size() < 2 || shape.back() % block_elements == 0) return {shape.begin(), shape.end()};
  return {static_cast<int64_t>(Volume(WholeBox(shape)))};
}

std::optional<Box> InFrame(const Box& box, std::span<const int64_t> shape,
                           uint32_t block_elements) {
  if (box.size() != shape.size() || FrameShape(shape, block_elements).size() == shape.size()) {
    return box;
  }
  // Without gaps: rows of one element, then one range, then all of each dimension.
  int64_t begin = 0;
  bool cut = false;
  for (size_t i = 0; i < box.size(); ++i) {
    const int64_t size = box[i].end - box[i].begin;
    if (cut && size != shape[i]) return std::nullopt;
    cut = cut || size != 1;
    begin = begin * shape[i] + box[i].begin;
  }
  return Box{{begin, begin + static_cast<int64_t>(Volume(box))}};
}

void ForEachBox(const OwnedPiece& piece, uint32_t block_elements,
                const std::function<void(const Box& box, uint64_t element_offset)>& visit) {
  if (FrameShape(piece.logical_shape, block_elements).size() != piece.logical_shape.size()) {
    // Boxes are then whole: no others keep to byte boundaries.
    const Range range = piece.form == Piece::Form::kFlat
                            ? piece.flat
                            : Range{0, static_cast<int64_t>(Volume(piece.box))};
    if (range.begin < range.end) visit({range}, piece.element_offset);
    return;
  }
  if (piece.form == Piece::Form::kFlat) {
    FlatCutter(piece.logical_shape, piece.element_offset, visit)
        .Cut(static_cast<uint64_t>(piece.flat.begin), static_cast<uint64_t>(piece.flat.end));
    return;
  }
  if (Volume(piece.box) != 0) visit(piece.box, piece.element_offset);
}

PartMap::PartMap(const format::ManifestView& manifest, uint32_t logical_tensor) {
  const auto [first, last] = manifest.PiecesOf(logical_tensor);
  const uint32_t block = manifest.dtypes[manifest.logical_dtype[logical_tensor]].block_elements;
  shape_ = FrameShape(manifest.pieces.logical_shape(logical_tensor), block);
  parts_.reserve(last - first);
  for (uint32_t i = first; i < last; ++i) {
    const auto piece = manifest.pieces.Get(i);
    if (!piece) continue;  // What a later version added cannot be read, only missed.
    ForEachBox(*piece, block, [&](const Box& box, uint64_t element_offset) {
      parts_.push_back({box, manifest.piece_shard[i], manifest.pieces.tensor[i], element_offset,
                        piece->replica_group});
    });
  }
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Part& a, const Part& b) { return Before(a.box, b.box); });
  GroupCopies();
  FindOverlaps();
}

void PartMap::GroupCopies() {
  for (uint32_t i = 0; i < parts_.size(); ++i) {
    if (i == 0 || parts_[i].box != parts_[i - 1].box) regions_.push_back({i, i, false});
    regions_.back().last = i + 1;
  }
}

void PartMap::FindOverlaps() {
  if (regions_.size() < 2) return;
  const size_t rank = box(regions_[0]).size();
  // A sweep along the dimension that is cut most often: few regions stand side by side in it.
  size_t along = 0;
  size_t most = 0;
  for (size_t dim = 0; dim < rank; ++dim) {
    std::vector<int64_t> begins;
    begins.reserve(regions_.size());
    for (const Region& region : regions_) begins.push_back(box(region)[dim].begin);
    std::sort(begins.begin(), begins.end());
    const auto distinct =
        static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) along = dim;
    most = std::max(most, distinct);
  }
  std::vector<Region*> order;
  for (Region& region : regions_) order.push_back(&region);
  std::sort(order.begin(), order.end(), [&](const Region* a, const Region* b) {
    return box(*a)[along].begin < box(*b)[along].begin;
  });
  std::vector<Region*> active;
  for (Region* const region : order) {
    std::erase_if(active, [&](const Region* other) {
      return box(*other)[along].end <= box(*region)[along].begin;
    });
    for (Region* const other : active) {
      if (!Intersects(box(*region), box(*other))) continue;
      region->overlaps = other->overlaps = true;
      disjoint_ = false;
    }
    active.push_back(region);
  }
}

std::optional<Box> PartMap::Gap(const Box& wanted) const {
  const uint64_t volume = Volume(wanted);
  if (volume == 0) return std::nullopt;
  if (disjoint_) {
    uint64_t covered = 0;
    for (const Region& region : regions_) {
      if (const auto common = Intersect(box(region), wanted)) covered += Volume(*common);
    }
    if (covered == volume) return std::nullopt;
  }
  std::vector<Box> rest{wanted};
  for (const Region& region : regions_) {
    std::vector<Box> left;
    for (const Box& each : rest) Subtract(each, box(region), left);
    rest = std::move(left);
    if (rest.empty()) return std::nullopt;
  }
  return *std::min_element(rest.begin(), rest.end(), Before);
}

}  // namespace dsckpt::reader
