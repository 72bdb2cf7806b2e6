#ifndef DSCKPT_TOOLS_INSPECT_NAME_TREE_H_
#define DSCKPT_TOOLS_INSPECT_NAME_TREE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dsckpt::tools {

/// Names as a tree: of files without a state tree. A name is split at '.' and '/'.
class NameTree {
 public:
  /// `text`: what the item is.
  void Add(std::string_view name, const std::string& text, uint64_t bytes);
  /// Children by key, numbers as numbers. After the last Add().
  void Order() { OrderBelow(root_); }
  /// Children whose keys are numbers and that are equal in everything become one, "#".
  void Collapse();
  /// What has a single child and is no item becomes one with it. Last.
  void Join();
  /// How many lines it takes.
  uint64_t Lines() const { return LinesBelow(root_); }

  struct Node {
    std::string key;
    char mark = '.';        ///< '.' or '/': what stands before the key.
    std::string text;       ///< Of an item; empty: of none.
    uint64_t items = 0;     ///< here and below
    uint64_t bytes = 0;     ///< of these
    uint64_t repeated = 0;  ///< how many equal ones it stands for; 0: for itself
    std::vector<std::unique_ptr<Node>> children;
    std::map<std::string, Node*, std::less<>> by_key;
  };
  const Node& root() const { return root_; }

  /// What a line says behind the key.
  static std::string TextOf(const Node& node);

 private:
  static uint64_t LinesBelow(const Node& node);
  static void OrderBelow(Node& node);
  static void CollapseBelow(Node& node);
  static void JoinBelow(Node& node);
  Node root_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_INSPECT_NAME_TREE_H_
