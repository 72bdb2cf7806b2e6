#include <algorithm>
#include <string>

#include "dsckpt/limits.h"
#include "format/columns/flatbuffer_build.h"
#include "format/manifest/manifest.h"
#include "format/manifest/parts.h"
#include "format/manifest/trailer.h"
#include "manifest_generated.h"

namespace dsckpt::format {
namespace {

// The tables with their vtables, the root offset, the identifier, the attempt's frame and the
// trailer: about 400 bytes.
constexpr uint64_t kFixedBound = 1024;

auto Shards(Builder& builder, const ManifestColumns& columns) {
  const auto names = Strings(builder, columns.shard_names);
  const auto rank = Scalars(builder, columns.shard_rank);
  const auto file_bytes = Scalars(builder, columns.shard_file_bytes);
  const auto index_bytes = Scalars(builder, columns.shard_index_bytes);
  const auto index_xxh3_64 = Scalars(builder, columns.shard_index_xxh3_64);
  flatbuffers::Offset<flatbuffers::Vector<const fbs::Hash128*>> content;
  if (!columns.shard_content.empty()) {
    content = Structs<fbs::Hash128>(builder, columns.shard_content);
  }
  return fbs::CreateShards(builder, names, rank, file_bytes, index_bytes, index_xxh3_64, content);
}

flatbuffers::Offset<fbs::Parts> Parts(Builder& builder, const ManifestColumns& columns) {
  if (columns.part_file_bytes.empty() && columns.part_xxh3_64.empty()) return 0;
  const auto file_bytes = Scalars(builder, columns.part_file_bytes);
  const auto xxh3_64 = Scalars(builder, columns.part_xxh3_64);
  return fbs::CreateParts(builder, file_bytes, xxh3_64);
}

// The least that says what the columns need.
ManifestVersion VersionOf(const ManifestColumns& columns) {
  if (!columns.part_file_bytes.empty()) return {1, kManifestHasParts};
  return {static_cast<uint16_t>(columns.shard_content.empty() ? 0 : 1), 0};
}

void Build(Builder& builder, const ManifestColumns& columns) {
  const auto attempt = builder.CreateString(columns.attempt);
  const auto shards = Shards(builder, columns);
  const auto dtypes = Structs<fbs::DType>(builder, columns.dtypes);
  const auto logical_dtype = Scalars(builder, columns.logical_dtype);
  const auto pieces = BuildPieces(builder, columns.pieces);
  const auto piece_shard = Scalars(builder, columns.piece_shard);
  const auto parts = Parts(builder, columns);
  builder.Finish(fbs::CreateManifest(builder, attempt, columns.step, columns.ranks, shards, dtypes,
                                     logical_dtype, pieces, piece_shard, columns.serial,
                                     columns.parent, parts),
                 fbs::ManifestIdentifier());
}

}  // namespace

ManifestView::Span ManifestView::PiecesOf(uint32_t logical_tensor) const {
  const auto [first, last] =
      std::equal_range(pieces.logical.begin(), pieces.logical.end(), logical_tensor);
  return {static_cast<uint32_t>(first - pieces.logical.begin()),
          static_cast<uint32_t>(last - pieces.logical.begin())};
}

ManifestView ViewOf(const ManifestColumns& columns) {
  ManifestView view;
  view.attempt = columns.attempt;
  view.step = columns.step;
  view.ranks = columns.ranks;
  view.serial = columns.serial;
  view.parent = columns.parent;
  view.shard_names.assign(columns.shard_names.begin(), columns.shard_names.end());
  view.shard_rank = columns.shard_rank;
  view.shard_file_bytes = columns.shard_file_bytes;
  view.shard_index_bytes = columns.shard_index_bytes;
  view.shard_index_xxh3_64 = columns.shard_index_xxh3_64;
  view.shard_content = columns.shard_content;
  view.dtypes = columns.dtypes;
  view.logical_dtype = columns.logical_dtype;
  view.pieces = ViewOf(columns.pieces);
  view.piece_shard = columns.piece_shard;
  view.part_file_bytes = columns.part_file_bytes;
  view.part_xxh3_64 = columns.part_xxh3_64;
  return view;
}

uint64_t ManifestBytesBound(const ManifestColumns& columns) {
  return kFixedBound + columns.attempt.size() + Bound(columns.shard_names) +
         Bound(columns.shard_rank) + Bound(columns.shard_file_bytes) +
         Bound(columns.shard_index_bytes) + Bound(columns.shard_index_xxh3_64) +
         Bound(columns.shard_content) + Bound(columns.dtypes) + Bound(columns.logical_dtype) +
         Bound(columns.pieces) + Bound(columns.piece_shard) + Bound(columns.part_file_bytes) +
         Bound(columns.part_xxh3_64);
}

Result<std::vector<std::byte>> EncodeManifest(const ManifestColumns& columns) {
  const uint64_t bound = ManifestBytesBound(columns);
  if (bound > kMaxManifestBytes) {
    return Status(StatusCode::kLimitExceeded,
                  "the manifest needs up to " + std::to_string(bound) + " bytes, at most " +
                      std::to_string(kMaxManifestBytes) +
                      " are possible: " + std::to_string(columns.pieces.size()) + " pieces in " +
                      std::to_string(columns.shard_names.size()) + " shards");
  }
  std::vector<std::byte> memory;
  VectorAllocator allocator(memory);
  Builder builder((bound + 7) / 8 * 8, &allocator);
  Build(builder, columns);
  KeepBuilt(builder, memory);
  AppendManifestTrailer(memory, VersionOf(columns));
  return memory;
}

}  // namespace dsckpt::format
