#include "reader/checkpoint/overlay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reader/chunk/box.h"

namespace dsckpt::reader {
namespace {

/// In blocks of the dtype: only the last dimension has several elements to one.
Box InBlocks(Box box, uint32_t block_elements) {
  if (box.empty()) return box;
  box.back().begin /= block_elements;
  box.back().end /= block_elements;
  return box;
}

/// Block `at` of a box, counted in row-major order.
Box BlockAt(const Box& box, uint32_t block_elements, size_t at) {
  const Box blocks = InBlocks(box, block_elements);
  Box one = blocks;
  for (size_t dim = one.size(); dim-- > 0;) {
    const auto extent = static_cast<size_t>(blocks[dim].end - blocks[dim].begin);
    const int64_t begin = blocks[dim].begin + static_cast<int64_t>(at % extent);
    one[dim] = {begin, begin + 1};
    at /= extent;
  }
  if (!one.empty()) {
    one.back() = {one.back().begin * block_elements, one.back().end * block_elements};
  }
  return one;
}

}  // namespace

std::vector<int64_t> Extents(const Box& box) {
  std::vector<int64_t> extents;
  for (const Range& range : box) extents.push_back(range.end - range.begin);
  return extents;
}

Box Relative(const Box& box, const Box& frame) {
  Box local = box;
  for (size_t i = 0; i < box.size(); ++i) {
    local[i] = {box[i].begin - frame[i].begin, box[i].end - frame[i].begin};
  }
  return local;
}

std::vector<int64_t> Begins(const Box& box) {
  std::vector<int64_t> begins;
  for (const Range& range : box) begins.push_back(range.begin);
  return begins;
}

std::vector<std::byte> Cutout(const DTypeInfo& dtype, const Box& frame,
                              std::span<const std::byte> image, const Box& box) {
  // Boxes of a frame end between blocks (part_map.h), so that they are runs of whole bytes.
  const BoxRuns runs = BoxRuns::Make(dtype, Extents(frame), Relative(box, frame)).value();
  std::vector<std::byte> out(runs.total_bytes());
  runs.Copy(image, 0, out);
  return out;
}

void Paste(const DTypeInfo& dtype, const Box& frame, std::span<std::byte> image, const Box& box,
           std::span<const std::byte> bytes) {
  const std::vector<int64_t> shape = Extents(frame), extents = Extents(box);
  const std::vector<int64_t> begin = Begins(Relative(box, frame));
  BoxRuns::Make(dtype, extents, WholeBox(extents), {shape, begin}).value().Copy(bytes, 0, image);
}

std::optional<Box> FirstDifference(const DTypeInfo& dtype, const Box& box,
                                   std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at == a.end()) return std::nullopt;
  return BlockAt(box, dtype.block_elements,
                 static_cast<size_t>(at - a.begin()) / dtype.block_bytes);
}

Overlay::Overlay(const DTypeInfo& dtype, Box frame, std::span<std::byte> out)
    : dtype_(dtype),
      frame_(std::move(frame)),
      block_frame_(InBlocks(frame_, dtype.block_elements)),
      out_(out),
      there_(Volume(block_frame_)) {}

std::optional<Box> Overlay::Lay(const Box& box, std::span<const std::byte> bytes) {
  const DTypeInfo mark = *FindDType(kU8);
  const Box blocks = InBlocks(box, dtype_.block_elements);
  std::vector<std::byte> there = Cutout(mark, block_frame_, there_, blocks);
  if (std::find(there.begin(), there.end(), std::byte{1}) != there.end()) {
    const std::vector<std::byte> image = Cutout(dtype_, frame_, out_, box);
    for (size_t i = 0; i < there.size(); ++i) {
      if (there[i] == std::byte{0}) continue;
      const size_t at = i * dtype_.block_bytes;
      if (std::memcmp(image.data() + at, bytes.data() + at, dtype_.block_bytes) != 0) {
        return BlockAt(box, dtype_.block_elements, i);
      }
    }
  }
  Paste(dtype_, frame_, out_, box, bytes);
  std::fill(there.begin(), there.end(), std::byte{1});
  Paste(mark, block_frame_, there_, blocks, there);
  return std::nullopt;
}

}  // namespace dsckpt::reader
