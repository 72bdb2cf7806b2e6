// Verifies the FlatBuffer of an index and borrows its columns.

#include <cstdint>
#include <limits>
#include <string>

#include "dsckpt/limits.h"
#include "format/columns/flatbuffer_borrow.h"
#include "format/index/check.h"
#include "format/index/index.h"

namespace dsckpt::format {
namespace {

// Index -> Tensors -> Payload; the margin is for tables that later versions append.
constexpr uint32_t kMaxTableDepth = 8;
// The schema has fifteen besides vendor data; the margin likewise.
constexpr uint32_t kMaxTables = 64 + kMaxVendors;
constexpr uint8_t kMaxSumBytes = 64;

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

/// Sums of a hash that is not known are counted, so that running totals can be checked, and not
/// used.
Status BorrowSums(Borrower& borrow, const fbs::Index& index, ChunkSumsView& out) {
  out.hash_id = index.hash_id();
  if (out.hash_id == 0) {
    return Status(StatusCode::kUnsupported,
                  "the chunk sums use hash id 0, which no version of the format assigns");
  }
  const auto xxh3 = borrow.Column<Hash128>(index.chunk_sums());
  const uint64_t other_bytes = index.sums() == nullptr ? 0 : index.sums()->size();
  const uint8_t sum_bytes = index.sum_bytes();
  if (sum_bytes == 0) {
    if (other_bytes != 0) return IndexError("sums", "bytes", 0, other_bytes);
    out.count = xxh3.size();
    if (out.hash_id == kHashXxh3) out.xxh3 = xxh3;
    return {};
  }
  if (out.hash_id == kHashXxh3 || sum_bytes > kMaxSumBytes) {
    return IndexError("sum_bytes", "bytes",
                      out.hash_id == kHashXxh3 ? "0 for hash id 1, whose sums are chunk_sums"
                                               : "at most " + std::to_string(kMaxSumBytes),
                      std::to_string(sum_bytes));
  }
  if (!xxh3.empty()) return IndexError("chunk_sums", "entries beside sums", 0, xxh3.size());
  if (other_bytes % sum_bytes != 0) {
    return IndexError("sums", "bytes", "a multiple of " + std::to_string(sum_bytes),
                      std::to_string(other_bytes));
  }
  out.count = other_bytes / sum_bytes;
  return {};
}

StatisticsView BorrowStatistics(Borrower& borrow, const fbs::Statistics& statistics) {
  return {borrow.Column<uint32_t>(statistics.tensor()),
          borrow.Column<uint64_t>(statistics.nan()),
          borrow.Column<uint64_t>(statistics.inf()),
          borrow.Column<uint64_t>(statistics.zero()),
          borrow.Column<double>(statistics.min()),
          borrow.Column<double>(statistics.max()),
          borrow.Column<double>(statistics.sum()),
          borrow.Column<double>(statistics.sum_squares())};
}

Status BorrowAnnotations(Borrower& borrow, const fbs::Index& index, AnnotationView& out) {
  if (const auto* content = index.content()) out.content = {content->low(), content->high()};
  if (index.statistics() != nullptr) out.statistics = BorrowStatistics(borrow, *index.statistics());
  if (index.vendor() == nullptr) return {};
  if (index.vendor()->size() > kMaxVendors) {
    return IndexError("vendor", "entries", "at most " + std::to_string(kMaxVendors),
                      std::to_string(index.vendor()->size()));
  }
  for (const fbs::Vendor* entry : *index.vendor()) {
    const auto data = borrow.Column<char>(entry->data());
    out.vendor.push_back({entry->name()->string_view(), {data.data(), data.size()}});
  }
  return {};
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
  DSCKPT_RETURN_IF_ERROR(BorrowSums(borrow, index, view.chunk_sums));
  view.stored_chunks = borrow.Column<StoredChunk>(index.stored_chunks());
  DSCKPT_RETURN_IF_ERROR(BorrowStrings(kIndexPart, index.media_types(), "media types",
                                       kMaxDistinctTypes, view.media_types));
  DSCKPT_RETURN_IF_ERROR(BorrowTree(borrow, index.tree(), view.tree));
  DSCKPT_RETURN_IF_ERROR(BorrowTree(borrow, index.attributes(), view.attributes));
  if (index.pieces() != nullptr) view.pieces = borrow.Pieces(index.pieces());
  if (index.rank_own() != nullptr) view.rank_own = borrow.Names(index.rank_own());
  view.rank = index.rank();
  DSCKPT_RETURN_IF_ERROR(BorrowAnnotations(borrow, index, view.annotations));
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
  DSCKPT_ASSIGN_OR_RETURN(IndexView view, Borrow(*fbs::GetIndex(data)));
  DSCKPT_RETURN_IF_ERROR(CheckItems(view));
  DSCKPT_RETURN_IF_ERROR(CheckLayout(view, geometry));
  if (!view.tree.nodes.empty()) DSCKPT_RETURN_IF_ERROR(CheckTree(view.tree, view));
  if (!view.attributes.nodes.empty()) DSCKPT_RETURN_IF_ERROR(CheckAttributes(view.attributes));
  return view;
}

}  // namespace dsckpt::format
