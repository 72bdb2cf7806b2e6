#ifndef DSCKPT_READER_CHECKPOINT_BOX_READER_H_
#define DSCKPT_READER_CHECKPOINT_BOX_READER_H_

// Boxes of logical tensors, put together in memory from the pieces that hold them, shard by shard.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/checkpoint/overlay.h"
#include "reader/chunk/box.h"

namespace dsckpt::reader {

/// One box of one stored tensor, and where it goes.
struct BoxTransfer {
  uint32_t shard;
  uint32_t tensor;
  BoxRuns runs;
  std::span<std::byte> out;
};

/// Elements that several pieces hold, as one of them has them: read into memory of their own and
/// compared with what `out` holds of the others.
struct BoxCopy {
  uint32_t logical;
  TensorPart part;
  Box box;      // of the logical tensor
  Box out_box;  // that `out` holds
  std::span<std::byte> out;
  bool fills;  // `out` gets it; else all of `box` is there already.
};

/// Collects what the requests of one Read() come to, then does it shard by shard.
class BoxReader {
 public:
  /// `verify`: chunk sums are checked. `stepwise`: the read is one step of a longer way, so that
  /// chunks go through the checkpoint's cache.
  BoxReader(const Checkpoint::Impl& checkpoint, bool verify, bool stepwise)
      : checkpoint_(checkpoint), verify_(verify), stepwise_(stepwise) {}

  /// A box of a logical tensor, counted in its frame (part_map.h).
  Status Add(const BoxRequest& request);
  /// Elements `box`, which `out` holds, from `first`, and from `others` to compare with it.
  Status AddCopies(uint32_t logical, const TensorPart& first,
                   std::span<const TensorPart* const> others, const Box& box,
                   std::span<std::byte> out) {
    DSCKPT_RETURN_IF_ERROR(AddTransfer(logical, first, box, box, out));
    for (const TensorPart* const other : others) AddCopy(logical, *other, box, box, out, false);
    return Status();
  }
  /// The elements of `box`, which `out` holds, that overlapping regions have, to compare them.
  void AddOverlaps(uint32_t logical, const PartMap& parts, const Box& box,
                   std::span<std::byte> out) {
    for (const PartMap::Region& region : parts.regions()) {
      if (!region.overlaps) continue;
      const auto common = Intersect(parts.box(region), box);
      if (common) AddCopy(logical, parts.copies(region)[0], *common, box, out, true);
    }
  }
  /// True when both parts are whole stored tensors of one dtype, shape and content. False decides
  /// nothing: other layouts of the same elements have other digests.
  Result<bool> SameDigest(const TensorPart& a, const TensorPart& b) const;
  /// Reads everything that was added, and compares what has to be equal.
  Status Run();

 private:
  Status AddRegion(uint32_t logical, const PartMap& parts, const PartMap::Region& region,
                   const Box& common, const Box& out_box, std::span<std::byte> out);
  Status AddTransfer(uint32_t logical, const TensorPart& part, const Box& common,
                     const Box& out_box, std::span<std::byte> out);
  void AddCopy(uint32_t logical, const TensorPart& part, const Box& common, const Box& out_box,
               std::span<std::byte> out, bool fills) {
    copies_.push_back({logical, part, common, out_box, out, fills});
  }
  Status RunTransfers();
  Status RunCopies();
  Status ReadShard(uint32_t shard, std::span<const BoxTransfer> transfers) const;
  Status Merge(const BoxCopy& copy, std::span<const std::byte> bytes);

  const Checkpoint::Impl& checkpoint_;
  const bool verify_, stepwise_;
  std::vector<BoxTransfer> transfers_;
  std::vector<BoxCopy> copies_;
  std::map<const std::byte*, Overlay> overlays_;  // By the `out` of the copies that fill it.
};

/// Checkpoint::Read() of boxes that are counted in their frames (part_map.h).
Status ReadBoxes(const Checkpoint::Impl& checkpoint, std::span<const BoxRequest> requests,
                 bool verify, bool stepwise = false);

/// Checkpoint::ReadBytes(), from block `first` of the dtype on; `out` is of whole blocks.
Status ReadBlocks(const Checkpoint::Impl& checkpoint, uint32_t tensor, uint64_t first,
                  std::span<std::byte> out, bool verify);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_BOX_READER_H_
