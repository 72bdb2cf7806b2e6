#include "format/names.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "dsckpt/limits.h"
#include "format/header/header.h"

namespace dsckpt::format {
namespace {

constexpr size_t kShownNameBytes = 120;  // Of a name too long to repeat in a message.

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  // 0: no valid UTF-8 here.
};

// One code point from the front of `text`, by Unicode 15 table 3-7: no overlong forms, surrogates
// or values above U+10FFFF. REQUIRES: !text.empty().
CodePoint Decode(std::string_view text) {
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t value = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (at(i) & 0x3Fu);
  }
  const uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, bytes};
}

// Controls move the cursor or run terminal commands; bidirectional controls reorder what is read.
bool IsHarmful(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x200E || c == 0x200F || c == 0x061C ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

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

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    // Most names are ASCII, and opening a file checks every name: eight bytes at a time.
    uint64_t word;
    if (text.size() >= sizeof word) {
      std::memcpy(&word, text.data(), sizeof word);
      if ((word & 0x8080808080808080) == 0) {
        text.remove_prefix(sizeof word);
        continue;
      }
    }
    const CodePoint c = Decode(text);
    if (c.bytes == 0) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

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

std::string Printable(std::string_view name) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const CodePoint c = Decode(name);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    for (const char byte : name.substr(0, bytes)) {
      if (c.bytes == 0 || IsHarmful(c.value)) {
        out += "\\x";
        out += kDigits[static_cast<uint8_t>(byte) >> 4];
        out += kDigits[byte & 0xF];
        continue;
      }
      if (byte == '\\' || byte == '"' || byte == '\'') out += '\\';
      out += byte;
    }
    name.remove_prefix(bytes);
  }
  return out;
}

}  // namespace dsckpt::format

namespace dsckpt {

void AppendNameSegment(std::string& name, const Key& key) { format::AppendSegment(name, key); }
Result<Key> ParseNameSegment(std::string_view segment, std::string& storage) {
  return format::ParseSegment(segment, storage);
}

}  // namespace dsckpt
