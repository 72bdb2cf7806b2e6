#ifndef DSCKPT_FORMAT_LAYOUT_H_
#define DSCKPT_FORMAT_LAYOUT_H_

#include <array>
#include <bit>
#include <cstdint>

#include "base/align.h"
#include "dsckpt/limits.h"

// The one rule for where raw tensors lie (spec/format.md, "Layout"): writers place by it, readers
// predict by it, so that holes and overlaps cannot be expressed.

namespace dsckpt::format {

/// Alignment classes: the exponent of the largest power of two, at most a page, that divides a byte
/// size.
inline constexpr unsigned kAlignmentClasses = std::countr_zero(kPageBytes) + 1;
constexpr unsigned AlignmentClass(uint64_t raw_bytes) {
  return static_cast<unsigned>(std::countr_zero(raw_bytes | kPageBytes));
}

/// Places raw tensors, which are ordered by falling alignment class and then by name, without
/// sorting: Count() all of them, Place(), then Next() once a tensor in name order.
class RawLayout {
 public:
  /// False when the total exceeds what a file can hold.
  bool Count(bool listed, uint64_t raw_bytes) {
    // Both are below 2^63, so the sum cannot wrap.
    if (raw_bytes > kMaxFileBytes || (total_ += raw_bytes) > kMaxFileBytes) return false;
    next_[listed][AlignmentClass(raw_bytes)] += raw_bytes;
    any_unlisted_ |= !listed;
    return true;
  }

  /// REQUIRES: data_begin <= kMaxFileBytes.
  void Place(uint64_t data_begin) {
    tail_begin_ = PlaceRegion(next_[true], data_begin);
    unlisted_begin_ = RoundUp(tail_begin_, kPageBytes);
    raw_end_ = any_unlisted_ ? PlaceRegion(next_[false], unlisted_begin_) : tail_begin_;
  }

  /// File offset of the next tensor of this kind.
  uint64_t Next(bool listed, uint64_t raw_bytes) {
    uint64_t& next = next_[listed][AlignmentClass(raw_bytes)];
    const uint64_t offset = next;
    next += raw_bytes;
    return offset;
  }

  uint64_t tail_begin() const { return tail_begin_; }
  uint64_t unlisted_begin() const { return unlisted_begin_; }
  uint64_t raw_end() const { return raw_end_; }
  uint64_t log_begin() const { return RoundUp(raw_end_, kPageBytes); }

 private:
  // Bytes of each class before Place(), the class's next offset after it.
  using Classes = std::array<uint64_t, kAlignmentClasses>;

  static uint64_t PlaceRegion(Classes& classes, uint64_t begin) {
    for (unsigned c = kAlignmentClasses; c-- > 0;) {
      const uint64_t bytes = classes[c];
      classes[c] = begin;
      begin += bytes;
    }
    return begin;
  }

  std::array<Classes, 2> next_{};
  bool any_unlisted_ = false;
  uint64_t total_ = 0;
  uint64_t tail_begin_ = 0, unlisted_begin_ = 0, raw_end_ = 0;
};

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_LAYOUT_H_
