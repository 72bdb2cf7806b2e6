#include "format/manifest/parts.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "format/columns/check.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

// What entry i adds to a column of running totals.
uint64_t Entries(const std::vector<uint32_t>& ends, uint32_t i) {
  return ends[i] - (i == 0 ? 0 : ends[i - 1]);
}

// As Bound() counts, so that the sums over a range are exact.
uint64_t LogicalBytes(const ManifestColumns& whole, uint32_t logical) {
  const PieceColumns& pieces = whole.pieces;
  return Entries(pieces.logical_names.ends, logical) + sizeof(pieces.logical_names.ends[0]) +
         Entries(pieces.logical_dim_end, logical) * sizeof(pieces.logical_dims[0]) +
         sizeof(pieces.logical_dim_end[0]) + sizeof(whole.logical_dtype[0]);
}

uint64_t PieceBytes(const ManifestColumns& whole, uint32_t piece) {
  const PieceColumns& pieces = whole.pieces;
  return sizeof(pieces.tensor[0]) + sizeof(pieces.logical[0]) + sizeof(pieces.element_offset[0]) +
         sizeof(pieces.form[0]) + sizeof(pieces.bounds_end[0]) +
         Entries(pieces.bounds_end, piece) * sizeof(pieces.bounds[0]) +
         sizeof(pieces.replica_group[0]) + sizeof(whole.piece_shard[0]);
}

Status TooLarge(const std::string& what, uint64_t bytes, uint64_t max_bytes) {
  return Status(StatusCode::kLimitExceeded, what + " needs up to " + std::to_string(bytes) +
                                                " bytes of the manifest, a part of it has at "
                                                "most " +
                                                std::to_string(max_bytes) +
                                                ": split the tensor among fewer ranks, or split "
                                                "the checkpoint");
}

template <typename T>
std::vector<T> Slice(const std::vector<T>& column, size_t first, size_t last) {
  return {column.begin() + static_cast<std::ptrdiff_t>(first),
          column.begin() + static_cast<std::ptrdiff_t>(last)};
}

// Entries [first, last) of running totals, which then begin at 0.
std::vector<uint32_t> SliceOfEnds(const std::vector<uint32_t>& ends, uint32_t first,
                                  uint32_t last) {
  std::vector<uint32_t> slice = Slice(ends, first, last);
  const uint32_t base = first == 0 ? 0 : ends[first - 1];
  for (uint32_t& end : slice) end -= base;
  return slice;
}

template <typename T>
void Append(std::vector<T>& column, std::span<const T> more) {
  column.insert(column.end(), more.begin(), more.end());
}

void AppendShifted(std::vector<uint32_t>& column, std::span<const uint32_t> more, uint64_t base) {
  column.reserve(column.size() + more.size());
  for (const uint32_t value : more) column.push_back(value + static_cast<uint32_t>(base));
}

template <typename T>
std::vector<T> OwnColumn(std::span<const T> column) {
  return {column.begin(), column.end()};
}

std::string PartTitle(uint32_t number) { return "part " + std::to_string(number); }

// The first thing that a part says of the checkpoint otherwise than its manifest; null: nothing.
const char* FirstDifference(const ManifestView& part, const ManifestView& whole) {
  const auto equal = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  if (part.attempt != whole.attempt) return "attempt";
  if (part.step != whole.step) return "step";
  if (part.ranks != whole.ranks) return "ranks";
  if (part.serial != whole.serial) return "serial";
  if (part.parent != whole.parent) return "parent";
  if (!equal(part.shard_names, whole.shard_names)) return "shards.names";
  if (!equal(part.shard_rank, whole.shard_rank)) return "shards.rank";
  if (!equal(part.shard_file_bytes, whole.shard_file_bytes)) return "shards.file_bytes";
  if (!equal(part.shard_index_bytes, whole.shard_index_bytes)) return "shards.index_bytes";
  if (!equal(part.shard_index_xxh3_64, whole.shard_index_xxh3_64)) return "shards.index_xxh3_64";
  if (!equal(part.shard_content, whole.shard_content)) return "shards.content";
  if (!equal(part.dtypes, whole.dtypes)) return "dtypes";
  return nullptr;
}

