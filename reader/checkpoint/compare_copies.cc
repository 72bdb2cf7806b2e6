#include "reader/checkpoint/compare_copies.h"

#include <algorithm>
#include <vector>

#include "reader/checkpoint/box_reader.h"

namespace dsckpt::reader {

namespace {

/// Boxes of at most about kStepBytes that make up `whole`, in row-major order.
std::vector<Box> Steps(const Box& whole, const DTypeInfo& dtype) {
  constexpr uint64_t kStepBytes = 2 * kChunkBytes;
  const uint64_t step = kStepBytes / dtype.block_bytes * dtype.block_elements;
  OwnedPiece range;
  range.logical_shape = Extents(whole);
  range.form = Piece::Form::kFlat;
  std::vector<Box> boxes;
  for (uint64_t begin = 0; begin < Volume(whole); begin += step) {
    range.flat = {static_cast<int64_t>(begin),
                  static_cast<int64_t>(std::min(begin + step, Volume(whole)))};
    ForEachBox(range, dtype.block_elements, [&](const Box& box, uint64_t) {
      boxes.push_back(box);
      for (size_t i = 0; i < whole.size(); ++i) {
        boxes.back()[i].begin += whole[i].begin;
        boxes.back()[i].end += whole[i].begin;
      }
    });
  }
  return boxes;
}

/// The copies of one region with each other.
Status CompareRegion(const Checkpoint::Impl& checkpoint, const LogicalTensorInfo& info,
                     const PartMap& parts, const PartMap::Region& region) {
  const auto copies = parts.copies(region);
  std::vector<const TensorPart*> undecided;
  for (const TensorPart& copy : copies.subspan(1)) {
    DSCKPT_ASSIGN_OR_RETURN(const bool same,
                            BoxReader(checkpoint, true, true).SameDigest(copies[0], copy));
    if (!same) undecided.push_back(&copy);
  }
  if (undecided.empty()) return Status();
  std::vector<std::byte> memory;
  for (const Box& box : Steps(parts.box(region), info.dtype)) {
    memory.resize(Volume(box) / info.dtype.block_elements * info.dtype.block_bytes);
    BoxReader reader(checkpoint, true, true);
    DSCKPT_RETURN_IF_ERROR(reader.AddCopies(info.ordinal, copies[0], undecided, box, memory));
    DSCKPT_RETURN_IF_ERROR(reader.Run());
  }
  return Status();
}

}  // namespace

Status CompareCopies(const Checkpoint::Impl& checkpoint, uint32_t tensor) {
  const LogicalTensorInfo info = checkpoint.Info(tensor);
  DSCKPT_ASSIGN_OR_RETURN(const auto parts, checkpoint.Parts(tensor));
  bool overlaps = false;
  for (const PartMap::Region& region : parts->regions()) {
    DSCKPT_RETURN_IF_ERROR(CompareRegion(checkpoint, info, *parts, region));
    overlaps = overlaps || region.overlaps;
  }
  if (!overlaps) return Status();
  std::vector<std::byte> memory;
  for (const Box& box : Steps(WholeBox(parts->shape()), info.dtype)) {
    memory.resize(Volume(box) / info.dtype.block_elements * info.dtype.block_bytes);
    BoxReader reader(checkpoint, true, true);
    reader.AddOverlaps(tensor, *parts, box, memory);
    DSCKPT_RETURN_IF_ERROR(reader.Run());
  }
  return Status();
}

}  // namespace dsckpt::reader
