// Combines the manifests of many shards into the manifest of a checkpoint.

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "dsckpt/limits.h"
#include "format/columns/name_table.h"
#include "format/manifest/dtypes.h"
#include "format/manifest/manifest.h"
#include "format/names.h"
#include "format/pieces/fold.h"

namespace dsckpt::format {
namespace {

// An entry of a column of one part.
struct Entry {
  uint32_t part = 0;
  uint32_t position = 0;
};

Status TooMany(const char* what) {
  return Status(StatusCode::kLimitExceeded,
                std::string("the shards' ") + what +
                    " together exceed what a manifest can hold: split the checkpoint");
}

// Stable: entries whose keys are equal keep their order.
template <typename KeyOf>
std::vector<Entry> CountingSort(const std::vector<Entry>& entries, uint32_t keys, KeyOf key) {
  std::vector<uint32_t> begin(size_t{keys} + 1);
  for (const Entry& entry : entries) ++begin[size_t{key(entry)} + 1];
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<Entry> sorted(entries.size());
  for (const Entry& entry : entries) sorted[begin[key(entry)]++] = entry;
  return sorted;
}

class Merger {
 public:
  explicit Merger(std::span<const ManifestView> parts) : parts_(parts) {}

  Result<ManifestColumns> Merge() {
    DSCKPT_RETURN_IF_ERROR(Count());
    DSCKPT_RETURN_IF_ERROR(OrderShards());
    DSCKPT_RETURN_IF_ERROR(FoldLogicalTensors());
    DSCKPT_RETURN_IF_ERROR(OrderLogicalTensors());
    AppendPieces();
    return std::move(out_);
  }

 private:
  // Everything that gets a 32-bit position, before anything is laid out.
  Status Count() {
    constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
    uint64_t shards = 0, logical = 0;
    for (const ManifestView& part : parts_) {
      shard_base_.push_back(static_cast<uint32_t>(shards));
      logical_base_.push_back(static_cast<uint32_t>(logical));
      out_.ranks = std::max(out_.ranks, part.ranks);
      shards += part.shard_count();
      logical += part.pieces.logical_names.size();
      pieces_ += part.pieces.size();
      bounds_ += part.pieces.bounds.size();
      if (shards > kMaxItems) return TooMany("names");
      if (logical > kMaxItems) return TooMany("logical tensors");
      if (pieces_ > kMaxItems || bounds_ > kMax) return TooMany("pieces");
    }
    shard_.resize(shards);
    logical_.resize(logical);
    return {};
  }

  std::string_view ShardName(const Entry& e) const {
    return parts_[e.part].shard_names[e.position];
  }

  Status OrderShards() {
    std::vector<Entry> order;
    order.reserve(shard_.size());
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      for (uint32_t i = 0; i < parts_[p].shard_count(); ++i) order.push_back({p, i});
    }
    const auto by_name = [this](const Entry& a, const Entry& b) {
      return ShardName(a) < ShardName(b);
    };
    std::sort(order.begin(), order.end(), by_name);
    for (size_t i = 1; i < order.size(); ++i) {
      if (ShardName(order[i - 1]) != ShardName(order[i])) continue;
      return Status(StatusCode::kAlreadyExists,
                    "two shards are named '" + Printable(ShardName(order[i])) + "', of ranks " +
                        std::to_string(Rank(order[i - 1])) + " and " +
                        std::to_string(Rank(order[i])));
    }
    std::stable_sort(order.begin(), order.end(),
                     [this](const Entry& a, const Entry& b) { return Rank(a) < Rank(b); });
    const bool content = std::all_of(parts_.begin(), parts_.end(), [](const ManifestView& part) {
      return part.shard_content.size() == part.shard_count();
    });
    for (uint32_t i = 0; i < order.size(); ++i) {
      const auto [p, position] = order[i];
      const ManifestView& part = parts_[p];
      shard_[shard_base_[p] + position] = i;
      out_.shard_names.emplace_back(part.shard_names[position]);
      out_.shard_rank.push_back(part.shard_rank[position]);
      out_.shard_file_bytes.push_back(part.shard_file_bytes[position]);
      out_.shard_index_bytes.push_back(part.shard_index_bytes[position]);
      out_.shard_index_xxh3_64.push_back(part.shard_index_xxh3_64[position]);
      if (content) out_.shard_content.push_back(part.shard_content[position]);
    }
    return {};
  }

  uint32_t Rank(const Entry& shard) const { return parts_[shard.part].shard_rank[shard.position]; }
  const DTypeRecord& DTypeOf(const Entry& logical) const {
    const ManifestView& part = parts_[logical.part];
    return part.dtypes[part.logical_dtype[logical.position]];
  }
  std::span<const int64_t> ShapeOf(const Entry& logical) const {
    return parts_[logical.part].pieces.logical_shape(logical.position);
  }
  // The first shard of its part that holds something of the logical tensor.
  std::string ShardOf(const Entry& logical) const {
    const ManifestView& part = parts_[logical.part];
    const uint32_t first = part.PiecesOf(logical.position).first;
    return "shard '" + Printable(part.shard_names[part.piece_shard[first]]) + "'";
  }

