#include "tools/inspect/name_tree.h"

#include <algorithm>
#include <utility>

#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

// Names come from files, and the tree is walked by recursion.
constexpr size_t kDeepest = 64;

bool IsNumber(std::string_view key) {
  return !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
}

/// 2 before 10, and numbers before words.
bool Before(const std::string& a, const std::string& b) {
  if (IsNumber(a) != IsNumber(b)) return IsNumber(a);
  if (IsNumber(a) && a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

/// Equal for nodes that show equally, whatever their keys.
std::string Signature(const NameTree::Node& node) {
  std::string text = node.text + "{";
  for (const auto& child : node.children) text += child->key + ":" + Signature(*child) + ",";
  return text + "}";
}

}  // namespace

void NameTree::Add(std::string_view name, const std::string& text, uint64_t bytes) {
  Node* node = &root_;
  char mark_before = '.';
  for (size_t level = 1;; ++level) {
    ++node->items;
    node->bytes += bytes;
    const size_t mark = level < kDeepest ? name.find_first_of("./") : std::string_view::npos;
    const size_t end = std::min(mark, name.size());
    const std::string_view key = name.substr(0, end);
    auto there = node->by_key.find(key);
    if (there == node->by_key.end()) {
      node->children.push_back(std::make_unique<Node>());
      node->children.back()->key = std::string(key);
      node->children.back()->mark = mark_before;
      there = node->by_key.emplace(key, node->children.back().get()).first;
    }
    node = there->second;
    if (end == name.size()) break;
    mark_before = name[end];
    name.remove_prefix(end + 1);
  }
  ++node->items;
  node->bytes += bytes;
  node->text = text;
}

void NameTree::OrderBelow(Node& node) {
  for (auto& child : node.children) OrderBelow(*child);
  std::sort(node.children.begin(), node.children.end(),
            [](const auto& a, const auto& b) { return Before(a->key, b->key); });
}

void NameTree::CollapseBelow(Node& node) {
  for (auto& child : node.children) CollapseBelow(*child);
  std::map<std::string, Node*> first;
  std::vector<std::unique_ptr<Node>> kept;
  for (auto& child : node.children) {
    Node* equal = nullptr;
    if (IsNumber(child->key))
      equal = first.try_emplace(Signature(*child), child.get()).first->second;
    if (equal == nullptr || equal == child.get()) {
      kept.push_back(std::move(child));
      continue;
    }
    equal->repeated = std::max<uint64_t>(equal->repeated, 1) + 1;
    equal->items += child->items;
    equal->bytes += child->bytes;
  }
  node.children = std::move(kept);
  for (auto& child : node.children) {
    if (child->repeated != 0) child->key = "#";
  }
}

void NameTree::Collapse() { CollapseBelow(root_); }

void NameTree::JoinBelow(Node& node) {
  for (auto& child : node.children) {
    while (child->children.size() == 1 && child->text.empty() &&
           (child->repeated == 0 || child->children[0]->repeated == 0)) {
      const std::unique_ptr<Node> only = std::move(child->children[0]);
      only->key = child->key + only->mark + only->key;
      only->mark = child->mark;
      only->repeated = std::max(only->repeated, child->repeated);
      only->items = child->items;
      only->bytes = child->bytes;
      child = std::make_unique<Node>(std::move(*only));
    }
    JoinBelow(*child);
  }
}

void NameTree::Join() { JoinBelow(root_); }

uint64_t NameTree::LinesBelow(const Node& node) {
  uint64_t lines = node.children.size();
  for (const auto& child : node.children) lines += LinesBelow(*child);
  return lines;
}

std::string NameTree::TextOf(const Node& node) {
  std::string text = node.text;
  if (!node.children.empty()) {
    text += (text.empty() ? "" : "; ") + Count(node.items, "item") + ", " + HumanBytes(node.bytes);
  }
  if (node.repeated != 0) text = Format("x{}, ", Grouped(node.repeated)) + text;
  return text;
}

}  // namespace dsckpt::tools
