// Rules for trees from files.

#include "format/index/check.h"

#include <limits>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "format/tree/build.h"

namespace dsckpt::format {
namespace {

bool IsItem(NodeKind kind) { return kind >= NodeKind::kTensor; }

// Walks a pre-order tree without recursion: its depth comes from a file.
class TreeCheck {
 public:
  TreeCheck(const TreeView& tree, std::string_view what, const IndexView* items)
      : tree_(tree), what_(what), items_(items) {}

  Status Run() {
    const uint64_t count = tree_.nodes.size();
    if (count > kMaxItems) return Bad(0, "nodes", "at most 2^32 - 2", std::to_string(count));
    const NodeRecord& root = tree_.nodes[0];
    if (!IsContainer(root.kind)) return Bad(0, "kind", "a container", Kind(root));
    if (root.key_kind != Key::Kind::kNone || root.key != 0) {
      return Bad(0, "key", "none at the root", "one");
    }
    if (root.payload != count - 1) {
      return Bad(0, "nodes below", std::to_string(count - 1), std::to_string(root.payload));
    }
    open_.reserve(kMaxTreeDepth);
    for (uint64_t i = 0; i < count; ++i) {
      const NodeRecord& node = tree_.nodes[i];
      DSCKPT_RETURN_IF_ERROR(CheckNode(i, node));
      if (IsContainer(node.kind)) DSCKPT_RETURN_IF_ERROR(Enter(i, node));
      DSCKPT_RETURN_IF_ERROR(Leave(i + 1));
    }
    return {};
  }

 private:
  struct Open {
    uint64_t node;
    uint64_t end;  // first node that is not below it
    uint64_t children;
  };

  static std::string Kind(const NodeRecord& node) {
    return std::to_string(static_cast<unsigned>(node.kind));
  }

  Status Bad(uint64_t node, std::string_view field, std::string_view expected,
             std::string_view found) const {
    return IndexError(std::string(what_) + " node " + std::to_string(node), field, expected, found);
  }

  Status TooMuch(uint64_t node, std::string_view field, uint64_t limit, uint64_t found) const {
    return Status(
        StatusCode::kLimitExceeded,
        Bad(node, field, "at most " + std::to_string(limit) + " bytes", std::to_string(found))
            .message());
  }

  Status Enter(uint64_t i, const NodeRecord& node) {
    const uint64_t room = open_.empty() ? node.payload : open_.back().end - i - 1;
    if (node.payload > room) {
      return Bad(i, "nodes below", "at most " + std::to_string(room), std::to_string(node.payload));
    }
    if (open_.size() == kMaxTreeDepth) {
      return Bad(i, "depth", "at most " + std::to_string(kMaxTreeDepth), "more");
    }
    open_.push_back({i, i + 1 + node.payload, 0});
    return {};
  }

  // Closes the containers that end before node `next`.
  Status Leave(uint64_t next) {
    while (!open_.empty() && open_.back().end == next) {
      const Open closed = open_.back();
      const uint32_t declared = tree_.nodes[closed.node].children;
      if (closed.children != declared) {
        return Bad(closed.node, "children", std::to_string(closed.children),
                   std::to_string(declared));
      }
      open_.pop_back();
    }
    return {};
  }

  Status CheckNode(uint64_t i, const NodeRecord& node) {
    if (node.kind > NodeKind::kObject) return Bad(i, "kind", "0 to 13", Kind(node));
    if (node.tag > tree_.tags.size()) {
      return Bad(i, "tag", "at most " + std::to_string(tree_.tags.size()),
                 std::to_string(node.tag));
    }
    if (!open_.empty()) {
      ++open_.back().children;
      DSCKPT_RETURN_IF_ERROR(CheckKey(i, node));
    }
    if (IsContainer(node.kind)) return {};
    if (node.children != 0) return Bad(i, "children", "0 of a leaf", std::to_string(node.children));
    return CheckPayload(i, node);
  }

  Status CheckKey(uint64_t i, const NodeRecord& node) {
    const bool in_dict = tree_.nodes[open_.back().node].kind == NodeKind::kDict;
    switch (node.key_kind) {
      case Key::Kind::kNone:
        if (in_dict) return Bad(i, "key", "a string or an int in a dict", "none");
        return node.key == 0 ? Status() : Bad(i, "key", "0 without a key", "another value");
      case Key::Kind::kString:
        if (!in_dict) return Bad(i, "key", "none in a list or tuple", "a string");
        return CheckRange(i, "key", node.key);
      case Key::Kind::kInt:
        return in_dict ? Status() : Bad(i, "key", "none in a list or tuple", "an int");
    }
    return Bad(i, "key_kind", "0 to 2", std::to_string(static_cast<unsigned>(node.key_kind)));
  }

