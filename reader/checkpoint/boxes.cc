#include "reader/checkpoint/boxes.h"

#include <algorithm>

namespace dsckpt::reader {

std::optional<Box> Intersect(const Box& a, const Box& b) {
  Box common(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    common[i] = {std::max(a[i].begin, b[i].begin), std::min(a[i].end, b[i].end)};
    if (common[i].begin >= common[i].end) return std::nullopt;
  }
  return common;
}

bool Intersects(const Box& a, const Box& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].begin >= b[i].end || b[i].begin >= a[i].end) return false;
  }
  return true;
}

uint64_t Volume(std::span<const Range> box) {
  uint64_t volume = 1;
  for (const Range& range : box) volume *= static_cast<uint64_t>(range.end - range.begin);
  return volume;
}

Box WholeBox(std::span<const int64_t> shape) {
  Box box;
  for (const int64_t size : shape) box.push_back({0, size});
  return box;
}

std::string BoxText(std::span<const Range> box) {
  std::string text = "[";
  for (const Range& range : box) {
    if (text.size() > 1) text += ", ";
    text.append(std::to_string(range.begin)).append(":").append(std::to_string(range.end));
  }
  return text += "]";
}

}  // namespace dsckpt::reader