Status CheckBelongs(const ManifestView& part, uint32_t number, const ManifestColumns& whole) {
  if (part.part_count() > 0) {
    return ColumnError(kManifestPart, PartTitle(number), "parts", "none in a part",
                       std::to_string(part.part_count()));
  }
  if (const char* const field = FirstDifference(part, ViewOf(whole)); field != nullptr) {
    return Status(StatusCode::kMismatch, "manifest: " + PartTitle(number) + ": " + field +
                                             ": expected what the manifest says, found another: "
                                             "the part belongs to another save; use another "
                                             "checkpoint");
  }
  const NameColumns& names = whole.pieces.logical_names;
  const NameView& more = part.pieces.logical_names;
  if (names.size() == 0 || more.size() == 0 || names[names.size() - 1] < more[0]) return {};
  return ColumnError(
      kManifestPart, PartTitle(number), "logical names", "above those of the parts before it",
      "'" + Printable(more[0]) + "' behind '" + Printable(names[names.size() - 1]) + "'");
}

// Everything that has a 32-bit position or total.
Status CheckRoom(const PieceView& more, const PieceColumns& pieces) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  const std::pair<const char*, uint64_t> totals[] = {
      {"pieces", uint64_t{pieces.size()} + more.size()},
      {"bounds of pieces", pieces.bounds.size() + more.bounds.size()},
      {"logical tensors", uint64_t{pieces.logical_names.size()} + more.logical_names.size()},
      {"dims of logical tensors", pieces.logical_dims.size() + more.logical_dims.size()},
      {"bytes of logical names",
       pieces.logical_names.bytes.size() + more.logical_names.bytes.size()}};
  for (const auto& [what, total] : totals) {
    if (total < kMax) continue;
    return Status(StatusCode::kLimitExceeded,
                  "manifest: its parts hold together " + std::to_string(total) + " " + what +
                      ", this reader takes fewer than " + std::to_string(kMax));
  }
  return {};
}

}  // namespace

Result<std::vector<LogicalRange>> DivideManifest(const ManifestColumns& whole, uint64_t max_bytes) {
  std::vector<LogicalRange> ranges;
  if (ManifestBytesBound(whole) <= max_bytes) return ranges;
  const PieceColumns& pieces = whole.pieces;
  const uint64_t fixed = ManifestBytesBound(PartOf(whole, {}));
  uint64_t bytes = fixed;
  ranges.push_back({});
  for (uint32_t logical = 0, piece = 0; logical < pieces.logical_names.size(); ++logical) {
    uint64_t own = LogicalBytes(whole, logical);
    for (; piece < pieces.size() && pieces.logical[piece] == logical; ++piece) {
      own += PieceBytes(whole, piece);
    }
    if (fixed + own > max_bytes) {
      return TooLarge("logical tensor '" + Printable(pieces.logical_names[logical]) + "'",
                      fixed + own, max_bytes);
    }
    if (bytes + own > max_bytes) {
      ranges.push_back({logical, logical});
      bytes = fixed;
    }
    bytes += own;
    ranges.back().last = logical + 1;
  }
  if (ranges.size() > kMaxManifestParts) {
    return Status(StatusCode::kLimitExceeded,
                  "the manifest needs " + std::to_string(ranges.size()) + " parts, at most " +
                      std::to_string(kMaxManifestParts) + " are possible: split the checkpoint");
  }
  return ranges;
}

