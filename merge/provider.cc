#include "merge/provider.h"

#include <set>
#include <string>
#include <utility>

#include "merge/cast.h"

namespace dsckpt::merge {

MergeProvider::MergeProvider(MergeInput& input, size_t file)
    : input_(input),
      checkpoint_(input.checkpoint),
      plan_(input.plan),
      tree_(input.tree),
      file_(file),
      rest_(file == 0 && input.options.container == Container::kDsckpt) {}

/// Names as they are: for renamed tensors, of which the tree knows nothing.
void MergeProvider::DescribeFlat(Description& description) const {
  description.Flat();
  for (uint32_t i = 0; i < checkpoint_.tensor_count(); ++i) {
    if (plan_.chosen(file_)[i]) DescribeTensor(description, Key(plan_.name(i)), i, {});
  }
}

void MergeProvider::Describe(Description& description) const {
  if (plan_.choice().renamed) {
    DescribeFlat(description);
    if (rest_) DescribeAttributes(description);
    return;
  }
  tree_.Describe(
      description, plan_.chosen(file_), rest_ && !plan_.choice().tensors_only,
      [this](Description& d, const Key& key, uint32_t tensor, std::string_view tag) {
        DescribeTensor(d, key, tensor, tag);
      },
      [this](Description& d, const Key& key, const MergedTree::ObjectRef& object,
             std::string_view tag) { DescribeObject(d, key, object, tag); });
  for (const auto& [name, tensor] : plan_.ties(file_))
    DescribeTensor(description, Key(name), tensor, {});
  if (rest_) DescribeAttributes(description);
}

void MergeProvider::DescribeTensor(Description& description, const Key& key, uint32_t tensor,
                                   std::string_view tag) const {
  const LogicalTensorInfo info = checkpoint_.tensor(tensor);
  const uint32_t owner = plan_.owner(tensor);
  TensorSource source;
  // Ties share the token.
  source.data = plan_.token(owner);
  source.dtype = plan_.dtype(info);
  source.shape = info.shape;
  source.capture = Capture::kUntilFence;
  const auto read = [this, owner](uint64_t offset, std::span<std::byte> out) -> Status {
    DSCKPT_RETURN_IF_ERROR(input_.cancellation.Noted());
    return checkpoint_.ReadBytes(owner, offset, out, input_.options.verify);
  };
  source.read = read;
  if (source.dtype != info.dtype.code && tag.find(':') != std::string_view::npos) {
    tag = {};  // Its parameter is of the old dtype.
  }
  if (input_.make) {
    source.read = [this, owner, dtype = source.dtype](uint64_t offset,
                                                      std::span<std::byte> out) -> Status {
      DSCKPT_RETURN_IF_ERROR(input_.cancellation.Noted());
      return input_.make(owner, dtype, offset, out);
    };
  } else if (source.dtype != info.dtype.code) {
    source.read = [this, read, from = info.dtype.code, to = source.dtype](
                      uint64_t offset, std::span<std::byte> out) -> Status {
      DSCKPT_ASSIGN_OR_RETURN(const uint64_t overflows, ReadCast(from, to, offset, out, read));
      input_.overflows += overflows;
      return {};
    };
  }
  if (input_.options.container == Container::kDsckpt) {
    // As the first piece is stored.
    const auto pieces = checkpoint_.Pieces(owner);
    if (!pieces.empty()) {
      const auto shard = checkpoint_.OpenShard(pieces[0].shard);
      if (!shard.ok()) return description.Fail(shard.status());
      if (pieces[0].tensor < shard->tensor_count()) {
        source.encoding = shard->tensor(pieces[0].tensor).encoding;
      }
    }
  }
  description.Tensor(key, source, tag);
}

void MergeProvider::DescribeObject(Description& description, const Key& key,
                                   const MergedTree::ObjectRef& object,
                                   std::string_view tag) const {
  const auto shard = checkpoint_.OpenShard(object.shard);
  if (!shard.ok()) return description.Fail(shard.status());
  const auto info = shard->FindObject(object.name);
  if (!info.ok()) return description.Fail(info.status());
  ObjectSource source;
  source.media_type = info->media_type;
  source.encoding = info->encoding;
  // Opened again then: a descriptor for each rank's object would be too many.
  source.write = [this, from = object.shard, name = object.name](Sink& sink) -> Status {
    DSCKPT_RETURN_IF_ERROR(input_.cancellation.Noted());
    DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(from));
    return file.ReadObject(name, sink);
  };
  description.Object(key, source, tag);
}

/// Of the first rank that has each.
void MergeProvider::DescribeAttributes(Description& description) const {
  std::set<std::string> seen;
  for (const AttributeChange& change : input_.options.attributes) {
    if (!seen.insert(change.name).second || !change.value) continue;
    description.Attribute(change.name, *change.value);
  }
  if (plan_.choice().step && seen.insert("step").second) {
    description.Attribute("step", Value(*plan_.choice().step));
  }
  for (uint32_t i = 0; i < checkpoint_.shard_count(); ++i) {
    const auto shard = checkpoint_.OpenShard(i);
    if (!shard.ok()) return description.Fail(shard.status());
    const auto attributes = shard->attributes();
    if (!attributes) continue;
    for (const Node& attribute : *attributes) {
      const std::string name(attribute.key().text());
      // With something beside it the state is no single value any more.
      if (name == "py.root" && tree_.has_ranks() &&
          attribute.value() == Value(std::string("value")))
        continue;
      if (seen.insert(name).second) description.Attribute(name, attribute.value());
    }
  }
}

}  // namespace dsckpt::merge
