// The methods of the public Node, which reads the columns of a tree.

#include <bit>
#include <cstring>

#include "dsckpt/tree.h"
#include "format/tree/build.h"
#include "format/tree/data.h"

namespace dsckpt {
namespace {

using format::NodeRecord;

BigInt ReadBigInt(std::string_view bytes) {
  return {bytes[0] == 1, {bytes.begin() + 1, bytes.end()}};
}

std::complex<double> ReadComplex(std::string_view bytes) {
  double parts[2];
  std::memcpy(parts, bytes.data(), sizeof parts);
  return {parts[0], parts[1]};
}

std::vector<std::byte> ReadBytes(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

const NodeRecord& Record(const TreeData& tree, uint32_t index) { return tree.view.nodes[index]; }

}  // namespace

NodeKind Node::kind() const { return Record(*tree_, index_).kind; }

Key Node::key() const {
  const NodeRecord& record = Record(*tree_, index_);
  switch (record.key_kind) {
    case Key::Kind::kNone:
      return {};
    case Key::Kind::kString:
      return Key(format::HeapText(tree_->view.heap, record.key));
    case Key::Kind::kInt:
      return Key(std::bit_cast<int64_t>(record.key));
  }
  return {};
}

std::string_view Node::tag() const {
  const uint16_t tag = Record(*tree_, index_).tag;
  return tag == 0 ? std::string_view() : tree_->view.tags[tag - 1];
}

bool Node::is_container() const { return format::IsContainer(kind()); }

uint32_t Node::size() const { return Record(*tree_, index_).children; }

Value Node::value() const {
  const NodeRecord& record = Record(*tree_, index_);
  switch (record.kind) {
    case NodeKind::kBool:
      return record.payload != 0;
    case NodeKind::kInt:
      return std::bit_cast<int64_t>(record.payload);
    case NodeKind::kBigInt:
      return ReadBigInt(format::HeapText(tree_->view.heap, record.payload));
    case NodeKind::kFloat:
      return std::bit_cast<double>(record.payload);
    case NodeKind::kComplex:
      return ReadComplex(format::HeapText(tree_->view.heap, record.payload));
    case NodeKind::kString:
      return std::string(format::HeapText(tree_->view.heap, record.payload));
    case NodeKind::kBytes:
      return ReadBytes(format::HeapText(tree_->view.heap, record.payload));
    default:
      return std::monostate();
  }
}

uint32_t Node::ordinal() const { return static_cast<uint32_t>(Record(*tree_, index_).payload); }

std::string_view Node::item_name() const {
  switch (kind()) {
    case NodeKind::kTensor:
      return tree_->tensors[ordinal()];
    case NodeKind::kAlias:
      return tree_->aliases[ordinal()];
    case NodeKind::kObject:
      return tree_->objects[ordinal()];
    default:
      return {};
  }
}

std::optional<Node> Node::Find(const Key& key) const {
  for (const Node& child : *this) {
    if (child.key() == key) return child;
  }
  return std::nullopt;
}

Node::Iterator Node::begin() const { return Iterator(Node(tree_, index_ + 1)); }

Node::Iterator Node::end() const { return Iterator(Node(tree_, NextSibling())); }

uint32_t Node::NextSibling() const {
  const uint64_t below = is_container() ? Record(*tree_, index_).payload : 0;
  return static_cast<uint32_t>(index_ + 1 + below);
}

}  // namespace dsckpt
