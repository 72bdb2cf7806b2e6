#include "reader/chunk/box.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace dsckpt::reader {

namespace {

Status CheckRanges(std::span<const int64_t> shape, std::span<const Range> box) {
  if (box.size() != shape.size()) {
    return Status(StatusCode::kInvalidArgument, "the box has " + std::to_string(box.size()) +
                                                    " ranges, but the tensor has " +
                                                    std::to_string(shape.size()) + " dimensions");
  }
  for (size_t i = 0; i < box.size(); ++i) {
    if (box[i].begin >= 0 && box[i].begin <= box[i].end && box[i].end <= shape[i]) continue;
    return Status(StatusCode::kInvalidArgument,
                  "range [" + std::to_string(box[i].begin) + ", " + std::to_string(box[i].end) +
                      ") does not fit dimension " + std::to_string(i) + " of size " +
                      std::to_string(shape[i]));
  }
  return Status();
}

uint64_t Extent(const Range& range) { return static_cast<uint64_t>(range.end - range.begin); }

/// Bytes of `elements`; `whole` becomes false when they are no whole number of blocks.
uint64_t ToBytes(const DTypeInfo& dtype, uint64_t elements, bool& whole) {
  if (elements % dtype.block_elements != 0) whole = false;
  return elements / dtype.block_elements * dtype.block_bytes;
}

}  // namespace

class BoxRuns::Cursor {
 public:
  Cursor(const BoxRuns& runs, uint64_t run) : runs_(runs), position_(runs.outer_.size()) {
    offset_ = runs.Offset(run);
    target_ = runs.target_base_;
    for (size_t i = position_.size(); i-- > 0; run /= runs.outer_[i].extent) {
      position_[i] = run % runs.outer_[i].extent;
      target_ += position_[i] * runs.outer_[i].target_stride;
    }
  }
  uint64_t offset() const { return offset_; }
  uint64_t target() const { return target_; }
  void Advance() {
    for (size_t i = position_.size(); i-- > 0;) {
      const Outer& outer = runs_.outer_[i];
      offset_ += outer.stride;
      target_ += outer.target_stride;
      if (++position_[i] < outer.extent) return;
      offset_ -= outer.extent * outer.stride;
      target_ -= outer.extent * outer.target_stride;
      position_[i] = 0;
    }
  }

 private:
  const BoxRuns& runs_;
  std::vector<uint64_t> position_;
  uint64_t offset_, target_;
};

Result<BoxRuns> BoxRuns::Make(const DTypeInfo& dtype, std::span<const int64_t> shape,
                              std::span<const Range> box) {
  std::vector<int64_t> extents;
  for (const Range& range : box) extents.push_back(range.end - range.begin);
  const std::vector<int64_t> origin(box.size());
  return Make(dtype, shape, box, {extents, origin});
}

Result<BoxRuns> BoxRuns::Make(const DTypeInfo& dtype, std::span<const int64_t> shape,
                              std::span<const Range> box, const BoxTarget& target) {
  DSCKPT_RETURN_IF_ERROR(CheckRanges(shape, box));
  BoxRuns runs;
  for (const Range& range : box) {
    // Before any product is formed: a tensor without elements may have dimensions that overflow.
    if (range.begin == range.end) return runs;
  }
  bool whole = true;
  // In elements: strides of dimension `dim` here and in the target, and where the box begins.
  uint64_t stride = 1, target_stride = 1, base = 0, target_base = 0;
  size_t dim = shape.size();
  const auto step = [&] {
    base += static_cast<uint64_t>(box[dim].begin) * stride;
    target_base += static_cast<uint64_t>(target.begin[dim]) * target_stride;
    stride *= static_cast<uint64_t>(shape[dim]);
    target_stride *= static_cast<uint64_t>(target.shape[dim]);
  };
  uint64_t run = 1;
  // The run takes in dimensions from the fastest on, up to the first that is cut on either side.
  for (bool full = true; full && dim > 0;) {
    --dim;
    full = Extent(box[dim]) == static_cast<uint64_t>(shape[dim]) && shape[dim] == target.shape[dim];
    run *= Extent(box[dim]);
    step();
  }
  runs.count_ = 1;
  while (dim > 0) {
    --dim;
    if (const uint64_t extent = Extent(box[dim]); extent > 1) {
      runs.outer_.push_back(
          {extent, ToBytes(dtype, stride, whole), ToBytes(dtype, target_stride, whole)});
      runs.count_ *= extent;
    }
    step();
  }
  std::reverse(runs.outer_.begin(), runs.outer_.end());
  runs.base_ = ToBytes(dtype, base, whole);
  runs.target_base_ = ToBytes(dtype, target_base, whole);
  runs.run_bytes_ = ToBytes(dtype, run, whole);
  if (whole) return runs;
  return Status(StatusCode::kInvalidArgument,
                "rows of the box begin or end inside a byte: dtype " + std::string(dtype.name) +
                    " stores elements in blocks of " + std::to_string(dtype.block_elements));
}

uint64_t BoxRuns::Offset(uint64_t run) const {
  uint64_t offset = base_;
  for (size_t i = outer_.size(); i-- > 0; run /= outer_[i].extent) {
    offset += run % outer_[i].extent * outer_[i].stride;
  }
  return offset;
}

uint64_t BoxRuns::FirstEndingAfter(uint64_t begin) const {
  uint64_t low = 0;
  uint64_t high = count_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (Offset(middle) + run_bytes_ > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

bool BoxRuns::Overlaps(uint64_t begin, uint64_t end) const {
  const uint64_t run = FirstEndingAfter(begin);
  return run < count_ && Offset(run) < end;
}

void BoxRuns::Copy(std::span<const std::byte> part, uint64_t begin,
                   std::span<std::byte> out) const {
  uint64_t run = FirstEndingAfter(begin);
  if (run == count_) return;
  const uint64_t end = begin + part.size();
  for (Cursor cursor(*this, run); run < count_ && cursor.offset() < end; ++run, cursor.Advance()) {
    const uint64_t from = std::max(cursor.offset(), begin);
    const uint64_t to = std::min(cursor.offset() + run_bytes_, end);
    std::memcpy(out.data() + cursor.target() + (from - cursor.offset()),
                part.data() + (from - begin), to - from);
  }
}

}  // namespace dsckpt::reader
