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
Positions NamesWith(std::string_view prefix, const std::vector<uint32_t>& sources,
                    const format::NameColumns& names) {
  const auto head = [&](uint32_t position) { return names[position].substr(0, prefix.size()); };
  const auto begin = std::partition_point(
      sources.begin(), sources.end(), [&](uint32_t position) { return head(position) < prefix; });
  const auto end = std::partition_point(
      begin, sources.end(), [&](uint32_t position) { return head(position) == prefix; });
  return {static_cast<size_t>(begin - sources.begin()), static_cast<size_t>(end - sources.begin())};
}

}  // namespace

FenceScope FindFenceScope(const FileLayout& layout, const Description::Data& data,
                          std::string_view prefix, uint64_t window_bytes) {
  FenceScope ends;
  std::vector<uint32_t> encoded;  // Ordinals.
  const auto add = [&](uint32_t ordinal) {
    const uint32_t source_index = layout.tensors[ordinal];
    const auto& source = data.tensor_sources[source_index];
    if (source.capture == Capture::kAtSave || source.raw_bytes == 0) return;
    if (data.tensors[source_index].encoding != Encoding::kRaw) return encoded.push_back(ordinal);
    const uint64_t last = layout.offset[ordinal] + layout.raw_bytes[ordinal] - 1;
    const uint64_t windows = (last - PlacedImageBegin(layout)) / window_bytes + 1;
    uint64_t& end = source.producer == 0 ? ends.host_windows : ends.device_windows;
    end = std::max(end, windows);
  };
  const Positions tensors = NamesWith(prefix, layout.tensors, data.tensor_names);
  for (size_t i = tensors.begin; i < tensors.end; ++i) add(static_cast<uint32_t>(i));
  const Positions aliases = NamesWith(prefix, layout.aliases, data.tensor_names);
  for (size_t i = aliases.begin; i < aliases.end; ++i) add(layout.alias_target[i]);
  if (encoded.empty()) return ends;
  std::sort(encoded.begin(), encoded.end());
  for (size_t i = 0; i < layout.appended.size(); ++i) {
    const auto& item = layout.appended[i];
    if (item.is_object) continue;
    if (std::binary_search(encoded.begin(), encoded.end(), item.ordinal))
      ends.appended_items = i + 1;
  }
  return ends;
}

}  // namespace dsckpt
