#include "format/tree/build.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "dsckpt/limits.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

template <typename T>
std::string_view AsText(const T* data, size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof(T)};
}

// Sets a node for one alternative of Value.
class ValueSetter {
 public:
  ValueSetter(TreeColumns& tree, NodeRecord& node) : tree_(tree), node_(node) {}

  Status operator()(std::monostate) { return Set(NodeKind::kNull, 0); }
  Status operator()(bool value) { return Set(NodeKind::kBool, value); }
  Status operator()(int64_t value) { return Set(NodeKind::kInt, std::bit_cast<uint64_t>(value)); }
  Status operator()(double value) { return Set(NodeKind::kFloat, std::bit_cast<uint64_t>(value)); }

  Status operator()(const std::complex<double>& value) {
    const double parts[2] = {value.real(), value.imag()};
    return SetHeap(NodeKind::kComplex, AsText(parts, 2));
  }
  Status operator()(const std::string& value) {
    if (!IsValidUtf8(value)) {
      return Status(StatusCode::kInvalidArgument,
                    "the string is not valid UTF-8: describe it as bytes");
    }
    return SetHeap(NodeKind::kString, value);
  }
  Status operator()(const std::vector<std::byte>& value) {
    return SetHeap(NodeKind::kBytes, AsText(value.data(), value.size()));
  }
  Status operator()(const BigInt& value) {
    const std::vector<uint8_t>& magnitude = value.magnitude;
    if (magnitude.empty() ? value.negative : magnitude.back() == 0) {
      return Status(StatusCode::kInvalidArgument,
                    "the big integer has leading zero bytes, or is a negative zero");
    }
    if (magnitude.size() <= 8) {
      uint64_t bits = 0;
      for (size_t i = magnitude.size(); i-- > 0;) bits = bits << 8 | magnitude[i];
      const uint64_t limit = (uint64_t{1} << 63) - (value.negative ? 0 : 1);
      if (bits <= limit) return Set(NodeKind::kInt, value.negative ? 0 - bits : bits);
    }
    if (magnitude.size() > kMaxBigIntBytes) {
      return Status(StatusCode::kLimitExceeded,
                    "the big integer has " + std::to_string(magnitude.size()) +
                        " bytes; the limit is " + std::to_string(kMaxBigIntBytes) +
                        ": describe it as bytes");
    }
    std::string bytes(1, value.negative ? '\1' : '\0');
    bytes.append(AsText(magnitude.data(), magnitude.size()));
    return SetHeap(NodeKind::kBigInt, bytes);
  }

 private:
  Status Set(NodeKind kind, uint64_t payload) {
    node_.kind = kind;
    node_.payload = payload;
    return {};
  }
  Status SetHeap(NodeKind kind, std::string_view bytes) {
    node_.kind = kind;
    return AppendHeap(tree_, bytes, node_.payload);
  }

  TreeColumns& tree_;
  NodeRecord& node_;
};

// The parent of every node. Linear.
std::vector<uint32_t> Parents(const TreeColumns& tree) {
  struct Open {
    uint32_t node;
    uint64_t end;
  };
  std::vector<uint32_t> parents(tree.nodes.size());
  std::vector<Open> open;
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
    while (!open.empty() && open.back().end <= i) open.pop_back();
    parents[i] = open.empty() ? 0 : open.back().node;
    const NodeRecord& node = tree.nodes[i];
    if (IsContainer(node.kind)) open.push_back({i, i + 1 + node.payload});
  }
  return parents;
}

// "a/b" of a node whose ancestors are dicts. A list position appears as "-".
std::string PathOf(const TreeColumns& tree, const std::vector<uint32_t>& parents, uint32_t node) {
  std::vector<uint32_t> chain;
  for (; node != 0; node = parents[node]) chain.push_back(node);
  std::string path;
  for (size_t i = chain.size(); i-- > 0;) {
    const Key key = KeyOf(tree, tree.nodes[chain[i]]);
    if (key.kind() == Key::Kind::kNone) path += '-';
    AppendSegment(path, key);
    if (i > 0) path += '/';
  }
  return path;
}

uint64_t Mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15;
  return value ^ value >> 32;
}

uint64_t HashKey(uint32_t parent, const Key& key) {
  const uint64_t content = key.kind() == Key::Kind::kInt
                               ? Mix(static_cast<uint64_t>(key.integer()) + 1)
                               : std::hash<std::string_view>()(key.text());
  return Mix(content ^ Mix(parent + uint64_t{1}));
}

}  // namespace

