#include "format/index/content.h"

#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/little_endian.h"
#include "format/checksum.h"

namespace dsckpt::format {
namespace {

/// What is hashed, in pieces of a few bytes each: gathered, so that the hash sees pages.
class ContentHasher {
 public:
  template <typename T>
  void Number(T value) {
    std::byte bytes[sizeof value];
    StoreLittleEndian(bytes, value);
    Add(bytes);
  }
  void Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    Add(std::as_bytes(std::span(text)));
  }
  void Digest(const Hash128& digest) {
    Number(digest.low);
    Number(digest.high);
  }
  Hash128 Finish() {
    Flush();
    return hasher_.Digest();
  }

 private:
  void Add(std::span<const std::byte> bytes) {
    if (bytes.size() > sizeof gathered_ - used_) Flush();
    if (bytes.size() > sizeof gathered_) return hasher_.Update(bytes);
    if (!bytes.empty()) std::memcpy(gathered_ + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }
  void Flush() {
    hasher_.Update({gathered_, used_});
    used_ = 0;
  }

  ChunkHasher hasher_;
  std::byte gathered_[4096];
  size_t used_ = 0;
};

void AddItems(ContentHasher& out, const IndexView& index) {
  out.Number(index.tensor_names.size());
  for (uint32_t i = 0; i < index.tensor_names.size(); ++i) {
    out.Text(index.tensor_names[i]);
    out.Digest(TensorDigest(index.dtypes[index.tensor_dtype[i]].code, index.shape(i),
                            TensorSums(index, i)));
  }
  out.Number(index.alias_names.size());
  for (uint32_t i = 0; i < index.alias_names.size(); ++i) {
    out.Text(index.alias_names[i]);
    out.Number(index.alias_target[i]);
  }
  out.Number(index.object_names.size());
  for (uint32_t i = 0; i < index.object_names.size(); ++i) {
    out.Text(index.object_names[i]);
    out.Text(index.media_types[index.object_media_type[i]]);
    out.Digest(ObjectDigest(index.objects.raw_bytes[i], ObjectSums(index, i)));
  }
}

void AddPieces(ContentHasher& out, const PieceView& pieces) {
  out.Number(pieces.size());
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const uint32_t logical = pieces.logical[i];
    out.Number(pieces.tensor[i]);
    out.Number(pieces.element_offset[i]);
    out.Text(pieces.logical_names[logical]);
    const auto shape = pieces.logical_shape(logical);
    out.Number(static_cast<uint32_t>(shape.size()));
    for (const int64_t dim : shape) out.Number(dim);
    out.Number(pieces.form[i]);
    const auto bounds = pieces.bounds_of(i);
    out.Number(static_cast<uint32_t>(bounds.size()));
    for (const uint64_t bound : bounds) out.Number(bound);
  }
}

bool HasHeapPayload(NodeKind kind) {
  return kind == NodeKind::kBigInt || kind == NodeKind::kComplex || kind == NodeKind::kString ||
         kind == NodeKind::kBytes;
}

void AddTree(ContentHasher& out, const TreeView& tree) {
  out.Number(static_cast<uint32_t>(tree.nodes.size()));
  for (const NodeRecord& node : tree.nodes) {
    out.Number(static_cast<uint8_t>(node.kind));
    out.Number(static_cast<uint8_t>(node.key_kind));
    out.Number(node.children);
    out.Text(node.tag == 0 ? std::string_view() : tree.tags[node.tag - 1]);
    if (node.key_kind == Key::Kind::kString) out.Text(HeapText(tree.heap, node.key));
    if (node.key_kind == Key::Kind::kInt) out.Number(node.key);
    HasHeapPayload(node.kind) ? out.Text(HeapText(tree.heap, node.payload))
                              : out.Number(node.payload);
  }
}

}  // namespace

std::optional<Hash128> ContentDigest(const IndexView& index) {
  if (index.chunk_sums.hash_id != kHashXxh3) return std::nullopt;
  ContentHasher out;
  AddItems(out, index);
  AddPieces(out, index.pieces);
  AddTree(out, index.tree);
  out.Number(index.rank_own.size());
  for (uint32_t i = 0; i < index.rank_own.size(); ++i) out.Text(index.rank_own[i]);
  return out.Finish();
}

}  // namespace dsckpt::format
