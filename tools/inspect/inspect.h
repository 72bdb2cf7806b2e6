#ifndef DSCKPT_TOOLS_INSPECT_INSPECT_H_
#define DSCKPT_TOOLS_INSPECT_INSPECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "merge/metadata.h"
#include "tools/inspect/name_tree.h"
#include "tools/items.h"
#include "tools/operand.h"

namespace dsckpt::tools {

class Console;
class JsonWriter;

/// Rows of a listing on a terminal.
inline constexpr uint64_t kTerminalRows = 40;

struct InspectOptions {
  std::string path;
  NameFilter names;
  std::string sort = "name";
  std::optional<uint64_t> limit;  ///< 0: no limit
  bool tree = false;
  std::optional<uint64_t> depth;  ///< of the tree; 0: no limit
  bool collapse = false, no_collapse = false;

  /// Whether `rows` names of a listing are collapsed to patterns.
  bool collapses(const Console& console, size_t rows) const;

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
/// Several files as one: shards, logical tensors, coverage; text, or the dsckpt.checkpoint/1
/// document. kExitNo when it is incomplete.
int InspectCheckpoint(Console& console, const Inputs& inputs, const InspectOptions& options);
struct ListOptions {
  std::vector<std::string> attributes;
  std::optional<uint64_t> limit;  ///< 0: no limit
  bool digest = false;            ///< One of all tensors.
  bool time = false;              ///< When the checkpoint was completed.
};
/// A run directory: its checkpoints, text or the dsckpt.run/1 document.
int ListRun(Console& console, const std::string& path, const ListOptions& options = {});
/// Tables of attributes and of metadata; the latter without what dsckpt writes itself and aliases.
void PrintAttributes(Console& console, const File& file);
void PrintMetadata(Console& console, const File& file);
void PrintMembers(Console& console, const merge::Members& members);
/// The same as the members "attributes" and "metadata" of an open object; null without a file, or
/// where the metadata cannot be read (a note says why).
void WriteAttributes(Console& console, JsonWriter& json, const File* file);
void WriteMembers(JsonWriter& json, const merge::Members& members);
void WriteObject(JsonWriter& json, const File& file, const ObjectInfo& object);
/// A member "digest".
void WriteDigest(JsonWriter& json, const std::optional<Hash128>& digest);
/// A note where patterns met nothing.
void NoteNothingTaken(Console& console, const InspectOptions& options);
/// The state tree, one line a node, or one that is made of the names; at most `limit` lines (0:
/// all).
void PrintTree(Console& console, const File& file, const InspectOptions& options, uint64_t limit);
/// The one that is made of names.
void PrintNameTree(Console& console, NameTree& names, const InspectOptions& options,
                   uint64_t limit);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_INSPECT_INSPECT_H_
