// Verifying a FlatBuffer and borrowing its columns.

#include <cstdint>
#include <limits>
#include <string>

#include "dsckpt/limits.h"
#include "format/columns/flatbuffer_borrow.h"
#include "format/index/check.h"
#include "format/index/index.h"

namespace dsckpt::format {
namespace {

constexpr uint8_t kHashXxh3 = 1;
// Index -> Tensors -> Payload; the margin is for tables that later versions append.
constexpr uint32_t kMaxTableDepth = 8;
// The schema has fourteen; the margin likewise.
constexpr uint32_t kMaxTables = 64;

Status BorrowTree(Borrower& borrow, const fbs::Tree* tree, TreeView& out) {
  if (tree == nullptr) return {};
  out.nodes = borrow.Column<NodeRecord>(tree->nodes());
  if (tree->heap() != nullptr) {
    const auto heap = borrow.Column<char>(tree->heap());
    out.heap = {heap.data(), heap.size()};
  }
  if (out.nodes.empty()) return IndexError("tree", "nodes", "at least the root", "none");
  if (tree->tags() == nullptr) return {};
  return BorrowStrings(kIndexPart, tree->tags(), "tree tags", std::numeric_limits<uint16_t>::max(),
                       out.tags);
}

Result<IndexView> Borrow(const fbs::Index& index) {
  Borrower borrow;
  IndexView view;
  view.dtypes = borrow.Column<DTypeRecord>(index.dtypes());
  const fbs::Tensors& tensors = *index.tensors();
  view.tensor_names = borrow.Names(tensors.names());
  view.tensor_dtype = borrow.Column<uint8_t>(tensors.dtype());
  view.dim_end = borrow.Column<uint32_t>(tensors.dim_end());
  view.dims = borrow.Column<int64_t>(tensors.dims());
  view.tensors = borrow.Payload(tensors.payload());
  view.alias_names = borrow.Names(index.aliases()->names());
  view.alias_target = borrow.Column<uint32_t>(index.aliases()->target());
  view.object_names = borrow.Names(index.objects()->names());
  view.object_media_type = borrow.Column<uint8_t>(index.objects()->media_type());
  view.objects = borrow.Payload(index.objects()->payload());
  view.chunk_sums = borrow.Column<Hash128>(index.chunk_sums());
  view.stored_chunks = borrow.Column<StoredChunk>(index.stored_chunks());
  DSCKPT_RETURN_IF_ERROR(BorrowStrings(kIndexPart, index.media_types(), "media types",
                                       kMaxDistinctTypes, view.media_types));
  DSCKPT_RETURN_IF_ERROR(BorrowTree(borrow, index.tree(), view.tree));
  DSCKPT_RETURN_IF_ERROR(BorrowTree(borrow, index.attributes(), view.attributes));
  if (index.pieces() != nullptr) view.pieces = borrow.Pieces(index.pieces());
  if (index.rank_own() != nullptr) view.rank_own = borrow.Names(index.rank_own());
  view.rank = index.rank();
  DSCKPT_RETURN_IF_ERROR(borrow.CheckAligned(kIndexPart));
  return view;
}

}  // namespace

Result<IndexView> ParseIndex(std::span<const std::byte> bytes, const Geometry& geometry) {
  // Before the verifier, which asserts on larger buffers.
  if (bytes.size() > kMaxIndexBytes) {
    return IndexError("size", "bytes", "at most " + std::to_string(kMaxIndexBytes),
                      std::to_string(bytes.size()));
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxTableDepth, kMaxTables);
  if (!fbs::VerifyIndexBuffer(verifier)) {
    return IndexError("structure", "FlatBuffer",
                      "a valid \"DSCK\" buffer of " + std::to_string(bytes.size()) + " bytes",
                      "an invalid one");
  }
  const fbs::Index& index = *fbs::GetIndex(data);
  if (index.hash_id() != kHashXxh3) {
    return Status(StatusCode::kUnsupported,
                  "the chunk sums use hash id " + std::to_string(index.hash_id()) +
                      ", which needs a newer dsckpt (known: 1, XXH3-128)");
  }
  DSCKPT_ASSIGN_OR_RETURN(IndexView view, Borrow(index));
  DSCKPT_RETURN_IF_ERROR(CheckItems(view));
  DSCKPT_RETURN_IF_ERROR(CheckLayout(view, geometry));
  if (!view.tree.nodes.empty()) DSCKPT_RETURN_IF_ERROR(CheckTree(view.tree, view));
  if (!view.attributes.nodes.empty()) DSCKPT_RETURN_IF_ERROR(CheckAttributes(view.attributes));
  return view;
}

}  // namespace dsckpt::format
