#include "tools/inspect/patterns.h"

#include <algorithm>
#include <unordered_map>

#include "tools/groups.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {

std::string RowGroup::CountText() const { return count == 1 ? "" : "x" + Grouped(count); }

std::vector<RowGroup> GroupRows(size_t rows, bool by_size,
                                const std::function<RowDescription(size_t row)>& describe) {
  std::vector<RowGroup> groups;
  std::unordered_map<std::string, size_t> known;
  for (size_t row = 0; row < rows; ++row) {
    const RowDescription found = describe(row);
    const std::string pattern = NamePattern(found.name);
    const auto [there, added] =
        known.try_emplace(pattern + std::string(1, '\0') + found.rest, groups.size());
    if (added) {
      groups.push_back({row, 1, found.bytes, std::string(found.name)});
      continue;
    }
    RowGroup& group = groups[there->second];
    group.name = pattern;
    group.bytes += found.bytes;
    ++group.count;
  }
  if (by_size) {
    std::stable_sort(groups.begin(), groups.end(),
                     [](const RowGroup& a, const RowGroup& b) { return a.bytes > b.bytes; });
  }
  return groups;
}

}  // namespace dsckpt::tools
