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
class JsonWriter;

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
/// The parts of logical tensors that the selected tensors hold; nothing where there are none. At
/// most `limit` rows (0: all).
void PrintPieces(Console& console, const File& file, const InspectOptions& options, uint64_t limit);
void WritePieceJson(JsonWriter& json, const OwnedPiece& piece);
/// A checkpoint directory: shards, logical tensors, coverage; text, or the dsckpt.checkpoint/1
/// document. kExitNo when it is incomplete.
int InspectCheckpoint(Console& console, const InspectOptions& options);
/// A run directory: its checkpoints, text or the dsckpt.run/1 document.
int ListRun(Console& console, const std::string& path);
/// Says how many rows of a table were left out, if any.
void PrintMore(Console& console, uint64_t more);
/// The state tree, one line a node; at most `limit` lines (0: all).
void PrintTree(Console& console, const File& file, uint64_t limit);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_INSPECT_H_
