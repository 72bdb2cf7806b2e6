#include "format/columns/columns.h"

namespace dsckpt::format {
namespace {

NameView ViewOf(const NameColumns& names) { return {names.bytes, names.ends}; }

PayloadView ViewOf(const PayloadColumns& payload) {
  return {payload.offset,   payload.raw_bytes, payload.stored_bytes,
          payload.encoding, payload.chunk_end, payload.stored_chunk_end};
}

TreeView ViewOf(const TreeColumns& tree) {
  return {tree.nodes, tree.heap, {tree.tags.begin(), tree.tags.end()}};
}

// Part of a column in which the objects' entries follow those of the tensors.
template <typename T>
std::span<const T> ObjectPart(std::span<const T> column, std::span<const uint32_t> tensor_ends,
                              std::span<const uint32_t> object_ends, uint32_t object) {
  if (object > 0) return Part(column, object_ends, object);
  const uint32_t begin = tensor_ends.empty() ? 0 : tensor_ends.back();
  return column.subspan(begin, object_ends[0] - begin);
}

StatisticsView ViewOf(const StatisticsColumns& statistics) {
  return {statistics.tensor, statistics.nan, statistics.inf, statistics.zero,
          statistics.min,    statistics.max, statistics.sum, statistics.sum_squares};
}

AnnotationView ViewOf(const AnnotationColumns& annotations) {
  AnnotationView view{annotations.content, ViewOf(annotations.statistics), {}};
  for (const VendorEntry& entry : annotations.vendor) {
    view.vendor.push_back({entry.name, entry.data});
  }
  return view;
}

}  // namespace

std::optional<uint32_t> NameView::Find(std::string_view name) const {
  uint32_t begin = 0;
  uint32_t end = size();
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    const int order = (*this)[middle].compare(name);
    if (order == 0) return middle;
    if (order < 0) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return std::nullopt;
}

std::span<const Hash128> TensorSums(const IndexView& index, uint32_t tensor) {
  if (index.chunk_sums.hash_id != kHashXxh3) return {};
  return Part(index.chunk_sums.xxh3, index.tensors.chunk_end, tensor);
}

std::span<const Hash128> ObjectSums(const IndexView& index, uint32_t object) {
  if (index.chunk_sums.hash_id != kHashXxh3) return {};
  return ObjectPart(index.chunk_sums.xxh3, index.tensors.chunk_end, index.objects.chunk_end,
                    object);
}

std::span<const StoredChunk> TensorStoredChunks(const IndexView& index, uint32_t tensor) {
  return Part(index.stored_chunks, index.tensors.stored_chunk_end, tensor);
}

std::span<const StoredChunk> ObjectStoredChunks(const IndexView& index, uint32_t object) {
  return ObjectPart(index.stored_chunks, index.tensors.stored_chunk_end,
                    index.objects.stored_chunk_end, object);
}

IndexView ViewOf(const IndexColumns& columns) {
  IndexView view;
  view.dtypes = columns.dtypes;
  view.media_types.assign(columns.media_types.begin(), columns.media_types.end());
  view.tensor_names = ViewOf(columns.tensor_names);
  view.alias_names = ViewOf(columns.alias_names);
  view.object_names = ViewOf(columns.object_names);
  view.tensor_dtype = columns.tensor_dtype;
  view.dim_end = columns.dim_end;
  view.dims = columns.dims;
  view.tensors = ViewOf(columns.tensors);
  view.objects = ViewOf(columns.objects);
  view.alias_target = columns.alias_target;
  view.object_media_type = columns.object_media_type;
  view.chunk_sums = {kHashXxh3, columns.chunk_sums.size(), columns.chunk_sums};
  view.stored_chunks = columns.stored_chunks;
  view.pieces = ViewOf(columns.pieces);
  view.tree = ViewOf(columns.tree);
  view.attributes = ViewOf(columns.attributes);
  view.rank_own = ViewOf(columns.rank_own);
  view.rank = columns.rank;
  view.annotations = ViewOf(columns.annotations);
  return view;
}

}  // namespace dsckpt::format
