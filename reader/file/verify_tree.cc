// Checks what is too costly at every open: that items stand where their names say.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "format/names.h"
#include "reader/file/verify_parts.h"

namespace dsckpt::reader {

namespace {

bool IsContainer(NodeKind kind) {
  return kind == NodeKind::kDict || kind == NodeKind::kList || kind == NodeKind::kTuple;
}

/// Walks a pre-order tree whose counts and ranges the parser has checked. Iterative: depth comes
/// from the file.
class TreeWalk {
 public:
  TreeWalk(Verification& run, const format::IndexView& index, const format::TreeView& tree)
      : run_(run), index_(index), tree_(tree) {}

  void Run() {
    const auto count = static_cast<uint32_t>(tree_.nodes.size());
    for (uint32_t node = 0; node < count; ++node) {
      while (!open_.empty() && open_.back().end == node) {
        path_.resize(open_.back().prefix);
        open_.pop_back();
      }
      const size_t prefix = path_.size();
      if (node > 0) AppendKey(node);
      if (IsContainer(tree_.nodes[node].kind)) {
        Enter(node, prefix);
      } else {
        CheckItem(node);
        path_.resize(prefix);
      }
    }
  }

 private:
  struct Open {
    uint32_t end;  // first node after the container
    size_t prefix;
    bool dict;
    uint32_t position = 0;
  };

  Key KeyOf(uint32_t node) const {
    const format::NodeRecord& record = tree_.nodes[node];
    if (record.key_kind == Key::Kind::kString) {
      return Key(format::HeapText(tree_.heap, record.key));
    }
    return Key(static_cast<int64_t>(record.key));
  }

  void AppendKey(uint32_t node) {
    Open& parent = open_.back();
    format::AppendSegment(path_, parent.dict ? KeyOf(node) : Key(int64_t{parent.position++}));
  }

  void Enter(uint32_t node, size_t prefix) {
    const format::NodeRecord& record = tree_.nodes[node];
    const auto end = static_cast<uint32_t>(node + 1 + record.payload);
    const bool dict = record.kind == NodeKind::kDict;
    if (dict) CheckUnique(node, end);
    if (node > 0) path_ += '/';
    open_.push_back({end, prefix, dict});
  }

  void CheckUnique(uint32_t node, uint32_t end) {
    std::vector<std::pair<std::string_view, int64_t>> keys[2];  // by kind: string, int
    for (uint32_t child = node + 1; child < end;) {
      const Key key = KeyOf(child);
      keys[key.kind() == Key::Kind::kInt].emplace_back(key.text(), key.integer());
      const format::NodeRecord& record = tree_.nodes[child];
      child += 1 + (IsContainer(record.kind) ? static_cast<uint32_t>(record.payload) : 0);
    }
    for (auto& list : keys) {
      std::sort(list.begin(), list.end());
      const auto twice = std::adjacent_find(list.begin(), list.end());
      if (twice == list.end()) continue;
      run_.problems.Add(
          "index", "structure", run_.footer.index_offset, "unique keys in dict '" + path_ + "'",
          "key '" +
              (twice->first.empty() ? std::to_string(twice->second) : std::string(twice->first)) +
              "' twice");
    }
  }

  void CheckItem(uint32_t node) {
    const format::NodeRecord& record = tree_.nodes[node];
    const auto ordinal = static_cast<uint32_t>(record.payload);
    std::string_view name;
    switch (record.kind) {
      case NodeKind::kTensor:
        name = index_.tensor_names[ordinal];
        break;
      case NodeKind::kAlias:
        name = index_.alias_names[ordinal];
        break;
      case NodeKind::kObject:
        name = index_.object_names[ordinal];
        break;
      default:
        return;
    }
    if (name == path_) return;
    run_.problems.Add(name, "structure", run_.footer.index_offset,
                      "the tree has it at '" + std::string(name) + "'", "at '" + path_ + "'");
  }

  Verification& run_;
  const format::IndexView& index_;
  const format::TreeView& tree_;
  std::vector<Open> open_;
  std::string path_;
};

}  // namespace

void VerifyTree(Verification& run, const format::IndexView& index) {
  for (const format::TreeView* tree : {&index.tree, &index.attributes}) {
    if (!tree->nodes.empty()) TreeWalk(run, index, *tree).Run();
  }
}

}  // namespace dsckpt::reader
