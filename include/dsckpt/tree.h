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
/// The kind of a node of the state tree (spec/format.md, "State tree"). The numbers are stored in
/// files and never change their meaning.
enum class NodeKind : uint8_t {
  kNull = 0,
  kBool = 1,
  /// An integer that fits int64_t.
  kInt = 2,
  /// An integer of any size.
  kBigInt = 3,
  /// An IEEE double. Its bits are kept, those of NaN payloads too.
  kFloat = 4,
  /// Two doubles: the real part and the imaginary part.
  kComplex = 5,
  /// Text in UTF-8.
  kString = 6,
  /// Bytes that are no text.
  kBytes = 7,
  /// A dict whose keys are strings or integers, each once. Its order is kept.
  kDict = 8,
  kList = 9,
  kTuple = 10,
  /// The node names a tensor of the shard.
  kTensor = 11,
  /// The node names an alias of the shard: a second name of a tensor.
  kAlias = 12,
  /// The node names an object of the shard.
  kObject = 13,
};
#pragma GCC diagnostic pop

/// How a node is reached from its parent: by a string or an integer in a dict, by nothing in a
/// list, in a tuple and at the root. A Key borrows its text and does not copy it.
class Key {
 public:
  /// What a key is.
  enum class Kind : uint8_t { kNone = 0, kString = 1, kInt = 2 };
  /// The key of an element of a list or a tuple.
  Key() = default;
  /// The key of an entry of a dict. These constructors convert implicitly, by intent.
  Key(std::string_view text) : kind_(Kind::kString), text_(text) {}  // NOLINT: implicit by design
  Key(const char* text) : Key(std::string_view(text)) {}             // NOLINT
  Key(const std::string& text) : Key(std::string_view(text)) {}      // NOLINT
  Key(int64_t integer) : kind_(Kind::kInt), integer_(integer) {}     // NOLINT
  Key(int integer) : Key(int64_t{integer}) {}                        // NOLINT
  /// Returns what the key is.
  Kind kind() const { return kind_; }
  /// Returns the text of a Kind::kString; otherwise it is empty.
  std::string_view text() const { return text_; }
  /// Returns the number of a Kind::kInt; otherwise it is 0.
  int64_t integer() const { return integer_; }
  friend bool operator==(const Key&, const Key&) = default;

 private:
  Kind kind_ = Kind::kNone;
  int64_t integer_ = 0;
  std::string_view text_;
};

/// Appends to `name` the segment that stands for `key` in an item's name (spec/format.md, "Names").
/// An element of a list is given as Key(position). The caller puts '/' between segments.
void AppendNameSegment(std::string& name, const Key& key);
/// Parses one segment of an item's name and returns the key that it stands for. The text of a
/// string key is put into `storage`, and the key points to it.
/// Errors: kInvalidArgument when no key leads to such a segment.
Result<Key> ParseNameSegment(std::string_view segment, std::string& storage);

/// An integer of any size.
struct BigInt {
  /// Whether the integer is less than zero.
  bool negative = false;
  /// The absolute value as little-endian bytes without leading zeros. Zero has no bytes and is not
  /// negative.
  std::vector<uint8_t> magnitude;
  friend bool operator==(const BigInt&, const BigInt&) = default;
};

/// The value of a leaf of the tree that is no tensor or object. Two values are compared with the ==
/// of their types, so NaN is not equal to NaN.
using Value = std::variant<std::monostate, bool, int64_t, BigInt, double, std::complex<double>,
                           std::string, std::vector<std::byte>>;

struct TreeData;  // The index columns behind a tree; internal.

/// A node of the state tree, or of the attributes, of an open file. It is a small value (a pointer
/// and a position) that keeps what it refers to alive, also when the File is gone. Thread-safe: all
/// methods are const and read only private memory; no method does I/O.
class Node {
 public:
  /// Returns what the node is.
  NodeKind kind() const;
  /// Returns the key under the parent. Its text is valid as long as a Node of this file lives.
  Key key() const;
  /// Returns the finer type that the producer recorded, such as "py.set" or "torch.Size", or an
  /// empty text (spec/format.md, "Tags"). Readers may ignore it.
  std::string_view tag() const;
  /// Returns whether the node is a dict, a list or a tuple.
  bool is_container() const;
  /// Returns the number of direct children; it is 0 for a leaf.
  uint32_t size() const;
  /// Returns the value of a leaf. It is std::monostate for containers, tensors, aliases and
  /// objects.
  Value value() const;
  /// Returns the ordinal of the tensor, alias or object that the node names: its position among the
  /// items of its kind, in name order. REQUIRES: kind() is kTensor, kAlias or kObject.
  uint32_t ordinal() const;
  /// Returns the full name of the item that the node names. REQUIRES: as for ordinal().
  std::string_view item_name() const;
  /// Returns the child under `key`, or nothing. The time is linear in size().
  std::optional<Node> Find(const Key& key) const;

  class Iterator;
  /// Returns the first of the children, which stand in stored order. Each step of the iterator
  /// skips the child's subtree in constant time.
  Iterator begin() const;
  /// Returns the end of the children.
  Iterator end() const;

  // Internal: nodes come from File::tree() and File::attributes().
  Node(std::shared_ptr<const TreeData> tree, uint32_t index)
      : tree_(std::move(tree)), index_(index) {}

 private:
  uint32_t NextSibling() const;
  std::shared_ptr<const TreeData> tree_;
  uint32_t index_ = 0;
};

/// An input iterator over the children of a Node. It keeps the node's tree alive.
class Node::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Node;
  using difference_type = std::ptrdiff_t;
  using pointer = const Node*;
  using reference = const Node&;
  // Internal: iterators come from Node::begin() and Node::end().
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
