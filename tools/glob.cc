#include "tools/glob.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "tools/text.h"

namespace dsckpt::tools {
namespace {

char32_t Take(std::string_view& text) {
  const CodePoint point = FrontCodePoint(text);
  text.remove_prefix(point.bytes);
  return point.value;
}

// Matches `value` against the set whose '[' has been taken from `pattern`, and takes the set.
// Nothing when the set never ends: then '[' stands for itself.
std::optional<bool> MatchSet(std::string_view& pattern, char32_t value) {
  std::string_view rest = pattern;
  const bool negated = rest.starts_with('!') || rest.starts_with('^');
  if (negated) rest.remove_prefix(1);
  bool found = false;
  for (bool first = true; !rest.empty(); first = false) {
    if (rest.front() == ']' && !first) {
      rest.remove_prefix(1);
      pattern = rest;
      return found != negated;
    }
    const char32_t low = Take(rest);
    char32_t high = low;
    if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
      rest.remove_prefix(1);
      high = Take(rest);
    }
    found = found || (low <= value && value <= high);
  }
  return std::nullopt;
}

// Matches one element of the pattern (no star) with one character; takes both on success.
bool MatchOne(std::string_view& pattern, std::string_view& name) {
  if (pattern.empty() || name.empty()) return false;
  std::string_view pattern_rest = pattern, name_rest = name;
  const char32_t value = Take(name_rest);
  char32_t wanted = Take(pattern_rest);
  bool matches = wanted == '?';
  if (wanted == '[') {
    matches = MatchSet(pattern_rest, value).value_or(value == '[');
  } else if (!matches) {
    if (wanted == '\\' && !pattern_rest.empty()) wanted = Take(pattern_rest);
    matches = wanted == value;
  }
  if (!matches) return false;
  pattern = pattern_rest;
  name = name_rest;
  return true;
}

}  // namespace

bool GlobMatch(std::string_view pattern, std::string_view name) {
  // Only the last star needs to be tried again: an earlier one could not match more.
  std::optional<std::string_view> after_star;
  std::string_view star_name;
  while (!name.empty() || !pattern.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      after_star = pattern;
      star_name = name;
    } else if (!MatchOne(pattern, name)) {
      if (!after_star || star_name.empty()) return false;
      Take(star_name);
      pattern = *after_star;
      name = star_name;
    }
  }
  return true;
}

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                         [&](const auto& p) { return GlobMatch(p, name); });
}

}  // namespace dsckpt::tools
