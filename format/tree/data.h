#ifndef DSCKPT_FORMAT_TREE_DATA_H_
#define DSCKPT_FORMAT_TREE_DATA_H_

// What a Node points to.

#include <memory>

#include "dsckpt/tree.h"
#include "format/columns/columns.h"

namespace dsckpt {

/// What a Node needs. The tree has passed ParseIndex.
struct DSCKPT_HIDDEN TreeData {
  format::TreeView view;
  format::NameView tensors, aliases, objects;  // for Node::item_name()
  std::shared_ptr<const void> owner;           // keeps what the views borrow
};

}  // namespace dsckpt

#endif  // DSCKPT_FORMAT_TREE_DATA_H_
