#include "tools/slice.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "dsckpt/dtype.h"
#include "tools/terminal/format.h"

namespace dsckpt::tools {
namespace {

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(Trim(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int64_t> Whole(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Status Wrong(const std::string& brackets, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, Format("the part {}: {}", brackets, why));
}

/// One end of a range; nothing where it is no number.
std::optional<int64_t> End(std::string_view text, int64_t otherwise, int64_t size) {
  if (text.empty()) return otherwise;
  const auto number = Whole(text);
  if (!number) return std::nullopt;
  return std::clamp<int64_t>(*number < 0 ? *number + size : *number, 0, size);
}

}  // namespace

std::optional<std::string> SliceIn(const std::string& text) {
  const size_t open = text.rfind('[');
  if (open == std::string::npos || open == 0 || !text.ends_with(']')) return std::nullopt;
  return text.substr(open);
}

Result<Slice> ParseSlice(const std::string& brackets, std::span<const int64_t> shape) {
  Slice slice;
  const std::string_view inner = Trim(std::string_view(brackets).substr(1, brackets.size() - 2));
  const std::vector<std::string_view> parts =
      inner.empty() ? std::vector<std::string_view>() : Split(inner, ',');
  if (parts.size() > shape.size()) {
    return Wrong(brackets, Format("the tensor has {} dimensions, of shape {}", shape.size(),
                                  ShapeText(shape)));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = shape[i];
    const auto ends = Split(i < parts.size() ? parts[i] : ":", ':');
    if (ends.size() == 1) {
      const auto index = Whole(ends[0]);
      if (!index) return Wrong(brackets, Format("'{}' is no index and no range", ends[0]));
      const int64_t at = *index < 0 ? *index + size : *index;
      if (at < 0 || at >= size) {
        return Wrong(brackets, Format("dimension {} has no index {}: the shape is {}", i, *index,
                                      ShapeText(shape)));
      }
      slice.box.push_back({at, at + 1});
      continue;
    }
    if (ends.size() > 3 || (ends.size() == 3 && !ends[2].empty() && ends[2] != "1")) {
      return Wrong(brackets, "a range is begin:end, and its step is 1");
    }
    const auto begin = End(ends[0], 0, size), end = End(ends[1], size, size);
    if (!begin || !end) return Wrong(brackets, "a range is begin:end, of whole numbers");
    slice.box.push_back({*begin, std::max(*begin, *end)});
    slice.shape.push_back(slice.box.back().end - *begin);
  }
  return slice;
}

}  // namespace dsckpt::tools
