#ifndef DSCKPT_TOOLS_INSPECT_H_
#define DSCKPT_TOOLS_INSPECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/file.h"
#include "tools/items.h"

namespace dsckpt::tools {

class Console;

struct InspectOptions {
  std::string path;
  std::vector<std::string> filters;
  std::string sort = "name";
  std::optional<uint64_t> limit;  ///< 0: no limit
  bool tree = false;

  SortBy sort_by() const {
    return sort == "size" ? SortBy::kSize : sort == "offset" ? SortBy::kOffset : SortBy::kName;
  }
};

/// The dsckpt.inspect/1 document.
void InspectJson(Console& console, const File& file, const InspectOptions& options);
/// Summary, attributes, then the tables or the tree.
void InspectText(Console& console, const File& file, const InspectOptions& options);
/// The state tree, one line a node; at most `limit` lines (0: all).
void PrintTree(Console& console, const File& file, uint64_t limit);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_INSPECT_H_
