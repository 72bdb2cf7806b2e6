#include "tools/terminal/short_names.h"

#include <algorithm>
#include <set>

#include "base/unicode.h"

namespace dsckpt::tools {
namespace {

constexpr const char* kCut = "...";
// A listing of a million names takes no more memory than this many.
constexpr size_t kRemembered = 10'000;

/// A pattern of numbers (#) tells as much as they do.
bool HasDigit(std::string_view text) {
  return text.find_first_of("0123456789#") != std::string_view::npos;
}

/// The last columns of a name.
std::string Tail(std::string_view name, size_t width) {
  if (width <= 3) return FitWidth(name, width);
  while (DisplayWidth(name) > width - 3) name.remove_prefix(FrontCodePoint(name).bytes);
  return kCut + std::string(name);
}

}  // namespace

std::vector<std::string_view> ShortNames::Parts(std::string_view name) {
  std::vector<std::string_view> parts;
  while (!name.empty()) {
    const size_t mark = name.find_first_of("./");
    const size_t bytes = mark == std::string_view::npos ? name.size() : mark + 1;
    parts.push_back(name.substr(0, bytes));
    name.remove_prefix(bytes);
  }
  return parts;
}

void ShortNames::Add(std::string_view name) {
  ++names_;
  const auto parts = Parts(name);
  for (const std::string_view part : std::set(parts.begin(), parts.end())) {
    if (HasDigit(part)) continue;
    const auto there = counts_.find(std::string(part));
    if (there != counts_.end()) {
      ++there->second;
    } else if (counts_.size() < kRemembered) {
      counts_.emplace(part, 1);
    }
  }
}

std::string ShortNames::WithoutCommonParts(std::string_view name, size_t width,
                                           bool from_left) const {
  const auto parts = Parts(name);
  std::vector<std::pair<uint32_t, size_t>> order;  // how many names have it, position
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto count = counts_.find(std::string(parts[i]));
    const uint32_t names = count == counts_.end() ? 0 : count->second;
    // The last one says what it is, unless all end so.
    const bool tells = i + 1 == parts.size() && names != names_;
    if (!HasDigit(parts[i]) && !tells) order.emplace_back(names, i);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    return from_left ? a.second < b.second : a.second > b.second;
  });
  std::vector<bool> out(parts.size());
  const auto text = [&] {
    std::string whole;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!out[i]) whole += parts[i];
      if (out[i] && (i == 0 || !out[i - 1])) whole += kCut;
    }
    return whole;
  };
  std::string best = text();
  for (const auto& [count, position] : order) {
    if (DisplayWidth(best) <= width) break;
    out[position] = true;
    std::string shorter = text();
    // A part that leaves much room behind is better cut than left out.
    if (DisplayWidth(shorter) * 3 < width * 2) break;
    best = std::move(shorter);
  }
  return FitWidth(best, width);
}

bool ShortNames::Taken(const std::string& text, std::string_view name) {
  const auto there = names_by_text_.find(text);
  if (there != names_by_text_.end()) return there->second != name;
  if (names_by_text_.size() < kRemembered) names_by_text_.emplace(text, name);
  return false;
}

std::string ShortNames::Fit(std::string_view name, size_t width) {
  if (DisplayWidth(name) <= width) return std::string(name);
  std::string first;
  for (const bool from_left : {true, false}) {
    std::string text = WithoutCommonParts(name, width, from_left);
    if (!Taken(text, name)) return text;
    if (first.empty()) first = std::move(text);
  }
  for (std::string text : {Tail(name, width), FitWidth(name, width)}) {
    if (!Taken(text, name)) return text;
  }
  return first;
}

}  // namespace dsckpt::tools
