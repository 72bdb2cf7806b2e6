#ifndef DSCKPT_FORMAT_TREE_BUILD_H_
#define DSCKPT_FORMAT_TREE_BUILD_H_

#include <string_view>

#include "dsckpt/status.h"
#include "dsckpt/tree.h"
#include "format/columns/columns.h"

// Fills the columns of a state tree, one node after another.

namespace dsckpt::format {

/// Appends `bytes` to the heap and sets `range` to them. kLimitExceeded beyond 4 GiB.
Status AppendHeap(TreeColumns& tree, std::string_view bytes, uint64_t& range);
/// Sets kind and payload of `node` to `value`. kInvalidArgument: text that is not UTF-8, a big
/// integer that is not in its shortest form. One that fits int64 becomes an int.
Status SetValue(TreeColumns& tree, const Value& value, NodeRecord& node);
/// Sets the key. kInvalidArgument: not UTF-8, too long.
Status SetKey(TreeColumns& tree, const Key& key, NodeRecord& node);
/// REQUIRES: a tag.
Status SetTag(TreeColumns& tree, std::string_view tag, NodeRecord& node);

/// The key of a node; its text borrows from the heap.
Key KeyOf(const TreeColumns& tree, const NodeRecord& node);

constexpr bool IsContainer(NodeKind kind) {
  return kind == NodeKind::kDict || kind == NodeKind::kList || kind == NodeKind::kTuple;
}

/// kAlreadyExists, with the path, when a dict has a key twice.
Status CheckUniqueKeys(const TreeColumns& tree);
/// Same containers with the same keys in the same order: what CheckUniqueKeys said of one holds for
/// the other.
bool SameKeys(const TreeColumns& a, const TreeColumns& b);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_TREE_BUILD_H_
