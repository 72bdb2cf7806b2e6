#include <string>

#include "dsckpt/limits.h"
#include "format/columns/flatbuffer_build.h"
#include "format/index/index.h"
#include "format/layout.h"

namespace dsckpt::format {
namespace {

using flatbuffers::Offset;
using format::Bound;

// The tables with their vtables, the root offset and the identifier: about 500 bytes.
constexpr uint64_t kTablesBound = 1024;

uint64_t Bound(const PayloadColumns& payload) {
  return Bound(payload.offset) + Bound(payload.raw_bytes) + Bound(payload.stored_bytes) +
         Bound(payload.encoding) + Bound(payload.chunk_end) + Bound(payload.stored_chunk_end);
}

uint64_t Bound(const TreeColumns& tree) {
  return Bound(tree.nodes) + Bound(tree.heap) + Bound(tree.tags);
}

uint64_t Bound(const StatisticsColumns& statistics) {
  return Bound(statistics.tensor) + Bound(statistics.nan) + Bound(statistics.inf) +
         Bound(statistics.zero) + Bound(statistics.min) + Bound(statistics.max) +
         Bound(statistics.sum) + Bound(statistics.sum_squares);
}

uint64_t Bound(const AnnotationColumns& annotations) {
  // A table of two fields, its share of the vector, and the vtable, which the entries share.
  constexpr uint64_t kVendorTable = 24;
  uint64_t bytes = sizeof(Hash128) + Bound(annotations.statistics) + kVectorOverhead;
  for (const VendorEntry& entry : annotations.vendor) {
    bytes += kVendorTable + Bound(entry.name) + 1 + Bound(entry.data);
  }
  return bytes;
}

auto Payload(Builder& builder, const PayloadColumns& payload) {
  const auto offset = Scalars(builder, payload.offset);
  const auto raw_bytes = Scalars(builder, payload.raw_bytes);
  const auto stored_bytes = Scalars(builder, payload.stored_bytes);
  const auto encoding = Scalars(builder, payload.encoding);
  const auto chunk_end = Scalars(builder, payload.chunk_end);
  const auto stored_chunk_end = Scalars(builder, payload.stored_chunk_end);
  return fbs::CreatePayload(builder, offset, raw_bytes, stored_bytes, encoding, chunk_end,
                            stored_chunk_end);
}

auto Tensors(Builder& builder, const IndexColumns& columns) {
  const auto names = Names(builder, columns.tensor_names);
  const auto dtype = Scalars(builder, columns.tensor_dtype);
  const auto dim_end = Scalars(builder, columns.dim_end);
  const auto dims = Scalars(builder, columns.dims);
  const auto payload = Payload(builder, columns.tensors);
  return fbs::CreateTensors(builder, names, dtype, dim_end, dims, payload);
}

auto Aliases(Builder& builder, const IndexColumns& columns) {
  const auto names = Names(builder, columns.alias_names);
  const auto target = Scalars(builder, columns.alias_target);
  return fbs::CreateAliases(builder, names, target);
}

auto Objects(Builder& builder, const IndexColumns& columns) {
  const auto names = Names(builder, columns.object_names);
  const auto media_type = Scalars(builder, columns.object_media_type);
  const auto payload = Payload(builder, columns.objects);
  return fbs::CreateObjects(builder, names, media_type, payload);
}

Offset<fbs::Pieces> Pieces(Builder& builder, const PieceColumns& pieces) {
  // No table for nothing: most shards have no pieces.
  if (pieces.size() == 0 && pieces.logical_names.size() == 0) return 0;
  return BuildPieces(builder, pieces);
}

Offset<fbs::Tree> Tree(Builder& builder, const TreeColumns& tree) {
  if (tree.nodes.empty()) return 0;
  const auto nodes = Structs<fbs::Node>(builder, tree.nodes);
  const auto heap = Bytes(builder, tree.heap);
  const auto tags = Strings(builder, tree.tags);
  return fbs::CreateTree(builder, nodes, heap, tags);
}

Offset<fbs::Names> RankOwn(Builder& builder, const NameColumns& names) {
  if (names.size() == 0) return 0;
  return Names(builder, names);
}

Offset<fbs::Statistics> Statistics(Builder& builder, const StatisticsColumns& columns) {
  if (columns.tensor.empty()) return 0;
  const auto tensor = Scalars(builder, columns.tensor);
  const auto nan = Scalars(builder, columns.nan);
  const auto inf = Scalars(builder, columns.inf);
  const auto zero = Scalars(builder, columns.zero);
  const auto min = Scalars(builder, columns.min);
  const auto max = Scalars(builder, columns.max);
  const auto sum = Scalars(builder, columns.sum);
  const auto sum_squares = Scalars(builder, columns.sum_squares);
  return fbs::CreateStatistics(builder, tensor, nan, inf, zero, min, max, sum, sum_squares);
}

Offset<flatbuffers::Vector<Offset<fbs::Vendor>>> Vendor(Builder& builder,
                                                        const std::vector<VendorEntry>& vendor) {
  if (vendor.empty()) return 0;
  std::vector<Offset<fbs::Vendor>> entries;
  for (const VendorEntry& entry : vendor) {
    const auto name = builder.CreateString(entry.name);
    entries.push_back(fbs::CreateVendor(builder, name, Bytes(builder, entry.data)));
  }
  return builder.CreateVector(entries);
}

void Build(Builder& builder, const IndexColumns& columns) {
  const auto dtypes = Structs<fbs::DType>(builder, columns.dtypes);
  const auto media_types = Strings(builder, columns.media_types);
  const auto tensors = Tensors(builder, columns);
  const auto aliases = Aliases(builder, columns);
  const auto objects = Objects(builder, columns);
  const auto chunk_sums = Structs<fbs::Hash128>(builder, columns.chunk_sums);
  const auto stored_chunks = Structs<fbs::StoredChunk>(builder, columns.stored_chunks);
  const auto pieces = Pieces(builder, columns.pieces);
  const auto tree = Tree(builder, columns.tree);
  const auto attributes = Tree(builder, columns.attributes);
  const auto rank_own = RankOwn(builder, columns.rank_own);
  const auto statistics = Statistics(builder, columns.annotations.statistics);
  const auto vendor = Vendor(builder, columns.annotations.vendor);
  fbs::IndexBuilder index(builder);
  index.add_dtypes(dtypes);
  index.add_media_types(media_types);
  index.add_tensors(tensors);
  index.add_aliases(aliases);
  index.add_objects(objects);
  index.add_chunk_sums(chunk_sums);
  index.add_stored_chunks(stored_chunks);
  if (!pieces.IsNull()) index.add_pieces(pieces);
  if (!tree.IsNull()) index.add_tree(tree);
  if (!attributes.IsNull()) index.add_attributes(attributes);
  if (!rank_own.IsNull()) index.add_rank_own(rank_own);
  index.add_rank(columns.rank);
  if (const auto& content = columns.annotations.content) {
    const fbs::Hash128 digest(content->low, content->high);
    index.add_content(&digest);
  }
  if (!statistics.IsNull()) index.add_statistics(statistics);
  if (!vendor.IsNull()) index.add_vendor(vendor);
  builder.Finish(index.Finish(), fbs::IndexIdentifier());
}

}  // namespace

uint64_t IndexBytesBound(const IndexColumns& columns) {
  return kTablesBound + Bound(columns.dtypes) + Bound(columns.media_types) +
         Bound(columns.tensor_names) + Bound(columns.alias_names) + Bound(columns.object_names) +
         Bound(columns.tensor_dtype) + Bound(columns.dim_end) + Bound(columns.dims) +
         Bound(columns.tensors) + Bound(columns.objects) + Bound(columns.alias_target) +
         Bound(columns.object_media_type) + Bound(columns.chunk_sums) +
         Bound(columns.stored_chunks) + Bound(columns.pieces) + Bound(columns.tree) +
         Bound(columns.attributes) + Bound(columns.rank_own) + sizeof(columns.rank) +
         Bound(columns.annotations);
}

Result<std::vector<std::byte>> EncodeIndex(const IndexColumns& columns) {
  const uint64_t bound = IndexBytesBound(columns);
  if (bound > kMaxIndexBytes) {
    return Status(StatusCode::kLimitExceeded, "the index needs up to " + std::to_string(bound) +
                                                  " bytes, at most " +
                                                  std::to_string(kMaxIndexBytes) +
                                                  " are possible: save fewer items in one file");
  }
  std::vector<std::byte> memory;
  VectorAllocator allocator(memory);
  Builder builder(RoundUp(bound, 8), &allocator);
  Build(builder, columns);
  KeepBuilt(builder, memory);
  return memory;
}

}  // namespace dsckpt::format
