#ifndef DSCKPT_READER_CHUNK_BOX_H_
#define DSCKPT_READER_CHUNK_BOX_H_

// A box of a tensor as the runs of bytes that it consists of.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/file.h"
#include "dsckpt/status.h"

namespace dsckpt::reader {

/// Where a box goes: into a row-major tensor of `shape`, its first element at `begin`.
struct BoxTarget {
  std::span<const int64_t> shape;
  std::span<const int64_t> begin;
};

/// A box of a row-major tensor as runs of contiguous bytes, all of one length and in the order of
/// their offsets. Each run has a place in a target as well: another tensor that the box is a part
/// of, or the box's own row-major image.
class BoxRuns {
 public:
  /// Into the box's own image. kInvalidArgument: rank or a range does not fit the shape, or a run
  /// of a sub-byte dtype would begin or end inside a byte.
  static Result<BoxRuns> Make(const DTypeInfo& dtype, std::span<const int64_t> shape,
                              std::span<const Range> box);
  /// Into a part of `target`, which the box must fit.
  static Result<BoxRuns> Make(const DTypeInfo& dtype, std::span<const int64_t> shape,
                              std::span<const Range> box, const BoxTarget& target);

  uint64_t total_bytes() const { return count_ * run_bytes_; }
  /// The tensor begins `bytes` after what offsets count from: it is a part of something longer.
  void Shift(uint64_t bytes) { base_ += bytes; }

  /// Copies what `part` (bytes of the tensor from `begin` on) holds of the box into `out`, the
  /// target.
  void Copy(std::span<const std::byte> part, uint64_t begin, std::span<std::byte> out) const;
  /// True when any byte of [begin, end) of the tensor is in the box.
  bool Overlaps(uint64_t begin, uint64_t end) const;

 private:
  /// An outer dimension: how many steps, and bytes from one to the next, here and in the target.
  struct Outer {
    uint64_t extent;
    uint64_t stride;
    uint64_t target_stride;
  };
  /// Steps through the runs without a division each.
  class Cursor;

  uint64_t Offset(uint64_t run) const;
  /// First run that ends after `begin`; count_ when there is none.
  uint64_t FirstEndingAfter(uint64_t begin) const;

  std::vector<Outer> outer_;  // slowest first; none of extent one
  uint64_t base_ = 0, target_base_ = 0;
  uint64_t count_ = 0;
  uint64_t run_bytes_ = 0;
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHUNK_BOX_H_
