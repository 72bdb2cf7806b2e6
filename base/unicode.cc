// Code points, and names as words that a terminal can show.

#include "base/unicode.h"

#include <wchar.h>

#include <array>

namespace dsckpt {
namespace {

void AppendHex(std::string& out, uint32_t value, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[value >> (4 * i) & 15];
}

std::string Escape(std::string_view text, bool double_backslash) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = FrontCodePoint(text);
    const std::string_view raw = text.substr(0, point.bytes);
    text.remove_prefix(point.bytes);
    if (point.valid && !IsUnsafe(point.value)) {
      if (double_backslash && raw == "\\") out += '\\';
      out += raw;
    } else if (point.valid && point.value >= 0x80) {
      out += "\\u";
      AppendHex(out, static_cast<uint32_t>(point.value), 4);
    } else {
      out += "\\x";
      AppendHex(out, static_cast<unsigned char>(raw[0]), 2);
    }
  }
  return out;
}

// Columns of one code point. wcwidth() answers -1 in a locale without UTF-8: then one column each
// is the best guess.
size_t PointWidth(const CodePoint& point) {
  if (point.value < 0x80) return 1;
  const int width = wcwidth(static_cast<wchar_t>(point.value));
  return width < 0 ? 1 : static_cast<size_t>(width);
}

}  // namespace

CodePoint FrontCodePoint(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {lead, 1, false};
  char32_t value = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return {lead, 1, false};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[bytes] || value > 0x10FFFF || surrogate) return {lead, 1, false};
  return {value, bytes, true};
}

bool IsUnsafe(char32_t value) {
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0xAD || value == 0x61C ||
         (value >= 0x200B && value <= 0x200F) || (value >= 0x2028 && value <= 0x202E) ||
         (value >= 0x2060 && value <= 0x206F) || value == 0xFEFF ||
         (value >= 0xFFF9 && value <= 0xFFFB);
}

std::string TerminalName(std::string_view name) { return Escape(name, true); }

std::string SafeText(std::string_view text) { return Escape(text, false); }

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const CodePoint point = FrontCodePoint(text);
    width += PointWidth(point);
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string FitWidth(std::string_view text, size_t width) {
  if (text.size() <= width || DisplayWidth(text) <= width) return std::string(text);
  constexpr std::string_view kGap = "...";
  if (width <= kGap.size()) return std::string(kGap.substr(0, width));
  size_t front_columns = (width - kGap.size()) / 2;
  size_t back_columns = width - kGap.size() - front_columns;
  size_t front = 0;
  while (front < text.size()) {
    const CodePoint point = FrontCodePoint(text.substr(front));
    const size_t columns = PointWidth(point);
    if (columns > front_columns) break;
    front_columns -= columns;
    front += point.bytes;
  }
  size_t back = text.size();
  while (back > front) {
    size_t start = back - 1;
    while (start > front && (static_cast<unsigned char>(text[start]) & 0xC0u) == 0x80) --start;
    const size_t columns = PointWidth(FrontCodePoint(text.substr(start)));
    if (columns > back_columns) break;
    back_columns -= columns;
    back = start;
  }
  return std::string(text.substr(0, front)).append(kGap).append(text.substr(back));
}

std::string QuotedName(std::string_view name) {
  constexpr size_t kShownColumns = 200;
  return "'" + FitWidth(TerminalName(name), kShownColumns) + "'";
}

}  // namespace dsckpt
