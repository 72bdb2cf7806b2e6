#ifndef DSCKPT_READER_CHECKPOINT_OVERLAY_H_
#define DSCKPT_READER_CHECKPOINT_OVERLAY_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dsckpt/dtype.h"
#include "reader/checkpoint/boxes.h"

// Elements that several parts hold: compared, then kept once. Time is linear in what is compared.

namespace dsckpt::reader {

std::vector<int64_t> Extents(const Box& box);
/// `box` as seen from the origin of `frame`.
Box Relative(const Box& box, const Box& frame);
std::vector<int64_t> Begins(const Box& box);

/// What an image of `frame` holds of `box`, which lies inside: an image of its own.
std::vector<std::byte> Cutout(const DTypeInfo& dtype, const Box& frame,
                              std::span<const std::byte> image, const Box& box);
/// The other way: `bytes` into an image of `frame`.
void Paste(const DTypeInfo& dtype, const Box& frame, std::span<std::byte> image, const Box& box,
           std::span<const std::byte> bytes);

/// The first block of `box` in which two images of it differ; nothing when they are equal.
std::optional<Box> FirstDifference(const DTypeInfo& dtype, const Box& box,
                                   std::span<const std::byte> a, std::span<const std::byte> b);

/// An image that is put together from parts which may overlap, and which of its blocks are there.
class Overlay {
 public:
  /// `out` must outlive it.
  Overlay(const DTypeInfo& dtype, Box frame, std::span<std::byte> out);
  /// Compares `bytes`, an image of `box`, with the blocks that are there, and puts in the others.
  /// Returns the first block that differs; then nothing was put in.
  std::optional<Box> Lay(const Box& box, std::span<const std::byte> bytes);

 private:
  DTypeInfo dtype_;
  Box frame_, block_frame_;  // In elements, and in blocks of the dtype.
  std::span<std::byte> out_;
  std::vector<std::byte> there_;  // A byte a block: 1 when it is there.
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_OVERLAY_H_
