#ifndef DSCKPT_READER_CHECKPOINT_PART_MAP_H_
#define DSCKPT_READER_CHECKPOINT_PART_MAP_H_

// Which stored tensors hold which parts of one logical tensor: copies, overlaps and gaps.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "dsckpt/piece.h"
#include "dsckpt/status.h"
#include "format/manifest/manifest.h"
#include "reader/checkpoint/boxes.h"
#include "reader/checkpoint/coverage.h"

namespace dsckpt::reader {

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
struct TensorPart {
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
    bool overlaps = false;         // maybe with another region: some elements are in both
  };

  PartMap(const format::ManifestView& manifest, uint32_t logical_tensor);

  /// One shard may hold a logical tensor this often, and this many bytes of it in any case; more of
  /// it takes more time to compare than storage to claim (spec/format.md, "Limits").
  static constexpr uint64_t kMaxCopiesInShard = 64;
  static constexpr uint64_t kAnyBytesInShard = uint64_t{1} << 28;
  /// kLimitExceeded when a shard claims more.
  const Status& status() const { return status_; }

  /// That of the frame.
  std::span<const int64_t> shape() const { return shape_; }
  std::span<const Region> regions() const { return regions_; }
  const Box& box(const Region& region) const { return parts_[region.first].box; }
  std::span<const TensorPart> copies(const Region& region) const {
    return std::span(parts_).subspan(region.first, region.last - region.first);
  }
  /// Some box inside `box` that no part holds; nothing when all of it is covered. kLimitExceeded.
  Result<std::optional<Box>> Gap(const Box& box) const;
  /// Steps that it took to make the map (coverage.h), and what Gap() of this box takes.
  uint64_t work() const { return work_; }
  uint64_t GapWork(const Box& box) const;

 private:
  void GatherCopies();
  void MarkOverlaps();
  void CheckClaims(const format::ManifestView& manifest, uint32_t logical_tensor);
  Result<std::optional<Box>> Gap(const Box& box, WorkMeter& work) const;

  std::vector<int64_t> shape_;
  std::vector<TensorPart> parts_;  // By box.
  std::vector<Region> regions_;
  bool disjoint_ = true;
  Status status_;
  uint64_t work_ = 0;
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_PART_MAP_H_
