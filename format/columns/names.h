#ifndef DSCKPT_FORMAT_COLUMNS_NAMES_H_
#define DSCKPT_FORMAT_COLUMNS_NAMES_H_

// Many names in one column of bytes, found by binary search where they are sorted.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dsckpt::format {

/// Many names, one after another; name i is bytes[ends[i-1], ends[i]).
struct NameColumns {
  std::string bytes;
  std::vector<uint32_t> ends;

  uint32_t size() const { return static_cast<uint32_t>(ends.size()); }
  std::string_view operator[](uint32_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
  void Append(std::string_view name) {
    bytes.append(name);
    ends.push_back(static_cast<uint32_t>(bytes.size()));
  }
};

struct NameView {
  std::span<const char> bytes;
  std::span<const uint32_t> ends;

  uint32_t size() const { return static_cast<uint32_t>(ends.size()); }
  std::string_view operator[](uint32_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return {bytes.data() + begin, ends[i] - begin};
  }
  /// Does name `i` lie in `bytes`? What comes from a file and was not checked need not.
  bool Holds(uint32_t i) const {
    const uint32_t begin = i == 0 || i >= size() ? 0 : ends[i - 1];
    return i < size() && begin <= ends[i] && ends[i] <= bytes.size();
  }
  /// Binary search by bytes. REQUIRES: names ascend.
  std::optional<uint32_t> Find(std::string_view name) const;
};

/// Positions in `names`, in byte order of the names.
std::vector<uint32_t> SortedByName(const NameColumns& names);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_COLUMNS_NAMES_H_
