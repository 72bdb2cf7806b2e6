#include "merge/number_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dsckpt::merge {
namespace {

// Decimal conversion takes quadratic time; beyond this, hexadecimal.
constexpr size_t kDecimalBytes = 1024;
constexpr size_t kGroupDigits = 9;

std::string HexMagnitude(const std::vector<uint8_t>& magnitude) {
  std::string text = "0x";
  for (auto byte = magnitude.rbegin(); byte != magnitude.rend(); ++byte) {
    text += "0123456789abcdef"[*byte >> 4];
    text += "0123456789abcdef"[*byte & 15];
  }
  return text;
}

std::string DecimalMagnitude(std::vector<uint8_t> magnitude) {
  constexpr uint64_t kBase = 1'000'000'000;
  std::vector<uint64_t> groups;  // of nine digits, lowest first
  while (!magnitude.empty()) {
    uint64_t remainder = 0;
    for (auto byte = magnitude.rbegin(); byte != magnitude.rend(); ++byte) {
      remainder = remainder << 8 | *byte;
      *byte = static_cast<uint8_t>(remainder / kBase);
      remainder %= kBase;
    }
    while (!magnitude.empty() && magnitude.back() == 0) magnitude.pop_back();
    groups.push_back(remainder);
  }
  if (groups.empty()) return "0";
  std::string text = std::to_string(groups.back());
  for (auto group = groups.rbegin() + 1; group != groups.rend(); ++group) {
    const std::string digits = std::to_string(*group);
    text.append(kGroupDigits - digits.size(), '0').append(digits);
  }
  return text;
}

}  // namespace

std::string DoubleText(double number) {
  if (!std::isfinite(number)) return std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf";
  // Powers of ten between these are written out, as Python and C++'s format libraries do.
  const double magnitude = std::abs(number);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string BigIntText(const BigInt& number) {
  const std::string magnitude = number.magnitude.size() > kDecimalBytes
                                    ? HexMagnitude(number.magnitude)
                                    : DecimalMagnitude(number.magnitude);
  return (number.negative ? "-" : "") + magnitude;
}

}  // namespace dsckpt::merge
