#include "writer/engine/fence_scope.h"

#include <algorithm>
#include <vector>

#include "writer/engine/placed_image.h"

namespace dsckpt {
namespace {

/// The half-open range of `sources`, tensors in name order, whose names begin with `prefix`.
struct Positions {
  size_t begin, end;
};
Positions NamesWith(std::string_view prefix, const std::vector<SourceIndex>& sources,
                    const format::NameColumns& names) {
  const auto head = [&](SourceIndex i) { return names[i.value()].substr(0, prefix.size()); };
  const auto begin = std::partition_point(sources.begin(), sources.end(),
                                          [&](SourceIndex i) { return head(i) < prefix; });
  const auto end =
      std::partition_point(begin, sources.end(), [&](SourceIndex i) { return head(i) == prefix; });
  return {static_cast<size_t>(begin - sources.begin()), static_cast<size_t>(end - sources.begin())};
}

}  // namespace

FenceScope FindFenceScope(const FileLayout& layout, const Description::Data& data,
                          std::string_view prefix, uint64_t window_bytes) {
  FenceScope ends;
  std::vector<TensorOrdinal> encoded;
  const auto add = [&](TensorOrdinal ordinal) {
    const SourceIndex source_index = layout.tensors[ordinal];
    const auto& source = data.sources.tensors[source_index];
    if (source.capture == Capture::kAtSave || source.raw_bytes == 0) return;
    if (data.identity.tensors[source_index].encoding != Encoding::kRaw)
      return encoded.push_back(ordinal);
    const uint64_t last = layout.offset[ordinal] + layout.raw_bytes[ordinal] - 1;
    const uint64_t windows = (last - PlacedImageBegin(layout)) / window_bytes + 1;
    uint64_t& end = source.producer ? ends.device_windows : ends.host_windows;
    end = std::max(end, windows);
  };
  const Positions tensors = NamesWith(prefix, layout.tensors, data.identity.tensor_names);
  for (size_t i = tensors.begin; i < tensors.end; ++i) add(TensorOrdinal(i));
  const Positions aliases = NamesWith(prefix, layout.aliases, data.identity.tensor_names);
  for (size_t i = aliases.begin; i < aliases.end; ++i) add(layout.alias_target[AliasOrdinal(i)]);
  if (encoded.empty()) return ends;
  std::sort(encoded.begin(), encoded.end());
  for (size_t i = 0; i < layout.appended.size(); ++i) {
    const auto& item = layout.appended[i];
    if (item.is_object) continue;
    if (std::binary_search(encoded.begin(), encoded.end(), item.tensor))
      ends.appended_items = i + 1;
  }
  return ends;
}

}  // namespace dsckpt
