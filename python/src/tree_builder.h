#ifndef DSCKPT_PYTHON_TREE_BUILDER_H_
#define DSCKPT_PYTHON_TREE_BUILDER_H_

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "dsckpt/file.h"

namespace dsckpt::python {

namespace nb = nanobind;

/// Makes Python objects of a state tree (File.build). GIL held throughout.
class TreeBuilder {
 public:
  TreeBuilder(const File& file, nb::sequence tensors, nb::object make_object,
              nb::object make_tagged, bool shared_only);
  nb::object Build(const Node& node);

 private:
  nb::object BuildUntagged(const Node& node);
  nb::object BuildDict(const Node& node);
  nb::object BuildSequence(const Node& node);
  /// The child, or nothing where it is the rank's own and was not asked for.
  nb::object BuildChild(const Node& child, const Key& key);
  nb::object TensorAt(uint32_t ordinal) const;
  nb::list Path() const;

  const File& file_;
  nb::object tensors_;  // A list or tuple.
  nb::object make_object_, make_tagged_;
  const bool shared_only_;
  std::vector<nb::object> path_;
  std::string name_;  // The same as an item name, where it is asked for.
};

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_TREE_BUILDER_H_
