#include "tools/groups.h"

#include <algorithm>

namespace dsckpt::tools {
namespace {

constexpr std::string_view kSeparators = "./";

/// Where the part of a name that begins at `begin` ends.
size_t PartEnd(std::string_view name, size_t begin) {
  return std::min(name.find_first_of(kSeparators, begin), name.size());
}

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string UpToNumber(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = PartEnd(name, begin);
    if (IsNumber(name.substr(begin, end - begin))) return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return std::string(name);
}

}  // namespace

std::string NamePattern(std::string_view name) {
  std::string pattern;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = PartEnd(name, begin);
    const std::string_view part = name.substr(begin, end - begin);
    pattern += IsNumber(part) ? std::string_view("#") : part;
    if (end < name.size()) pattern += name[end];
    begin = end + 1;
  }
  return pattern;
}

std::string GroupOf(std::string_view by, std::string_view name, std::string_view dtype) {
  if (by == "pattern") return NamePattern(name);
  if (by == "layer") return UpToNumber(name);
  if (by == "dtype") return std::string(dtype);
  if (by == "all") return "all";
  if (by == "module") {
    const std::string pattern = NamePattern(name);
    return pattern.substr(0, pattern.find_last_of(kSeparators));
  }
  return std::string(name);
}

}  // namespace dsckpt::tools