Status AppendHeap(TreeColumns& tree, std::string_view bytes, uint64_t& range) {
  constexpr uint64_t kLimit = std::numeric_limits<uint32_t>::max();
  if (bytes.size() > kLimit - tree.heap.size()) {
    return Status(StatusCode::kLimitExceeded,
                  "keys and values of the tree exceed 4 GiB: describe large data as objects");
  }
  range = HeapRange(static_cast<uint32_t>(tree.heap.size()), static_cast<uint32_t>(bytes.size()));
  tree.heap.append(bytes);
  return {};
}

Status SetValue(TreeColumns& tree, const Value& value, NodeRecord& node) {
  return std::visit(ValueSetter(tree, node), value);
}

Status SetKey(TreeColumns& tree, const Key& key, NodeRecord& node) {
  node.key_kind = key.kind();
  if (key.kind() == Key::Kind::kInt) node.key = std::bit_cast<uint64_t>(key.integer());
  if (key.kind() != Key::Kind::kString) return {};
  if (key.text().size() > kMaxNameBytes) {
    return Status(StatusCode::kLimitExceeded,
                  "the key is longer than " + std::to_string(kMaxNameBytes) + " bytes");
  }
  if (!IsValidUtf8(key.text())) {
    return Status(StatusCode::kInvalidArgument, "the key is not valid UTF-8");
  }
  return AppendHeap(tree, key.text(), node.key);
}

Status SetTag(TreeColumns& tree, std::string_view tag, NodeRecord& node) {
  if (tag.empty()) return {};
  const auto found = std::find(tree.tags.begin(), tree.tags.end(), tag);
  const auto position = static_cast<size_t>(found - tree.tags.begin());
  if (found == tree.tags.end()) {
    if (position == std::numeric_limits<uint16_t>::max()) {
      return Status(StatusCode::kLimitExceeded, "more than 65,535 distinct tags");
    }
    if (!IsValidUtf8(tag)) {
      return Status(StatusCode::kInvalidArgument, "the tag is not valid UTF-8");
    }
    tree.tags.emplace_back(tag);
  }
  node.tag = static_cast<uint16_t>(position + 1);
  return {};
}

Key KeyOf(const TreeColumns& tree, const NodeRecord& node) {
  switch (node.key_kind) {
    case Key::Kind::kString:
      return Key(HeapText(tree.heap, node.key));
    case Key::Kind::kInt:
      return Key(std::bit_cast<int64_t>(node.key));
    case Key::Kind::kNone:
      break;
  }
  return {};
}

Status CheckUniqueKeys(const TreeColumns& tree) {
  const std::vector<uint32_t> parents = Parents(tree);
  // Open addressing, at most half full; 0 (the root, which has no key) marks a free slot.
  std::vector<uint32_t> slots(std::bit_ceil(2 * tree.nodes.size() + 1));
  const uint64_t mask = slots.size() - 1;
  for (uint32_t i = 1; i < tree.nodes.size(); ++i) {
    const Key key = KeyOf(tree, tree.nodes[i]);
    if (key.kind() == Key::Kind::kNone) continue;
    uint64_t slot = HashKey(parents[i], key) & mask;
    for (; slots[slot] != 0; slot = (slot + 1) & mask) {
      const uint32_t other = slots[slot];
      if (parents[other] == parents[i] && KeyOf(tree, tree.nodes[other]) == key) {
        return Status(StatusCode::kAlreadyExists,
                      "'" + Printable(PathOf(tree, parents, i)) +
                          "' is described twice: keys of a dict are unique");
      }
    }
    slots[slot] = i;
  }
  return {};
}

bool SameKeys(const TreeColumns& a, const TreeColumns& b) {
  if (a.nodes.size() != b.nodes.size()) return false;
  const bool same_heap = a.heap == b.heap;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const NodeRecord& x = a.nodes[i];
    const NodeRecord& y = b.nodes[i];
    if (x.key_kind != y.key_kind || x.children != y.children ||
        IsContainer(x.kind) != IsContainer(y.kind)) {
      return false;
    }
    if (same_heap && x.key == y.key) continue;
    if (KeyOf(a, x) != KeyOf(b, y)) return false;
  }
  return true;
}

}  // namespace dsckpt::format
