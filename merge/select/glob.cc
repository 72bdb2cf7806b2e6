#include "merge/select/glob.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/unicode.h"

namespace dsckpt::merge {
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

/// Where the alternatives of a brace begin and end.
struct Brace {
  size_t open = 0, close = 0;
  std::vector<std::string_view> alternatives;
};

/// The first brace of the pattern that has alternatives: "{a,b}". Others stand for themselves.
std::optional<Brace> FindBrace(std::string_view pattern) {
  for (size_t open = 0; open < pattern.size(); ++open) {
    if (pattern[open] != '{') {
      open += pattern[open] == '\\';
      continue;
    }
    Brace brace{open, 0, {}};
    size_t begin = open + 1, depth = 1;
    for (size_t at = begin; at < pattern.size() && depth != 0; ++at) {
      if (pattern[at] == '\\') {
        ++at;
        continue;
      }
      depth += pattern[at] == '{';
      depth -= pattern[at] == '}';
      if (depth != 0 && (depth != 1 || pattern[at] != ',')) continue;
      brace.alternatives.push_back(pattern.substr(begin, at - begin));
      begin = at + 1;
      brace.close = at;
    }
    if (depth == 0 && brace.alternatives.size() > 1) return brace;
  }
  return std::nullopt;
}

bool MatchPlain(std::string_view pattern, std::string_view name) {
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

}  // namespace

bool GlobMatch(std::string_view pattern, std::string_view name) {
  const std::optional<Brace> brace =
      pattern.find('{') == std::string_view::npos ? std::nullopt : FindBrace(pattern);
  if (!brace) return MatchPlain(pattern, name);
  return std::any_of(brace->alternatives.begin(), brace->alternatives.end(),
                     [&](std::string_view alternative) {
                       std::string one(pattern.substr(0, brace->open));
                       one.append(alternative).append(pattern.substr(brace->close + 1));
                       return GlobMatch(one, name);
                     });
}

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                         [&](const auto& p) { return GlobMatch(p, name); });
}

}  // namespace dsckpt::merge
