#include "format/names.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "dsckpt/limits.h"
#include "format/header/header.h"

namespace dsckpt::format {
namespace {

constexpr size_t kShownNameBytes = 120;  // Of a name too long to repeat in a message.

// The int64 of which `text` is the decimal form as AppendSegment writes it. "007", "-0" and what is
// too large are strings, so that each segment has one meaning.
std::optional<int64_t> CanonicalInt(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  const bool negative = text[0] == '-';
  const char first_digit = text[negative ? 1 : 0];
  if (first_digit == '0' && (negative || text.size() > 1)) return std::nullopt;
  return value;
}

Status BadSegment(std::string_view segment, const char* why) {
  return Status(StatusCode::kInvalidArgument,
                "path segment '" + Printable(segment.substr(0, kShownNameBytes)) + "': " + why);
}

}  // namespace

Status CheckItemName(std::string_view name) {
  const auto bad = [name](const std::string& why) {
    return Status(StatusCode::kInvalidArgument,
                  "item name '" + Printable(name.substr(0, kShownNameBytes)) + "' " + why);
  };
  if (name.size() > kMaxNameBytes) {
    return bad("... has " + std::to_string(name.size()) + " bytes; the limit is " +
               std::to_string(kMaxNameBytes));
  }
  if (name.find('\0') != std::string_view::npos) {
    return bad("contains a NUL byte: rename the item");
  }
  if (name == kTailName || name == kMetadataName) {
    return bad("is reserved by the file format: rename the item");
  }
  if (!IsValidUtf8(name)) return bad("is not valid UTF-8: rename the item");
  return {};
}

bool HoldsControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

bool IsVendorName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxVendorNameBytes && IsValidUtf8(name) &&
         !HoldsControl(name);
}

void AppendSegment(std::string& out, const Key& key) {
  switch (key.kind()) {
    case Key::Kind::kNone:
      return;
    case Key::Kind::kInt:
      out += std::to_string(key.integer());
      return;
    case Key::Kind::kString:
      break;
  }
  if (CanonicalInt(key.text())) out += "~s";
  for (const char c : key.text()) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
}

Result<Key> ParseSegment(std::string_view segment, std::string& storage) {
  if (const auto integer = CanonicalInt(segment)) return Key(*integer);
  storage.clear();
  if (segment.starts_with("~s")) {
    storage = segment.substr(2);
    if (!CanonicalInt(storage)) return BadSegment(segment, "'~s' stands only before an integer");
    return Key(storage);
  }
  for (size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] == '/') return BadSegment(segment, "'/' is written '~1'");
    if (segment[i] != '~') {
      storage += segment[i];
      continue;
    }
    const char escaped = ++i < segment.size() ? segment[i] : '\0';
    if (escaped != '0' && escaped != '1') {
      return BadSegment(segment, "'~' is followed by neither '0' nor '1'");
    }
    storage += escaped == '0' ? '~' : '/';
  }
  return Key(storage);
}

}  // namespace dsckpt::format

namespace dsckpt {

void AppendNameSegment(std::string& name, const Key& key) { format::AppendSegment(name, key); }
Result<Key> ParseNameSegment(std::string_view segment, std::string& storage) {
  return format::ParseSegment(segment, storage);
}

}  // namespace dsckpt
