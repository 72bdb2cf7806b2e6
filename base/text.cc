#include "base/text.h"

#include <cstring>

#include "base/unicode.h"

namespace dsckpt {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

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
    const CodePoint c = FrontCodePoint(text);
    if (!c.valid) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string Printable(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const CodePoint c = FrontCodePoint(name);
    for (const char byte : name.substr(0, c.bytes)) {
      if (!c.valid || IsUnsafe(c.value)) {
        out += "\\x";
        AppendHex(out, static_cast<uint8_t>(byte));
        continue;
      }
      if (byte == '\\' || byte == '"' || byte == '\'') out += '\\';
      out += byte;
    }
    name.remove_prefix(c.bytes);
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
