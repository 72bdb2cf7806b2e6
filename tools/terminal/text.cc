#include "tools/terminal/text.h"

#include <wchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "tools/terminal/format.h"

namespace dsckpt::tools {
namespace {

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
      FormatTo(out, "\\u{:04x}", static_cast<uint32_t>(point.value));
    } else {
      FormatTo(out, "\\x{:02x}", static_cast<unsigned char>(raw[0]));
    }
  }
  return out;
}

// A byte, or a code point of the basic plane in UTF-8.
void AppendBytes(std::string& out, uint32_t value, bool byte) {
  const auto add = [&](uint32_t bits) { out += static_cast<char>(bits); };
  if (byte || value < 0x80) return add(value);
  if (value < 0x800) {
    add(0xC0 | value >> 6);
  } else {
    add(0xE0 | value >> 12);
    add(0x80 | (value >> 6 & 0x3F));
  }
  add(0x80 | (value & 0x3F));
}

// Columns of one code point. wcwidth() answers -1 in a locale without UTF-8: then one column each
// is the best guess.
size_t PointWidth(const CodePoint& point) {
  if (point.value < 0x80) return 1;
  const int width = wcwidth(static_cast<wchar_t>(point.value));
  return width < 0 ? 1 : static_cast<size_t>(width);
}

}  // namespace

std::string Base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? std::to_integer<uint32_t>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = FrontCodePoint(text);
    if (!point.valid) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

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

std::string Printable(std::string_view name) { return Escape(name, true); }
std::string FromPrintable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digits = text[i] != '\\' || i + 1 == text.size() ? 0
                          : text[i + 1] == 'x'                    ? 2
                          : text[i + 1] == 'u'                    ? 4
                                                                  : 0;
    if (digits == 0) {
      i += text[i] == '\\' && i + 1 < text.size() ? 1 : 0;
      out += text[i];
      continue;
    }
    uint32_t value = 0;
    std::from_chars(text.data() + i + 2, text.data() + std::min(i + 2 + digits, text.size()), value,
                    16);
    AppendBytes(out, value, digits == 2);
    i += 1 + digits;
  }
  return out;
}

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
  return Format("{}{}{}", text.substr(0, front), kGap, text.substr(back));
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return Format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 999.5 would round to a fourth digit.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return Format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string Grouped(uint64_t number) {
  std::string digits = Format("{}", number);
  for (size_t end = digits.size(); end > 3;) {
    end -= 3;
    digits.insert(end, 1, ',');
  }
  return digits;
}

std::string Count(uint64_t number, std::string_view noun) {
  const bool ending = noun.ends_with("s");
  return Format("{} {}{}", Grouped(number), noun, number == 1 ? "" : ending ? "es" : "s");
}

std::string Rate(uint64_t bytes, double seconds) {
  if (seconds < 1e-9) seconds = 1e-9;
  const uint64_t rate = static_cast<uint64_t>(static_cast<double>(bytes) / seconds);
  return Format("{:.{}f} s, {}/s", seconds, seconds < 10 ? 2 : 0, HumanBytes(rate));
}

}  // namespace dsckpt::tools
