#ifndef DSCKPT_TREE_H_
#define DSCKPT_TREE_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

// GCC takes a scoped enumerator for a shadow of the constant dsckpt::kBool.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
/// Kinds of state-tree nodes (spec/format.md, "State tree"). Stored in files; never renumbered.
enum class NodeKind : uint8_t {
  kNull = 0,
  kBool = 1,
  kInt = 2,      ///< fits int64
  kBigInt = 3,   ///< any size
  kFloat = 4,    ///< IEEE double, bits kept (NaN payloads too)
  kComplex = 5,  ///< two doubles
  kString = 6,   ///< UTF-8
  kBytes = 7,
  kDict = 8,  ///< ordered; keys are strings or ints, unique
  kList = 9,
  kTuple = 10,
  kTensor = 11,  ///< names a tensor of the shard
  kAlias = 12,   ///< names an alias of the shard
  kObject = 13,  ///< names an object of the shard
};
#pragma GCC diagnostic pop

/// How a node is reached from its parent: a string or int key in a dict, nothing in a list, a tuple
/// or at the root. Borrows the text.
class Key {
 public:
  enum class Kind : uint8_t { kNone = 0, kString = 1, kInt = 2 };
  Key() = default;
  Key(std::string_view text) : kind_(Kind::kString), text_(text) {}  // NOLINT: implicit by design
  Key(const char* text) : Key(std::string_view(text)) {}             // NOLINT
  Key(const std::string& text) : Key(std::string_view(text)) {}      // NOLINT
  Key(int64_t integer) : kind_(Kind::kInt), integer_(integer) {}     // NOLINT
  Key(int integer) : Key(int64_t{integer}) {}                        // NOLINT
  Kind kind() const { return kind_; }
  std::string_view text() const { return text_; }
  int64_t integer() const { return integer_; }
  friend bool operator==(const Key&, const Key&) = default;

 private:
  Kind kind_ = Kind::kNone;
  int64_t integer_ = 0;
  std::string_view text_;
};

/// Appends what stands for `key` in a name (spec/format.md, "Names"): of a list, Key(position).
/// Segments are joined by '/'.
void AppendNameSegment(std::string& name, const Key& key);
/// The key that one segment of a name stands for; `storage` holds the text of a string, which the
/// key points to. kInvalidArgument: no key leads to such a segment.
Result<Key> ParseNameSegment(std::string_view segment, std::string& storage);

/// An integer of any size: sign and little-endian magnitude without leading zero bytes (zero:
/// empty, not negative).
struct BigInt {
  bool negative = false;
  std::vector<uint8_t> magnitude;
  friend bool operator==(const BigInt&, const BigInt&) = default;
};

/// A leaf of the tree that is no tensor or object. Comparing two values compares floats by ==, so
/// NaN != NaN.
using Value = std::variant<std::monostate, bool, int64_t, BigInt, double, std::complex<double>,
                           std::string, std::vector<std::byte>>;

struct TreeData;  // The index columns behind a tree; internal.

/// A node of the state tree or of the attributes of an open file. A small value (pointer and
/// position); valid while any File, Tensor or Node of that file lives. Thread-safe: all methods are
/// const and touch only private memory.
class Node {
 public:
  NodeKind kind() const;
  /// Key under the parent. Its text borrows from the file.
  Key key() const;
  /// A finer type that the producer recorded ("py.set", "torch.Size"), or empty. Readers may ignore
  /// it.
  std::string_view tag() const;
  bool is_container() const;
  /// Direct children; 0 for leaves.
  uint32_t size() const;
  /// The leaf's value. For containers, tensors, aliases and objects: std::monostate.
  Value value() const;
  /// Ordinal of the tensor, alias or object named here. REQUIRES: kind() is one of those three.
  uint32_t ordinal() const;
  /// The item's full name. REQUIRES: as above.
  std::string_view item_name() const;
  /// The child under `key`, by a scan of the children.
  std::optional<Node> Find(const Key& key) const;

  class Iterator;
  /// Children in stored order. Each step skips the child's subtree in constant time.
  Iterator begin() const;
  Iterator end() const;

  Node(std::shared_ptr<const TreeData> tree, uint32_t index)
      : tree_(std::move(tree)), index_(index) {}

 private:
  uint32_t NextSibling() const;
  std::shared_ptr<const TreeData> tree_;
  uint32_t index_ = 0;
};

class Node::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Node;
  using difference_type = std::ptrdiff_t;
  using pointer = const Node*;
  using reference = const Node&;
  explicit Iterator(Node node) : node_(std::move(node)) {}
  const Node& operator*() const { return node_; }
  const Node* operator->() const { return &node_; }
  Iterator& operator++() {
    node_.index_ = node_.NextSibling();
    return *this;
  }
  bool operator==(const Iterator& other) const { return node_.index_ == other.node_.index_; }

 private:
  Node node_;
};

}  // namespace dsckpt

#endif  // DSCKPT_TREE_H_
