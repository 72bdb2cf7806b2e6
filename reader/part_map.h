#ifndef DSCKPT_READER_PART_MAP_H_
#define DSCKPT_READER_PART_MAP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/piece.h"
#include "format/manifest.h"

namespace dsckpt::reader {

/// A box of a logical tensor, one range a dimension. None of rank 0 is empty.
using Box = std::vector<Range>;

std::optional<Box> Intersect(const Box& a, const Box& b);  ///< Nothing when it is empty.
uint64_t Volume(std::span<const Range> box);               ///< In elements.
Box WholeBox(std::span<const int64_t> shape);
std::string BoxText(std::span<const Range> box);  ///< "[0:2, 4:8]"

/// The shape that boxes of a logical tensor of `shape` are counted in: itself, or all elements in
/// one dimension where rows are no whole blocks of a sub-byte dtype, so that a box of them could
/// begin inside a byte.
std::vector<int64_t> FrameShape(std::span<const int64_t> shape, uint32_t block_elements);
/// `box` of a tensor of `shape`, which it fits, in its frame; nothing where it is no box there.
std::optional<Box> InFrame(const Box& box, std::span<const int64_t> shape, uint32_t block_elements);

/// The boxes that a piece consists of, each row-major and without gaps in the stored tensor from an
/// element offset on, in the frame of its logical tensor. Empty ones are left out.
void ForEachBox(const OwnedPiece& piece, uint32_t block_elements,
                const std::function<void(const Box& box, uint64_t element_offset)>& visit);

/// A box that lies row-major and without gaps in a stored tensor, from `element_offset` on.
struct Part {
  Box box;
  uint32_t shard = 0;
  uint32_t tensor = 0;
  uint64_t element_offset = 0;
  uint32_t replica_group = 0;
};

/// All parts of one logical tensor: pieces, flat ranges among them cut into boxes. Parts of equal
/// boxes are copies of each other and stand together as one region. Immutable.
class PartMap {
 public:
  struct Region {
    uint32_t first = 0, last = 0;  // its parts
    bool overlaps = false;         // with another region: some elements are in both
  };

  PartMap(const format::ManifestView& manifest, uint32_t logical_tensor);

  /// That of the frame.
  std::span<const int64_t> shape() const { return shape_; }
  std::span<const Region> regions() const { return regions_; }
  const Box& box(const Region& region) const { return parts_[region.first].box; }
  std::span<const Part> copies(const Region& region) const {
    return std::span(parts_).subspan(region.first, region.last - region.first);
  }
  /// Some box inside `box` that no part holds; nothing when all of it is covered.
  std::optional<Box> Gap(const Box& box) const;

 private:
  void GroupCopies();
  void FindOverlaps();

  std::vector<int64_t> shape_;
  std::vector<Part> parts_;  // By box.
  std::vector<Region> regions_;
  bool disjoint_ = true;
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_PART_MAP_H_
