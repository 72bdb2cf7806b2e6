#include "spec/conformance/patch.h"

#include <cstring>
#include <span>

#include "format/checksum.h"
#include "format/header/header.h"
#include "format/index/index.h"
#include "format/layout.h"
#include "format/manifest/trailer.h"
#include "index_generated.h"
#include "manifest_generated.h"

namespace dsckpt::conformance {
namespace {

constexpr size_t kFooterHashAt = 112;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
std::vector<T> Own(std::span<const T> column) {
  return {column.begin(), column.end()};
}

format::NameColumns Own(const format::NameView& names) {
  return {{names.bytes.begin(), names.bytes.end()}, Own(names.ends)};
}

format::PayloadColumns Own(const format::PayloadView& payload) {
  return {Own(payload.offset),   Own(payload.raw_bytes), Own(payload.stored_bytes),
          Own(payload.encoding), Own(payload.chunk_end), Own(payload.stored_chunk_end)};
}

format::TreeColumns Own(const format::TreeView& tree) {
  return {Own(tree.nodes), std::string(tree.heap), {tree.tags.begin(), tree.tags.end()}};
}

format::PieceColumns Own(const format::PieceView& pieces) {
  return {.logical_names = Own(pieces.logical_names),
          .logical_dim_end = Own(pieces.logical_dim_end),
          .logical_dims = Own(pieces.logical_dims),
          .tensor = Own(pieces.tensor),
          .logical = Own(pieces.logical),
          .element_offset = Own(pieces.element_offset),
          .form = Own(pieces.form),
          .bounds_end = Own(pieces.bounds_end),
          .bounds = Own(pieces.bounds),
          .replica_group = Own(pieces.replica_group)};
}

format::ManifestColumns Own(const format::ManifestView& view) {
  return {.attempt = std::string(view.attempt),
          .step = view.step,
          .ranks = view.ranks,
          .serial = view.serial,
          .parent = view.parent,
          .shard_names = {view.shard_names.begin(), view.shard_names.end()},
          .shard_rank = Own(view.shard_rank),
          .shard_file_bytes = Own(view.shard_file_bytes),
          .shard_index_bytes = Own(view.shard_index_bytes),
          .shard_index_xxh3_64 = Own(view.shard_index_xxh3_64),
          .shard_content = Own(view.shard_content),
          .dtypes = Own(view.dtypes),
          .logical_dtype = Own(view.logical_dtype),
          .pieces = Own(view.pieces),
          .piece_shard = Own(view.piece_shard),
          .part_file_bytes = Own(view.part_file_bytes),
          .part_xxh3_64 = Own(view.part_xxh3_64)};
}

format::AnnotationColumns Own(const format::AnnotationView& view) {
  const format::StatisticsView& of = view.statistics;
  format::AnnotationColumns columns;
  columns.content = view.content;
  columns.statistics = {Own(of.tensor), Own(of.nan), Own(of.inf), Own(of.zero),
                        Own(of.min),    Own(of.max), Own(of.sum), Own(of.sum_squares)};
  for (const auto& [name, data] : view.vendor) {
    columns.vendor.push_back({std::string(name), std::string(data)});
  }
  return columns;
}

format::IndexColumns Own(const format::IndexView& view) {
  return {.dtypes = Own(view.dtypes),
          .media_types = {view.media_types.begin(), view.media_types.end()},
          .tensor_names = Own(view.tensor_names),
          .alias_names = Own(view.alias_names),
          .object_names = Own(view.object_names),
          .tensor_dtype = Own(view.tensor_dtype),
          .dim_end = Own(view.dim_end),
          .dims = Own(view.dims),
          .tensors = Own(view.tensors),
          .objects = Own(view.objects),
          .alias_target = Own(view.alias_target),
          .object_media_type = Own(view.object_media_type),
          .chunk_sums = Own(view.chunk_sums.xxh3),
          .stored_chunks = Own(view.stored_chunks),
          .pieces = Own(view.pieces),
          .tree = Own(view.tree),
          .attributes = Own(view.attributes),
          .rank_own = Own(view.rank_own),
          .rank = view.rank,
          .annotations = Own(view.annotations)};
}

// A copy at an address that the index's vectors need.
std::vector<uint64_t> Aligned(const std::string& bytes) {
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace

Result<format::IndexColumns> ColumnsOf(const Parts& parts) {
  const std::vector<uint64_t> words = Aligned(parts.index);
  const format::Geometry geometry{parts.footer.data_begin, parts.footer.tail_begin,
                                  parts.footer.index_offset};
  DSCKPT_ASSIGN_OR_RETURN(const format::IndexView view,
                          format::ParseIndex(std::as_bytes(std::span(words)), geometry));
  return Own(view);
}

Result<Parts> TakeApart(const std::string& bytes) {
  const auto all = BytesOf(bytes);
  DSCKPT_ASSIGN_OR_RETURN(
      const format::Classified what,
      format::Classify(all.first(std::min<size_t>(all.size(), kPageBytes)),
                       all.last(std::min<size_t>(all.size(), kFooterBytes)), all.size()));
  Parts parts;
  parts.footer = what.footer;
  parts.body = bytes.substr(0, parts.footer.index_offset);
  parts.index = bytes.substr(parts.footer.index_offset, parts.footer.index_bytes);
  return parts;
}

std::string PutTogether(Parts parts) {
  format::Footer& footer = parts.footer;
  parts.index.resize(RoundUp(parts.index.size(), 8));
  footer.index_offset = parts.body.size();
  footer.index_bytes = parts.index.size();
  footer.file_bytes = footer.index_offset + footer.index_bytes + kFooterBytes;
  footer.index_xxh3_64 = format::Hash64(BytesOf(parts.index));
  std::string header = parts.body.substr(0, footer.data_begin);
  format::PatchSizes(header, footer.tail_begin, footer.file_bytes);
  footer.header_xxh3_64 = format::Hash64(BytesOf(header));
  parts.body.replace(0, header.size(), header);
  return parts.body + parts.index + TextOf(format::EncodeFooter(footer));
}

std::string WithParts(const std::string& bytes, const PartsChange& change) {
  Parts parts = TakeApart(bytes).value();
  change(parts);
  return PutTogether(std::move(parts));
}

std::string WithColumns(const std::string& bytes, const ColumnsChange& change) {
  return WithParts(bytes, [&](Parts& parts) {
    format::IndexColumns columns = ColumnsOf(parts).value();
    change(columns);
    parts.index = TextOf(format::EncodeIndex(columns).value());
  });
}

namespace {

/// Points a vector's field, which `table` has at `field`, to eight zero bytes at the end of
/// `buffer`: an empty vector whose elements would begin 4 after a multiple of 8.
void MoveEmptyVector(std::string& buffer, const flatbuffers::Table& table,
                     flatbuffers::voffset_t field) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(buffer.data());
  const auto at = static_cast<size_t>(table.GetAddressOf(field) - begin);
  const auto offset = static_cast<uint32_t>(buffer.size() - 8 - at);
  std::memcpy(buffer.data() + at, &offset, sizeof offset);
}

template <typename Table>
const flatbuffers::Table& AsTable(const Table* table) {
  return *reinterpret_cast<const flatbuffers::Table*>(table);
}

}  // namespace

std::string WithUnalignedVectors(const std::string& shard) {
  return WithParts(shard, [](Parts& parts) {
    parts.index.append(8, '\0');
    std::string& buffer = parts.index;
    const fbs::Index* const index = fbs::GetIndex(buffer.data());
    const auto& payload = AsTable(index->objects()->payload());
    MoveEmptyVector(buffer, payload, fbs::Payload::VT_OFFSET);
    MoveEmptyVector(buffer, payload, fbs::Payload::VT_RAW_BYTES);
    MoveEmptyVector(buffer, payload, fbs::Payload::VT_STORED_BYTES);
    if (index->stored_chunks()->size() == 0) {
      MoveEmptyVector(buffer, AsTable(index), fbs::Index::VT_STORED_CHUNKS);
    }
  });
}

std::string WithUnalignedManifestVectors(const std::string& manifest) {
  std::string buffer = manifest.substr(0, manifest.size() - format::kManifestTrailerBytes);
  buffer.append(8, '\0');
  const fbs::Manifest* const root = fbs::GetManifest(buffer.data());
  const auto& pieces = AsTable(root->pieces());
  MoveEmptyVector(buffer, pieces, fbs::Pieces::VT_LOGICAL_DIMS);
  MoveEmptyVector(buffer, pieces, fbs::Pieces::VT_ELEMENT_OFFSET);
  MoveEmptyVector(buffer, pieces, fbs::Pieces::VT_BOUNDS);
  std::vector<std::byte> bytes(BytesOf(buffer).begin(), BytesOf(buffer).end());
  format::AppendManifestTrailer(bytes);
  return TextOf(bytes);
}

void DropRequiredField(Parts& parts) {
  const auto& root = AsTable(fbs::GetIndex(parts.index.data()));
  const auto at =
      static_cast<size_t>(root.GetVTable() - reinterpret_cast<const uint8_t*>(parts.index.data()));
  parts.index.replace(at + fbs::Index::VT_CHUNK_SUMS, 2, 2, '\0');
}

void LengthenVector(Parts& parts) {
  const auto* const vector = fbs::GetIndex(parts.index.data())->chunk_sums();
  const auto at = static_cast<size_t>(reinterpret_cast<const char*>(vector) - parts.index.data());
  constexpr uint32_t kLength = 1u << 24;
  std::memcpy(parts.index.data() + at, &kLength, sizeof kLength);
}

void UnalignColumn(Parts& parts) {
  std::string& buffer = parts.index;
  const fbs::Payload* const payload = fbs::GetIndex(buffer.data())->tensors()->payload();
  const auto* const offsets = payload->offset();
  // A copy behind everything, whose length lies where elements should.
  const std::string column(reinterpret_cast<const char*>(offsets->Data()) - 4,
                           4 + 8 * size_t{offsets->size()});
  const auto field = static_cast<size_t>(AsTable(payload).GetAddressOf(fbs::Payload::VT_OFFSET) -
                                         reinterpret_cast<const uint8_t*>(buffer.data()));
  const auto offset = static_cast<uint32_t>(buffer.size() - field);
  std::memcpy(buffer.data() + field, &offset, sizeof offset);
  buffer += column;
}

void UnterminateString(Parts& parts) {
  const auto* const text = fbs::GetIndex(parts.index.data())->media_types()->Get(0);
  parts.index[static_cast<size_t>(text->c_str() + text->size() - parts.index.data())] = 'x';
}

std::string WithLongerHeader(const std::string& bytes) {
  return WithParts(WithColumns(bytes,
                               [](format::IndexColumns& columns) {
                                 for (auto* const payload : {&columns.tensors, &columns.objects}) {
                                   for (uint64_t& offset : payload->offset) offset += kPageBytes;
                                 }
                               }),
                   [](Parts& parts) {
                     parts.body.insert(parts.footer.data_begin, kPageBytes, ' ');
                     parts.footer.data_begin += kPageBytes;
                     parts.footer.tail_begin += kPageBytes;
                     const uint64_t json_bytes = parts.footer.data_begin - 8;
                     std::memcpy(parts.body.data(), &json_bytes, sizeof json_bytes);
                   });
}

format::ManifestColumns ManifestColumnsOf(const std::string& bytes) {
  const std::vector<uint64_t> words = Aligned(bytes);
  return Own(format::ParseManifest(std::as_bytes(std::span(words)).first(bytes.size())).value());
}

std::string WithoutPartSums(const std::string& manifest) {
  std::string changed = manifest;
  const auto* const sums = fbs::GetManifest(changed.data())->parts()->xxh3_64();
  const auto at = static_cast<size_t>(reinterpret_cast<const char*>(sums) - changed.data());
  changed.replace(at, 4, 4, '\0');
  return changed;
}

std::string WithManifest(const std::string& bytes,
                         const std::function<void(format::ManifestColumns&)>& change) {
  format::ManifestColumns columns = ManifestColumnsOf(bytes);
  change(columns);
  return TextOf(format::EncodeManifest(columns).value());
}

std::string WithManifestBytes(const std::string& bytes, const BytesChange& change) {
  std::string changed = bytes;
  change(changed);
  const uint64_t hash = format::Hash64(BytesOf(changed).first(changed.size() - 16));
  std::memcpy(changed.data() + changed.size() - 16, &hash, sizeof hash);
  return changed;
}

std::string WithFooter(const std::string& bytes,
                       const std::function<void(format::Footer&)>& change) {
  format::Footer footer = TakeApart(bytes).value().footer;
  change(footer);
  return bytes.substr(0, bytes.size() - kFooterBytes) + TextOf(format::EncodeFooter(footer));
}

std::string WithFooterBytes(const std::string& bytes, const BytesChange& change) {
  std::string footer = bytes.substr(bytes.size() - kFooterBytes);
  change(footer);
  const uint64_t hash = format::Hash64(BytesOf(footer).first(kFooterHashAt));
  std::memcpy(footer.data() + kFooterHashAt, &hash, sizeof hash);
  return bytes.substr(0, bytes.size() - kFooterBytes) + footer;
}

std::string AsFirstVersion(const std::string& bytes) {
  const std::string bare = WithColumns(bytes, [](format::IndexColumns& c) { c.annotations = {}; });
  return WithParts(bare, [](Parts& parts) {
    parts.footer.version_minor = 0;
    parts.body.replace(format::kVersionOffset, format::kVersionBytes, "1.0     ");
  });
}

std::string WithHeader(const std::string& bytes, const BytesChange& change) {
  format::Footer footer = TakeApart(bytes).value().footer;
  std::string header = bytes.substr(0, footer.data_begin);
  change(header);
  footer.header_xxh3_64 = format::Hash64(BytesOf(header));
  return header + bytes.substr(header.size(), bytes.size() - header.size() - kFooterBytes) +
         TextOf(format::EncodeFooter(footer));
}

}  // namespace dsckpt::conformance