  Status CheckSame(std::string_view name, const Entry& a, const Entry& b) const {
    const auto conflict = [&](const char* what, const std::string& x, const std::string& y) {
      return Status(StatusCode::kMismatch, "logical tensor '" + Printable(name) + "' has " + what +
                                               " " + x + " in " + ShardOf(a) + " and " + y +
                                               " in " + ShardOf(b));
    };
    if (DTypeOf(a) != DTypeOf(b)) {
      return conflict("dtype", DTypeText(DType{DTypeOf(a).code}),
                      DTypeText(DType{DTypeOf(b).code}));
    }
    const auto x = ShapeOf(a);
    const auto y = ShapeOf(b);
    if (std::equal(x.begin(), x.end(), y.begin(), y.end())) return {};
    return conflict("shape", ShapeText(x), ShapeText(y));
  }

  // Numbers the distinct logical tensors in the order they are met.
  Status FoldLogicalTensors() {
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      const NameView& names = parts_[p].pieces.logical_names;
      for (uint32_t i = 0; i < names.size(); ++i) {
        if (!table_.HasRoom(names[i])) return TooMany("logical names");
        const uint32_t number = table_.Add(names[i]);
        logical_[logical_base_[p] + i] = number;
        if (number == first_.size()) {
          first_.push_back({p, i});
        } else {
          DSCKPT_RETURN_IF_ERROR(CheckSame(names[i], first_[number], {p, i}));
        }
      }
    }
    return {};
  }

  // Renumbers them by name.
  Status OrderLogicalTensors() {
    const std::vector<uint32_t> order = SortedByName(table_.names());
    std::vector<uint32_t> rank(order.size());
    std::vector<DTypeRecord> dtypes;
    dtypes.reserve(order.size());
    uint64_t dims = 0;
    for (const Entry& logical : first_) dims += ShapeOf(logical).size();
    if (dims > std::numeric_limits<uint32_t>::max()) return TooMany("logical shapes");
    PieceColumns& out = out_.pieces;
    out.logical_names.bytes.reserve(table_.names().bytes.size());
    out.logical_names.ends.reserve(order.size());
    out.logical_dims.reserve(dims);
    out.logical_dim_end.reserve(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = i;
      const Entry& first = first_[order[i]];
      const auto shape = ShapeOf(first);
      out.logical_names.Append(table_.names()[order[i]]);
      out.logical_dims.insert(out.logical_dims.end(), shape.begin(), shape.end());
      out.logical_dim_end.push_back(static_cast<uint32_t>(out.logical_dims.size()));
      dtypes.push_back(DTypeOf(first));
    }
    for (uint32_t& logical : logical_) logical = rank[logical];
    return SetLogicalDTypes(dtypes, out_);
  }

  uint32_t ShardOfPiece(const Entry& piece) const {
    return shard_[shard_base_[piece.part] + parts_[piece.part].piece_shard[piece.position]];
  }
  uint32_t LogicalOfPiece(const Entry& piece) const {
    return logical_[logical_base_[piece.part] + parts_[piece.part].pieces.logical[piece.position]];
  }

  // By logical tensor, then shard. Within both the order of the part stands: no other part has
  // pieces of its shards.
  void AppendPieces() {
    std::vector<Entry> order;
    order.reserve(pieces_);
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      for (uint32_t i = 0; i < parts_[p].pieces.size(); ++i) order.push_back({p, i});
    }
    order = CountingSort(order, static_cast<uint32_t>(shard_.size()),
                         [this](const Entry& piece) { return ShardOfPiece(piece); });
    order = CountingSort(order, table_.names().size(),
                         [this](const Entry& piece) { return LogicalOfPiece(piece); });
    PieceColumns& out = out_.pieces;
    for (auto* column :
         {&out.tensor, &out.logical, &out.bounds_end, &out.replica_group, &out_.piece_shard}) {
      column->reserve(pieces_);
    }
    out.element_offset.reserve(pieces_);
    out.form.reserve(pieces_);
    out.bounds.reserve(bounds_);
    for (const Entry& piece : order) {
      const PieceView& from = parts_[piece.part].pieces;
      const auto bounds = from.bounds_of(piece.position);
      out.tensor.push_back(from.tensor[piece.position]);
      out.logical.push_back(LogicalOfPiece(piece));
      out.element_offset.push_back(from.element_offset[piece.position]);
      out.form.push_back(from.form[piece.position]);
      out.bounds.insert(out.bounds.end(), bounds.begin(), bounds.end());
      out.bounds_end.push_back(static_cast<uint32_t>(out.bounds.size()));
      out.replica_group.push_back(from.replica_group[piece.position]);
      out_.piece_shard.push_back(ShardOfPiece(piece));
    }
  }

  const std::span<const ManifestView> parts_;
  ManifestColumns out_;
  uint64_t pieces_ = 0, bounds_ = 0;
  // Where each part's entries begin in the two columns below.
  std::vector<uint32_t> shard_base_, logical_base_;
  std::vector<uint32_t> shard_, logical_;  // Positions in out_.
  NameTable table_;
  std::vector<Entry> first_;  // By number in table_: who named it first.
};

}  // namespace

Result<ManifestColumns> MergeManifests(std::span<const ManifestView> parts) {
  return Merger(parts).Merge();
}

}  // namespace dsckpt::format
