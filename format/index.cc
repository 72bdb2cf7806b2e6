#include "format/index.h"

#include <string>

#include "dsckpt/limits.h"
#include "format/index_records.h"
#include "format/layout.h"

namespace dsckpt::format {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;
using Builder = flatbuffers::FlatBufferBuilder;

// The builder's memory is the vector that EncodeIndex returns: no second copy of a large index.
class VectorAllocator final : public flatbuffers::Allocator {
 public:
  explicit VectorAllocator(std::vector<std::byte>& memory) : memory_(memory) {}
  // Called once: the builder's initial size is an upper bound.
  uint8_t* allocate(size_t size) override {
    memory_.resize(size);
    return reinterpret_cast<uint8_t*>(memory_.data());
  }
  void deallocate(uint8_t*, size_t) override {}

 private:
  std::vector<std::byte>& memory_;
};

// A vector's length field, and the alignment before and after it.
constexpr uint64_t kVectorOverhead = 16;
// The ten tables with their vtables, the root offset and the identifier: about 400 bytes.
constexpr uint64_t kTablesBound = 1024;

template <typename V>
uint64_t Bound(const V& column) {
  return column.size() * sizeof(column[0]) + kVectorOverhead;
}

uint64_t Bound(const NameColumns& names) { return Bound(names.bytes) + Bound(names.ends); }

uint64_t Bound(const PayloadColumns& payload) {
  return Bound(payload.offset) + Bound(payload.raw_bytes) + Bound(payload.stored_bytes) +
         Bound(payload.encoding) + Bound(payload.chunk_end) + Bound(payload.stored_chunk_end);
}

uint64_t Bound(const std::vector<std::string>& strings) {
  uint64_t bytes = kVectorOverhead;
  // An offset, and a text with its NUL.
  for (const std::string& text : strings) bytes += text.size() + kVectorOverhead + 5;
  return bytes;
}

uint64_t Bound(const TreeColumns& tree) {
  return Bound(tree.nodes) + Bound(tree.heap) + Bound(tree.tags);
}

template <typename T>
auto Scalars(Builder& builder, const std::vector<T>& column) {
  return builder.CreateVector(column.data(), column.size());
}

auto Bytes(Builder& builder, const std::string& bytes) {
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

template <typename Stored, typename Record>
auto Structs(Builder& builder, const std::vector<Record>& column) {
  return builder.CreateVectorOfStructs(reinterpret_cast<const Stored*>(column.data()),
                                       column.size());
}

auto Strings(Builder& builder, const std::vector<std::string>& strings) {
  std::vector<Offset<flatbuffers::String>> offsets;
  offsets.reserve(strings.size());
  for (const std::string& text : strings) offsets.push_back(builder.CreateString(text));
  return builder.CreateVector(offsets);
}

auto Names(Builder& builder, const NameColumns& names) {
  const auto bytes = Bytes(builder, names.bytes);
  const auto ends = Scalars(builder, names.ends);
  return fbs::CreateNames(builder, bytes, ends);
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

Offset<fbs::Tree> Tree(Builder& builder, const TreeColumns& tree) {
  if (tree.nodes.empty()) return 0;
  const auto nodes = Structs<fbs::Node>(builder, tree.nodes);
  const auto heap = Bytes(builder, tree.heap);
  const auto tags = Strings(builder, tree.tags);
  return fbs::CreateTree(builder, nodes, heap, tags);
}

void Build(Builder& builder, const IndexColumns& columns) {
  const auto dtypes = Structs<fbs::DType>(builder, columns.dtypes);
  const auto media_types = Strings(builder, columns.media_types);
  const auto tensors = Tensors(builder, columns);
  const auto aliases = Aliases(builder, columns);
  const auto objects = Objects(builder, columns);
  const auto chunk_sums = Structs<fbs::Hash128>(builder, columns.chunk_sums);
  const auto stored_chunks = Structs<fbs::StoredChunk>(builder, columns.stored_chunks);
  const auto tree = Tree(builder, columns.tree);
  const auto attributes = Tree(builder, columns.attributes);
  fbs::IndexBuilder index(builder);
  index.add_dtypes(dtypes);
  index.add_media_types(media_types);
  index.add_tensors(tensors);
  index.add_aliases(aliases);
  index.add_objects(objects);
  index.add_chunk_sums(chunk_sums);
  index.add_stored_chunks(stored_chunks);
  if (!tree.IsNull()) index.add_tree(tree);
  if (!attributes.IsNull()) index.add_attributes(attributes);
  builder.Finish(index.Finish(), fbs::IndexIdentifier());
}

}  // namespace

uint64_t IndexBytesBound(const IndexColumns& columns) {
  return kTablesBound + Bound(columns.dtypes) + Bound(columns.media_types) +
         Bound(columns.tensor_names) + Bound(columns.alias_names) + Bound(columns.object_names) +
         Bound(columns.tensor_dtype) + Bound(columns.dim_end) + Bound(columns.dims) +
         Bound(columns.tensors) + Bound(columns.objects) + Bound(columns.alias_target) +
         Bound(columns.object_media_type) + Bound(columns.chunk_sums) +
         Bound(columns.stored_chunks) + Bound(columns.tree) + Bound(columns.attributes);
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
  Builder builder(AlignUp(bound, 8), &allocator);
  Build(builder, columns);
  // The builder fills its memory from the end.
  memory.erase(memory.begin(), memory.end() - builder.GetSize());
  return memory;
}

}  // namespace dsckpt::format
