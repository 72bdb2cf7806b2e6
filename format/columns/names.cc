#include "format/columns/names.h"

#include <algorithm>
#include <numeric>

namespace dsckpt::format {
namespace {

size_t CommonPrefix(const NameColumns& names) {
  const std::string_view first = names[0];
  size_t common = first.size();
  for (uint32_t i = 1; i < names.size() && common > 0; ++i) {
    const std::string_view name = names[i];
    common = std::min(common, name.size());
    common = static_cast<size_t>(
        std::mismatch(name.begin(), name.begin() + common, first.begin()).first - name.begin());
  }
  return common;
}

// The first eight bytes as a big-endian number: orders as the text does, where it differs.
uint64_t Leading(std::string_view text) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) {
    value = value << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
  }
  return value;
}

}  // namespace

std::vector<uint32_t> SortedByName(const NameColumns& names) {
  std::vector<uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  const auto by_name = [&names](uint32_t a, uint32_t b) { return names[a] < names[b]; };
  if (std::is_sorted(order.begin(), order.end(), by_name)) return order;
  // Most comparisons end at the numbers, without a look at the names.
  struct Entry {
    uint64_t leading, second;
    uint32_t position;
  };
  const size_t common = CommonPrefix(names);
  std::vector<Entry> entries(names.size());
  for (uint32_t i = 0; i < names.size(); ++i) {
    const std::string_view rest = names[i].substr(common);
    entries[i] = {Leading(rest), Leading(rest.substr(std::min<size_t>(8, rest.size()))), i};
  }
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.leading != b.leading) return a.leading < b.leading;
    return a.second != b.second ? a.second < b.second : by_name(a.position, b.position);
  });
  std::transform(entries.begin(), entries.end(), order.begin(),
                 [](const Entry& entry) { return entry.position; });
  return order;
}

}  // namespace dsckpt::format
