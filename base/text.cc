#include "base/text.h"

#include <cstring>

namespace dsckpt {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

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

std::string Printable(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const CodePoint c = Decode(name);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    for (const char byte : name.substr(0, bytes)) {
      if (c.bytes == 0 || IsHarmful(c.value)) {
        out += "\\x";
        AppendHex(out, static_cast<uint8_t>(byte));
        continue;
      }
      if (byte == '\\' || byte == '"' || byte == '\'') out += '\\';
      out += byte;
    }
    name.remove_prefix(bytes);
  }
  return out;
}

void AppendHex(std::string& out, uint8_t byte) {
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 15];
}

std::string Hex64(uint64_t value) {
  std::string text;
  for (int shift = 56; shift >= 0; shift -= 8)
    AppendHex(text, static_cast<uint8_t>(value >> shift));
  return text;
}

void ShortList::Add(std::string_view entry) {
  if (count_++ >= shown_) return;
  if (count_ > 1) text_ += ", ";
  text_ += entry;
}

void ShortList::AddName(std::string_view name, std::string_view why) {
  if (count_ >= shown_) {
    ++count_;  // A list may be of millions: what is not shown is not put together.
    return;
  }
  std::string entry = "'" + Printable(name) + "'";
  if (!why.empty()) entry.append(" (").append(why).append(")");
  Add(entry);
}

std::string ShortList::Text() const {
  return count_ <= shown_ ? text_ : text_ + " and " + std::to_string(count_ - shown_) + " more";
}

void ShortList::Say(std::string_view what, std::string& message) const {
  if (empty()) return;
  if (!message.empty()) message += "; ";
  message.append(what).append(Text());
}

}  // namespace dsckpt
