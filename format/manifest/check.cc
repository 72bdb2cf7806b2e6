// Checks a manifest's columns: shards, logical tensors and pieces agree with each other.

#include "format/columns/check.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "dsckpt/limits.h"
#include "format/file_names.h"
#include "format/manifest/manifest.h"
#include "format/manifest/trailer.h"
#include "format/names.h"
#include "format/pieces/check.h"

namespace dsckpt::format {
namespace {

Status CheckColumnLengths(const ManifestView& manifest) {
  const size_t shards = manifest.shard_names.size();
  const ColumnLength columns[] = {
      {"shards.rank", shards, manifest.shard_rank.size()},
      {"shards.file_bytes", shards, manifest.shard_file_bytes.size()},
      {"shards.index_bytes", shards, manifest.shard_index_bytes.size()},
      {"shards.index_xxh3_64", shards, manifest.shard_index_xxh3_64.size()},
      {"shards.content", manifest.shard_content.empty() ? 0 : shards,
       manifest.shard_content.size()},
      {"parts.xxh3_64", manifest.part_file_bytes.size(), manifest.part_xxh3_64.size()},
      {"logical_dtype", manifest.pieces.logical_names.size(), manifest.logical_dtype.size()},
      {"piece_shard", manifest.pieces.size(), manifest.piece_shard.size()},
  };
  return CheckLengths(kManifestPart, columns);
}

Status CheckShard(const ManifestView& manifest, uint32_t i) {
  const std::string where =
      "shard '" + Printable(manifest.shard_names[i].substr(0, kMaxFileName)) + "'";
  if (const char* const why = WhyNoShardName(manifest.shard_names[i]); why != nullptr) {
    return ColumnError(kManifestPart, where, "name", "a bare file name that a shard may have",
                       std::string("one that ") + why);
  }
  if (manifest.shard_rank[i] >= manifest.ranks) {
    return ColumnError(kManifestPart, where, "rank", "below " + std::to_string(manifest.ranks),
                       std::to_string(manifest.shard_rank[i]));
  }
  if (manifest.shard_file_bytes[i] > kMaxFileBytes) {
    return ColumnError(kManifestPart, where, "file_bytes",
                       "at most " + std::to_string(kMaxFileBytes),
                       std::to_string(manifest.shard_file_bytes[i]));
  }
  if (manifest.shard_index_bytes[i] >= manifest.shard_file_bytes[i]) {
    return ColumnError(kManifestPart, where, "index_bytes",
                       "below the file's " + std::to_string(manifest.shard_file_bytes[i]),
                       std::to_string(manifest.shard_index_bytes[i]));
  }
  return {};
}

Status CheckShards(const ManifestView& manifest) {
  const auto& names = manifest.shard_names;
  for (uint32_t i = 0; i < names.size(); ++i) {
    DSCKPT_RETURN_IF_ERROR(CheckShard(manifest, i));
    if (i > 0 && std::tie(manifest.shard_rank[i - 1], names[i - 1]) >=
                     std::tie(manifest.shard_rank[i], names[i])) {
      return ColumnError(kManifestPart, "shard '" + Printable(names[i]) + "'", "order",
                         "above the shard before it by rank, name", "not above it");
    }
  }
  // Two ranks cannot have written one file.
  const auto twice = FindSameFile(names);
  if (!twice) return {};
  return ColumnError(kManifestPart, "shard '" + Printable(*twice) + "'", "name",
                     "unique, whatever the case of letters", "twice");
}

Status CheckLogicalDTypes(const ManifestView& manifest) {
  for (uint32_t i = 0; i < manifest.logical_dtype.size(); ++i) {
    if (manifest.logical_dtype[i] >= manifest.dtypes.size()) {
      return ColumnError(kManifestPart,
                         ItemTitle("logical tensor", manifest.pieces.logical_names, i), "dtype",
                         "below " + std::to_string(manifest.dtypes.size()),
                         std::to_string(manifest.logical_dtype[i]));
    }
  }
  return {};
}

// Each logical tensor has its pieces, one logical tensor after another.
Status CheckEveryLogicalTensor(const ManifestView& manifest) {
  const PieceView& pieces = manifest.pieces;
  uint32_t next = 0;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && pieces.logical[i] == pieces.logical[i - 1]) continue;
    if (pieces.logical[i] != next) break;
    ++next;
  }
  if (next == pieces.logical_names.size()) return {};
  return ColumnError(kManifestPart, ItemTitle("logical tensor", pieces.logical_names, next),
                     "pieces", "at least one", "none");
}