ManifestColumns PartOf(const ManifestColumns& whole, LogicalRange range) {
  const PieceColumns& from = whole.pieces;
  const auto [first, last] = range;
  const auto bound = [&](uint32_t logical) {
    const auto at = std::lower_bound(from.logical.begin(), from.logical.end(), logical);
    return static_cast<uint32_t>(at - from.logical.begin());
  };
  const auto total = [](const std::vector<uint32_t>& ends, uint32_t i) {
    return i == 0 ? 0 : ends[i - 1];
  };
  const uint32_t begin = bound(first), end = bound(last);
  ManifestColumns out = WithoutPieces(ViewOf(whole));
  out.logical_dtype = Slice(whole.logical_dtype, first, last);
  out.piece_shard = Slice(whole.piece_shard, begin, end);
  PieceColumns& to = out.pieces;
  const uint32_t text = total(from.logical_names.ends, first);
  to.logical_names.bytes =
      from.logical_names.bytes.substr(text, total(from.logical_names.ends, last) - text);
  to.logical_names.ends = SliceOfEnds(from.logical_names.ends, first, last);
  to.logical_dims = Slice(from.logical_dims, total(from.logical_dim_end, first),
                          total(from.logical_dim_end, last));
  to.logical_dim_end = SliceOfEnds(from.logical_dim_end, first, last);
  to.tensor = Slice(from.tensor, begin, end);
  to.logical = Slice(from.logical, begin, end);
  for (uint32_t& logical : to.logical) logical -= first;
  to.element_offset = Slice(from.element_offset, begin, end);
  to.form = Slice(from.form, begin, end);
  to.bounds = Slice(from.bounds, total(from.bounds_end, begin), total(from.bounds_end, end));
  to.bounds_end = SliceOfEnds(from.bounds_end, begin, end);
  to.replica_group = Slice(from.replica_group, begin, end);
  return out;
}

ManifestColumns WithoutPieces(const ManifestView& manifest) {
  ManifestColumns out;
  out.attempt = manifest.attempt;
  out.step = manifest.step;
  out.ranks = manifest.ranks;
  out.serial = manifest.serial;
  out.parent = manifest.parent;
  out.shard_names.assign(manifest.shard_names.begin(), manifest.shard_names.end());
  out.shard_rank = OwnColumn(manifest.shard_rank);
  out.shard_file_bytes = OwnColumn(manifest.shard_file_bytes);
  out.shard_index_bytes = OwnColumn(manifest.shard_index_bytes);
  out.shard_index_xxh3_64 = OwnColumn(manifest.shard_index_xxh3_64);
  out.shard_content = OwnColumn(manifest.shard_content);
  out.dtypes = OwnColumn(manifest.dtypes);
  out.part_file_bytes = OwnColumn(manifest.part_file_bytes);
  out.part_xxh3_64 = OwnColumn(manifest.part_xxh3_64);
  return out;
}

Status AppendPart(const ManifestView& part, uint32_t number, ManifestColumns& whole) {
  DSCKPT_RETURN_IF_ERROR(CheckBelongs(part, number, whole));
  const PieceView& from = part.pieces;
  PieceColumns& to = whole.pieces;
  DSCKPT_RETURN_IF_ERROR(CheckRoom(from, to));
  AppendShifted(to.logical, from.logical, to.logical_names.size());
  AppendShifted(to.logical_names.ends, from.logical_names.ends, to.logical_names.bytes.size());
  to.logical_names.bytes.append(from.logical_names.bytes.data(), from.logical_names.bytes.size());
  AppendShifted(to.logical_dim_end, from.logical_dim_end, to.logical_dims.size());
  Append(to.logical_dims, from.logical_dims);
  AppendShifted(to.bounds_end, from.bounds_end, to.bounds.size());
  Append(to.bounds, from.bounds);
  Append(to.tensor, from.tensor);
  Append(to.element_offset, from.element_offset);
  Append(to.form, from.form);
  Append(to.replica_group, from.replica_group);
  Append(whole.logical_dtype, part.logical_dtype);
  Append(whole.piece_shard, part.piece_shard);
  return {};
}

}  // namespace dsckpt::format
