#include "tools/terminal/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "tools/terminal/format.h"

namespace dsckpt::tools {
namespace {

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