Status CheckPieces(const ManifestView& manifest) {
  const PieceView& pieces = manifest.pieces;
  const auto place = [&](uint32_t i) {
    return std::tuple(pieces.logical[i], manifest.piece_shard[i], pieces.tensor[i],
                      pieces.element_offset[i]);
  };
  // What the shard holds is not known here: as many elements as can be.
  constexpr uint64_t kStored = std::numeric_limits<int64_t>::max();
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (manifest.piece_shard[i] >= manifest.shard_count()) {
      return ColumnError(kManifestPart, "piece " + std::to_string(i), "shard",
                         "below " + std::to_string(manifest.shard_count()),
                         std::to_string(manifest.piece_shard[i]));
    }
    if (i > 0 && (place(i - 1) > place(i) ||
                  (place(i - 1) == place(i) && CompareExtents(pieces, i - 1, i) >= 0))) {
      return PieceOrderError(kManifestPart, i,
                             "logical, shard, tensor, element_offset, form, bounds, group");
    }
    const DTypeRecord& dtype = manifest.dtypes[manifest.logical_dtype[pieces.logical[i]]];
    DSCKPT_RETURN_IF_ERROR(CheckPiece(kManifestPart, pieces, i, dtype, kStored));
  }
  return CheckEveryLogicalTensor(manifest);
}

// What the parts hold the manifest itself does not.
Status CheckParts(const ManifestView& manifest) {
  const size_t parts = manifest.part_count();
  if (parts == 0) return {};
  if (parts > kMaxManifestParts) {
    return ColumnError(kManifestPart, "parts", "entries",
                       "at most " + std::to_string(kMaxManifestParts), std::to_string(parts));
  }
  if (manifest.pieces.size() > 0 || manifest.pieces.logical_names.size() > 0) {
    return ColumnError(kManifestPart, "pieces", "entries", "none beside parts",
                       std::to_string(manifest.pieces.size()) + " of " +
                           std::to_string(manifest.pieces.logical_names.size()) +
                           " logical tensors");
  }
  for (size_t i = 0; i < parts; ++i) {
    if (const uint64_t bytes = manifest.part_file_bytes[i];
        bytes < kManifestTrailerBytes || bytes > kMaxManifestBytes) {
      return ColumnError(
          kManifestPart, "part " + std::to_string(i), "file_bytes",
          std::to_string(kManifestTrailerBytes) + " to " + std::to_string(kMaxManifestBytes),
          std::to_string(bytes));
    }
  }
  return {};
}

}  // namespace

Status CheckManifest(const ManifestView& manifest) {
  if (manifest.attempt.size() > kMaxFileName || !IsValidUtf8(manifest.attempt) ||
      manifest.attempt.find('/') != std::string_view::npos ||
      manifest.attempt.find('\0') != std::string_view::npos) {
    return ColumnError(kManifestPart, "attempt", "id", "UTF-8 that can be part of a file name",
                       "another");
  }
  // Lengths, then names and what divides columns, then what uses them.
  DSCKPT_RETURN_IF_ERROR(CheckColumnLengths(manifest));
  DSCKPT_RETURN_IF_ERROR(CheckParts(manifest));
  DSCKPT_RETURN_IF_ERROR(CheckShards(manifest));
  DSCKPT_RETURN_IF_ERROR(CheckPieceColumns(kManifestPart, manifest.pieces));
  DSCKPT_RETURN_IF_ERROR(CheckDTypes(kManifestPart, manifest.dtypes));
  DSCKPT_RETURN_IF_ERROR(CheckLogicalDTypes(manifest));
  return CheckPieces(manifest);
}

}  // namespace dsckpt::format
