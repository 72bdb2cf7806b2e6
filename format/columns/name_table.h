#ifndef DSCKPT_FORMAT_COLUMNS_NAME_TABLE_H_
#define DSCKPT_FORMAT_COLUMNS_NAME_TABLE_H_

// Numbers strings in the order of their first use, without an allocation for each.

#include <cstdint>
#include <string_view>
#include <vector>

#include "format/columns/names.h"

namespace dsckpt::format {

/// Numbers names in the order they are first seen: a hash table whose names lie in one column, so
/// that millions need no allocation each.
class NameTable {
 public:
  /// The number of `name`; a new one is appended. REQUIRES: HasRoom(name).
  uint32_t Add(std::string_view name);
  /// False when the names together would pass what a column can hold.
  bool HasRoom(std::string_view name) const;

  const NameColumns& names() const { return names_; }

 private:
  void Grow();
  /// The slot that holds `name`, or the free one where it belongs.
  size_t Slot(std::string_view name, uint64_t hash) const;

  NameColumns names_;
  std::vector<uint64_t> hashes_;  // By number.
  std::vector<uint32_t> slots_;  // Numbers + 1; 0: free. A power of two of them, at most half used.
};

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_COLUMNS_NAME_TABLE_H_
