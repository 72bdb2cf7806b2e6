#include "reader/checkpoint/part_map.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "format/names.h"

namespace dsckpt::reader {

namespace {

bool Before(const Box& a, const Box& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(), [](const Range& x, const Range& y) {
        return x.begin != y.begin ? x.begin < y.begin : x.end < y.end;
      });
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

}  // namespace

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
  MarkOverlaps();
  CheckClaims(manifest, logical_tensor);
}

void PartMap::GroupCopies() {
  for (uint32_t i = 0; i < parts_.size(); ++i) {
    if (i == 0 || parts_[i].box != parts_[i - 1].box) regions_.push_back({i, i, false});
    regions_.back().last = i + 1;
  }
}

void PartMap::MarkOverlaps() {
  std::vector<const Box*> boxes;
  boxes.reserve(regions_.size());
  for (const Region& region : regions_) boxes.push_back(&box(region));
  WorkMeter work(boxes.size());
  const std::vector<bool> overlaps = FindOverlaps(boxes, work);
  for (size_t i = 0; i < regions_.size(); ++i) {
    regions_[i].overlaps = overlaps[i];
    disjoint_ = disjoint_ && !overlaps[i];
  }
  work_ = work.spent();
}

void PartMap::CheckClaims(const format::ManifestView& manifest, uint32_t logical_tensor) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  std::unordered_map<uint32_t, uint64_t> claimed;  // Elements, by shard.
  const format::DTypeRecord& dtype = manifest.dtypes[manifest.logical_dtype[logical_tensor]];
  const auto bytes = [&](uint64_t elements) {
    return static_cast<double>(elements) / dtype.block_elements * dtype.block_bytes;
  };
  const double whole = bytes(Volume(WholeBox(shape_)));
  for (const Part& part : parts_) {
    uint64_t& elements = claimed[part.shard];
    elements = std::min(kMost, elements + Volume(part.box));  // Both are below 2^63.
    if (bytes(elements) <= static_cast<double>(kAnyBytesInShard) ||
        bytes(elements) <= static_cast<double>(kMaxCopiesInShard) * whole) {
      continue;
    }
    status_ =
        Status(StatusCode::kLimitExceeded, "shard '" + Printable(manifest.shard_names[part.shard]) +
                                               "' claims to hold its elements more than " +
                                               std::to_string(kMaxCopiesInShard) +
                                               " times over, which takes too long to compare");
    return;
  }
}

Result<std::optional<Box>> PartMap::Gap(const Box& box) const {
  WorkMeter work(regions_.size());
  return Gap(box, work);
}

uint64_t PartMap::GapWork(const Box& box) const {
  WorkMeter work(regions_.size());
  static_cast<void>(Gap(box, work));
  return work.spent();
}

Result<std::optional<Box>> PartMap::Gap(const Box& wanted, WorkMeter& work) const {
  const uint64_t volume = Volume(wanted);
  if (volume == 0) return std::optional<Box>();
  work.Spend(regions_.size());
  if (disjoint_) {
    uint64_t covered = 0;
    for (const Region& region : regions_) {
      if (const auto common = Intersect(box(region), wanted)) covered += Volume(*common);
    }
    if (covered == volume) return std::optional<Box>();
  }
  std::vector<const Box*> boxes;
  boxes.reserve(regions_.size());
  for (const Region& region : regions_) boxes.push_back(&box(region));
  return FindGap(wanted, boxes, work);
}

}  // namespace dsckpt::reader
