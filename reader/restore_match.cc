#include "reader/restore_match.h"

#include <algorithm>

namespace dsckpt::reader {

std::span<const int64_t> RestoreMatch::Shape(uint32_t tensor) const {
  return std::span(wanted_.dims)
      .subspan(wanted_.tensor_sources[tensor].dims_begin, wanted_.tensors[tensor].rank);
}

bool RestoreMatch::FitsTensor(uint32_t tensor, std::string_view name,
                              std::span<const int64_t> shape, DType stored_dtype,
                              std::span<const int64_t> stored_shape) {
  const DType dtype = wanted_.tensors[tensor].dtype;
  if (dtype != stored_dtype) {
    different_.AddName(name, "dtype " + DTypeText(stored_dtype) + " and " + DTypeText(dtype));
    return false;
  }
  if (!std::equal(shape.begin(), shape.end(), stored_shape.begin(), stored_shape.end())) {
    different_.AddName(name, "shape " + ShapeText(stored_shape) + " and " + ShapeText(shape));
    return false;
  }
  return true;
}

bool RestoreMatch::IsWritable(uint32_t tensor) {
  if (wanted_.tensor_sources[tensor].writable) return true;
  different_.AddName(wanted_.tensor_names[tensor], "the state's memory is read-only");
  return false;
}

void RestoreMatch::MatchObjects(
    const std::function<std::optional<FoundObject>(std::string_view name)>& find) {
  for (uint32_t i = 0; i < wanted_.objects.size(); ++i) {
    const auto& source = wanted_.object_sources[i];
    if (!source.restore) continue;
    const std::string_view name = wanted_.object_names[i];
    const auto found = find(name);
    if (!found) continue;
    // Memory of a fixed size must fit; what a callback takes may have any size.
    const uint64_t stored = found->info.raw_bytes;
    if (source.bytes != nullptr && source.size != stored) {
      different_.AddName(name,
                         std::to_string(stored) + " and " + std::to_string(source.size) + " bytes");
    } else {
      objects_.emplace_back(i, *found);
    }
  }
}

void RestoreMatch::MatchAttributes(
    const std::function<std::optional<Value>(std::string_view name)>& find) {
  for (uint32_t i = 0; i < wanted_.attribute_restores.size(); ++i) {
    if (!wanted_.attribute_restores[i]) continue;
    const std::string_view name = AttributeName(wanted_, i);
    auto value = find(name);
    if (value) {
      attributes_.emplace_back(i, *std::move(value));
    } else {
      AddMissing(name);
    }
  }
}

Status RestoreMatch::Outcome(bool partial) const {
  const std::string where(where_);
  std::string message;
  different_.Say("different in " + where + " and state: ", message);
  if (!partial) {
    missing_.Say("not in the " + where + ": ", message);
    unwanted_.Say("only in the " + where + ": ", message);
  }
  if (message.empty()) return Status();
  return Status(StatusCode::kMismatch,
                "the " + where + " does not fit the state to restore: " + message);
}

Status RestoreMatch::Move() const {
  for (const auto& [position, found] : objects_) {
    DSCKPT_ASSIGN_OR_RETURN(const auto bytes, found.file->ReadObject(found.info.name));
    DSCKPT_RETURN_IF_ERROR(wanted_.object_sources[position].restore(bytes));
  }
  for (const auto& [position, value] : attributes_) {
    DSCKPT_RETURN_IF_ERROR(wanted_.attribute_restores[position](value));
  }
  return Status();
}

std::string_view AttributeName(const Description::Data& description, uint32_t position) {
  // The root, then one leaf an attribute.
  const format::TreeColumns& attributes = description.attributes;
  return format::HeapText(attributes.heap, attributes.nodes[position + 1].key);
}

}  // namespace dsckpt::reader