  Status CheckRange(uint64_t i, std::string_view field, uint64_t range) {
    const uint64_t length = range >> 32;
    const uint64_t end = (range & std::numeric_limits<uint32_t>::max()) + length;
    if (end <= tree_.heap.size()) {
      in_ranges_ += length;
      const uint64_t limit = MaxBytesInHeapRanges(tree_.heap.size());
      return in_ranges_ <= limit ? Status() : TooMuch(i, "heap ranges", limit, in_ranges_);
    }
    return Bad(i, field, "a range of the heap's " + std::to_string(tree_.heap.size()) + " bytes",
               "one that ends at " + std::to_string(end));
  }

  Status CheckOrdinal(uint64_t i, const NodeRecord& node, uint64_t count) const {
    if (node.payload < count) return {};
    return Bad(i, "ordinal", "below " + std::to_string(count), std::to_string(node.payload));
  }

  Status CheckPayload(uint64_t i, const NodeRecord& node) {
    const uint64_t length = node.payload >> 32;
    switch (node.kind) {
      case NodeKind::kNull:
      case NodeKind::kBool: {
        const uint64_t limit = node.kind == NodeKind::kBool;
        if (node.payload <= limit) return {};
        return Bad(i, "payload", "at most " + std::to_string(limit), std::to_string(node.payload));
      }
      case NodeKind::kString:
      case NodeKind::kBytes:
        return CheckRange(i, "payload", node.payload);
      case NodeKind::kComplex:
        if (length != 16) return Bad(i, "length", "16", std::to_string(length));
        return CheckRange(i, "payload", node.payload);
      case NodeKind::kBigInt:
        DSCKPT_RETURN_IF_ERROR(CheckRange(i, "payload", node.payload));
        return CheckBigInt(i, HeapText(tree_.heap, node.payload));
      case NodeKind::kTensor:
        return CheckOrdinal(i, node, items_ ? items_->tensor_names.size() : 0);
      case NodeKind::kAlias:
        return CheckOrdinal(i, node, items_ ? items_->alias_names.size() : 0);
      case NodeKind::kObject:
        return CheckOrdinal(i, node, items_ ? items_->object_names.size() : 0);
      default:
        return {};
    }
  }

  // Sign, then magnitude. One value has one form: those of int64 are not big.
  Status CheckBigInt(uint64_t i, std::string_view bytes) const {
    if (bytes.size() > 1 + kMaxBigIntBytes) {
      return TooMuch(i, "big integer", kMaxBigIntBytes, bytes.size() - 1);
    }
    const bool canonical = bytes.size() > 8 && static_cast<uint8_t>(bytes[0]) <= 1 &&
                           bytes.back() != 0 && (bytes.size() > 9 || !FitsInt64(bytes));
    if (canonical) return {};
    return Bad(i, "big integer", "a sign byte and the shortest magnitude beyond int64",
               std::to_string(bytes.size()) + " other bytes");
  }

  // Of an 8-byte magnitude.
  static bool FitsInt64(std::string_view bytes) {
    uint64_t magnitude = 0;
    for (int i = 8; i > 0; --i) magnitude = magnitude << 8 | static_cast<uint8_t>(bytes[i]);
    const uint64_t limit = uint64_t{1} << 63;
    return magnitude < limit || (magnitude == limit && bytes[0] == 1);
  }

  const TreeView& tree_;
  std::string_view what_;
  const IndexView* items_;
  std::vector<Open> open_;
  uint64_t in_ranges_ = 0;  // Bytes of all heap ranges so far.
};

}  // namespace

Status CheckTree(const TreeView& tree, const IndexView& index) {
  return TreeCheck(tree, "tree", &index).Run();
}

Status CheckAttributes(const TreeView& attributes) {
  DSCKPT_RETURN_IF_ERROR(TreeCheck(attributes, "attributes", nullptr).Run());
  if (attributes.nodes[0].kind != NodeKind::kDict) {
    return IndexError("attributes node 0", "kind", "a dict", "another container");
  }
  for (size_t i = 1; i < attributes.nodes.size(); ++i) {
    const NodeRecord& node = attributes.nodes[i];
    if (IsContainer(node.kind) || IsItem(node.kind) || node.key_kind != Key::Kind::kString) {
      return IndexError("attributes node " + std::to_string(i), "kind", "a leaf under a string key",
                        "another node");
    }
  }
  return {};
}

}  // namespace dsckpt::format
