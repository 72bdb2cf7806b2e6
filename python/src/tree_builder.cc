#include "python/src/tree_builder.h"

#include "python/src/gil.h"
#include "python/src/values.h"

namespace dsckpt::python {

TreeBuilder::TreeBuilder(const File& file, nb::sequence tensors, nb::object make_object,
                         nb::object make_tagged, bool shared_only)
    : file_(file),
      tensors_(nb::steal(PySequence_Fast(tensors.ptr(), "tensors is no sequence"))),
      make_object_(std::move(make_object)),
      make_tagged_(std::move(make_tagged)),
      shared_only_(shared_only) {
  if (!tensors_.is_valid()) throw nb::python_error();
}

nb::object TreeBuilder::Build(const Node& node) {
  if (node.kind() == NodeKind::kObject) {
    return CallPython(make_object_, node.ordinal(), ToStr(node.tag()), Path());
  }
  nb::object value = BuildUntagged(node);
  const std::string_view tag = node.tag();
  return tag.empty() ? value : CallPython(make_tagged_, ToStr(tag), value, Path());
}

nb::object TreeBuilder::BuildUntagged(const Node& node) {
  switch (node.kind()) {
    case NodeKind::kDict:
      return BuildDict(node);
    case NodeKind::kList:
    case NodeKind::kTuple:
      return BuildSequence(node);
    case NodeKind::kTensor:
      return TensorAt(node.ordinal());
    case NodeKind::kAlias:
      return TensorAt(file_.alias(node.ordinal()).target);
    default:
      return FromValue(node.value());
  }
}

nb::object TreeBuilder::BuildDict(const Node& node) {
  nb::dict out;
  // Who takes fields by name takes all of them.
  const bool keeps_all = node.tag().starts_with("py.namedtuple");
  for (const Node& child : node) {
    nb::object key = FromKey(child.key());
    path_.push_back(key);
    const nb::object value = BuildChild(child, child.key());
    if (value.is_valid()) out[key] = value;
    if (!value.is_valid() && keeps_all) out[key] = nb::none();
    path_.pop_back();
  }
  return out;
}

nb::object TreeBuilder::BuildSequence(const Node& node) {
  nb::list out;
  for (const Node& child : node) {
    path_.push_back(nb::int_(nb::len(out)));
    const nb::object value = BuildChild(child, Key(static_cast<int64_t>(nb::len(out))));
    out.append(value.is_valid() ? value : nb::none());  // The others keep their positions.
    path_.pop_back();
  }
  if (node.kind() == NodeKind::kList) return out;
  return nb::tuple(out);
}

nb::object TreeBuilder::BuildChild(const Node& child, const Key& key) {
  if (!shared_only_) return Build(child);
  const size_t above = name_.size();
  if (path_.size() > 1) name_ += '/';
  AppendNameSegment(name_, key);
  nb::object value = file_.IsRankOwn(name_) ? nb::object() : Build(child);
  name_.resize(above);
  return value;
}

nb::object TreeBuilder::TensorAt(uint32_t ordinal) const {
  if (ordinal >= static_cast<size_t>(PySequence_Fast_GET_SIZE(tensors_.ptr()))) {
    throw nb::index_error("fewer tensors were given than the file has");
  }
  return nb::borrow(PySequence_Fast_GET_ITEM(tensors_.ptr(), ordinal));
}

nb::list TreeBuilder::Path() const {
  nb::list path;
  for (const nb::object& step : path_) path.append(step);
  return path;
}

}  // namespace dsckpt::python
