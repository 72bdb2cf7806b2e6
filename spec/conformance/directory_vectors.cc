#include <algorithm>

#include "format/checksum.h"
#include "format/index/content.h"
#include "format/index/index.h"
#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

// Sharded checkpoints: directories with a manifest. The invalid ones are manifests and shards that
// meet all of their own rules and do not belong together (rules S of spec/format.md).

namespace dsckpt::conformance {
namespace {

using format::ManifestColumns;
using format::PieceColumns;

constexpr const char* kManifest = "dsckpt.manifest";
constexpr const char* kShard = "pieces.dsckpt";
constexpr const char* kSecond = "pieces-rank1.dsckpt";

uint32_t LogicalOf(const ManifestColumns& m, std::string_view name) {
  for (uint32_t i = 0; i < m.pieces.logical_names.size(); ++i) {
    if (m.pieces.logical_names[i] == name) return i;
  }
  return m.pieces.logical_names.size();
}

/// Position of the piece of a logical tensor that lies in a shard.
uint32_t PieceOf(const ManifestColumns& m, std::string_view name, uint32_t shard) {
  uint32_t i = 0;
  const uint32_t logical = LogicalOf(m, name);
  while (m.pieces.logical.at(i) != logical || m.piece_shard.at(i) != shard) ++i;
  return i;
}

uint64_t& BoundOf(PieceColumns& p, uint32_t piece, uint32_t i) {
  return p.bounds.at((piece == 0 ? 0 : p.bounds_end.at(piece - 1)) + i);
}

void ErasePiece(ManifestColumns& m, uint32_t piece) {
  PieceColumns& p = m.pieces;
  const uint32_t begin = piece == 0 ? 0 : p.bounds_end[piece - 1];
  const uint32_t count = p.bounds_end[piece] - begin;
  p.bounds.erase(p.bounds.begin() + begin, p.bounds.begin() + begin + count);
  for (size_t i = piece; i < p.bounds_end.size(); ++i) p.bounds_end[i] -= count;
  for (auto* const column :
       {&p.tensor, &p.logical, &p.bounds_end, &p.replica_group, &m.piece_shard}) {
    column->erase(column->begin() + piece);
  }
  p.element_offset.erase(p.element_offset.begin() + piece);
  p.form.erase(p.form.begin() + piece);
}

/// The same piece once more, of a replica group of its own.
void DoublePiece(ManifestColumns& m, uint32_t piece) {
  PieceColumns& p = m.pieces;
  const uint32_t begin = piece == 0 ? 0 : p.bounds_end[piece - 1];
  const std::vector<uint64_t> bounds(p.bounds.begin() + begin,
                                     p.bounds.begin() + p.bounds_end[piece]);
  p.bounds.insert(p.bounds.begin() + p.bounds_end[piece], bounds.begin(), bounds.end());
  const auto again = [&](auto& column) {
    const auto value = column[piece];
    column.insert(column.begin() + piece, value);
  };
  again(p.tensor);
  again(p.logical);
  again(p.element_offset);
  again(p.form);
  again(p.bounds_end);
  again(p.replica_group);
  again(m.piece_shard);
  for (size_t i = piece + 1; i < p.bounds_end.size(); ++i) {
    p.bounds_end[i] += static_cast<uint32_t>(bounds.size());
  }
  p.replica_group[piece + 1] += 9;
}

class Collection {
 public:
  explicit Collection(const DirectoryVector& valid) : valid_(valid) {}

  DirectoryVector& Add(std::string name, StatusCode code, std::string contains) {
    vectors_.push_back({std::move(name), valid_.files, code, std::move(contains)});
    return vectors_.back();
  }
  void Manifest(std::string name, std::string contains,
                const std::function<void(ManifestColumns&)>& change) {
    std::string& manifest =
        Add(std::move(name), StatusCode::kMismatch, std::move(contains)).files[kManifest];
    manifest = WithManifest(manifest, change);
  }
  std::vector<DirectoryVector> Take() { return std::move(vectors_); }

 private:
  const DirectoryVector& valid_;
  std::vector<DirectoryVector> vectors_;
};

void AddFiles(Collection& c) {
  using D = DirectoryVector;
  D& missing = c.Add("s1-missing", StatusCode::kIncomplete, "missing");
  missing.files.erase(kSecond);
  D& other = c.Add("s2-another-save", StatusCode::kMismatch, "not the shard");
  other.files[kShard] = WithColumns(
      other.files[kShard], [](format::IndexColumns& columns) { columns.chunk_sums[0].low ^= 1; });
  D& exchanged = c.Add("s2-exchanged", StatusCode::kMismatch, "not the shard");
  std::swap(exchanged.files[kShard], exchanged.files[kSecond]);
  D& longer = c.Add("s2-size", StatusCode::kMismatch, "not the shard");
  longer.files[kManifest] =
      WithManifest(longer.files[kManifest], [](ManifestColumns& m) { m.shard_file_bytes[0] += 8; });
}

void AddPieces(Collection& c) {
  using M = ManifestColumns;
  c.Manifest("s3-bounds-swapped", "'key'", [](M& m) {
    std::swap(BoundOf(m.pieces, PieceOf(m, "key", 0), 0),
              BoundOf(m.pieces, PieceOf(m, "key", 1), 0));
  });
  c.Manifest("s3-name", "'flau'", [](M& m) {
    std::string& names = m.pieces.logical_names.bytes;
    names.replace(names.find("flat"), 4, "flau");
  });
  c.Manifest("s3-tensor-out-of-range", "'value'",
             [](M& m) { m.pieces.tensor[PieceOf(m, "value", 1)] = 17; });
  c.Manifest("s3-other-tensor", "'uneven'",
             [](M& m) { m.pieces.tensor[PieceOf(m, "uneven", 0)] -= 1; });
  c.Manifest("s3-offset", "'value'",
             [](M& m) { m.pieces.element_offset[PieceOf(m, "value", 1)] -= 1; });
  c.Manifest("s3-piece-missing", "'key'", [](M& m) { ErasePiece(m, PieceOf(m, "key", 1)); });
  c.Manifest("s3-piece-more", "'key'", [](M& m) { DoublePiece(m, PieceOf(m, "key", 0)); });
  c.Manifest("s3-other-shard", "'bias'", [](M& m) { m.piece_shard[PieceOf(m, "bias", 0)] = 1; });
  c.Manifest("s3-form", "'norm'", [](M& m) { m.pieces.form[PieceOf(m, "norm", 0)] = 1; });
  c.Manifest("s3-replica-group", "'norm'",
             [](M& m) { m.pieces.replica_group[PieceOf(m, "norm", 1)] = 2; });
  c.Manifest("s3-extent", "'flat'", [](M& m) { BoundOf(m.pieces, PieceOf(m, "flat", 1), 1) -= 1; });
  c.Manifest("s3-of-a-whole-tensor", "'step.rank1'",
             [](M& m) { m.pieces.replica_group[PieceOf(m, "step.rank1", 1)] = 1; });
  // F32 (12) and I32 (7) are as wide.
  c.Manifest("s4-dtype", "'norm'", [](M& m) {
    m.dtypes.push_back({7, 32, 1, 4});
    m.logical_dtype[LogicalOf(m, "norm")] = static_cast<uint8_t>(m.dtypes.size() - 1);
  });
  c.Manifest("s4-shape", "'norm'", [](M& m) {
    m.pieces.logical_dims[m.pieces.logical_dim_end[LogicalOf(m, "norm")] - 1] = 3;
  });
  c.Manifest("s5-step", "step 1000", [](M& m) { m.step = 1001; });
}

// Another first byte of a tensor of one chunk, with its sum.
std::string WithElement(const std::string& shard, std::string_view name) {
  return WithParts(shard, [&](Parts& parts) {
    format::IndexColumns columns = ColumnsOf(parts).value();
    const auto& names = columns.tensor_names;
    uint32_t tensor = 0;
    while (names[tensor] != name) ++tensor;
    const uint64_t begin = columns.tensors.offset[tensor];
    parts.body[begin] ^= 1;
    const std::string_view raw =
        std::string_view(parts.body).substr(begin, columns.tensors.raw_bytes[tensor]);
    columns.chunk_sums[columns.tensors.chunk_end[tensor] - 1] =
        format::HashChunk(std::as_bytes(std::span(raw)));
    const std::vector<std::byte> index = format::EncodeIndex(columns).value();
    parts.index.assign(reinterpret_cast<const char*>(index.data()), index.size());
  });
}

// The shard with the digest of its content, as 1.1 writes it.
std::string WithContent(const std::string& shard) {
  return WithColumns(shard, [](format::IndexColumns& columns) {
    columns.annotations.content = format::ContentDigest(ViewOf(columns));
  });
}

Result<DirectoryVector> ShardedContent(const std::string& pieces, const std::string& pieces_rank1) {
  const std::string first = WithContent(pieces), second = WithContent(pieces_rank1);
  DSCKPT_ASSIGN_OR_RETURN(const std::string manifest, ManifestVector(first, second));
  return DirectoryVector{"sharded-content",
                         {{kManifest, manifest}, {kShard, first}, {kSecond, second}}};
}

}  // namespace

Result<std::vector<DirectoryVector>> ValidDirectories(const std::string& pieces,
                                                      const std::string& pieces_rank1,
                                                      const std::string& manifest,
                                                      const std::string& nothing) {
  DSCKPT_ASSIGN_OR_RETURN(const std::string of_nothing, ManifestOfOne(nothing, "nothing.dsckpt"));
  const DirectoryVector sharded = {
      "sharded", {{kManifest, manifest}, {kShard, pieces}, {kSecond, pieces_rank1}}};
  DSCKPT_ASSIGN_OR_RETURN(const DirectoryVector content, ShardedContent(pieces, pieces_rank1));
  return std::vector<DirectoryVector>{
      sharded,
      ValidParts(sharded),
      content,
      {"sharded-nothing", {{kManifest, of_nothing}, {"nothing.dsckpt", nothing}}},
      {"sharded-unaligned",
       {{kManifest, WithUnalignedManifestVectors(of_nothing)}, {"nothing.dsckpt", nothing}}}};
}

Result<std::vector<DirectoryVector>> InvalidDirectories(const DirectoryVector& valid) {
  Collection collection(valid);
  AddFiles(collection);
  AddPieces(collection);
  // Of rank 0 by its manifest.
  const std::string own = WithColumns(valid.files.at(kShard), [](format::IndexColumns& columns) {
    columns.rank_own.Append("own");
    columns.rank = 3;
  });
  const auto of_one = [](const std::string& shard) -> Result<std::string> {
    DSCKPT_ASSIGN_OR_RETURN(const std::string manifest, ManifestOfOne(shard, kShard));
    return WithManifest(manifest, [](ManifestColumns& m) { m.step = 1000; });
  };
  DSCKPT_ASSIGN_OR_RETURN(const std::string manifest, of_one(own));
  DirectoryVector& rank = collection.Add("s6-rank", StatusCode::kMismatch, "rank 3");
  rank.files = {{kManifest, manifest}, {kShard, own}};
  DSCKPT_ASSIGN_OR_RETURN(DirectoryVector content,
                          ShardedContent(valid.files.at(kShard), valid.files.at(kSecond)));
  content.files[kManifest] = WithManifest(content.files[kManifest],
                                          [](ManifestColumns& m) { m.shard_content[1].high ^= 1; });
  collection.Add("s7-content", StatusCode::kMismatch, "content").files = content.files;
  // Nothing is wrong with these but what they hold together.
  DSCKPT_ASSIGN_OR_RETURN(const std::string half, of_one(valid.files.at(kShard)));
  DirectoryVector& gap = collection.Add("v-gap", StatusCode::kOk, "");
  gap.files = {{kManifest, half}, {kShard, valid.files.at(kShard)}};
  gap.tensor = "key";
  gap.read_code = StatusCode::kIncomplete;
  const std::string changed = WithElement(valid.files.at(kSecond), "norm");
  DSCKPT_ASSIGN_OR_RETURN(const std::string differing,
                          ManifestVector(valid.files.at(kShard), changed));
  DirectoryVector& copies = collection.Add("v-copies", StatusCode::kOk, "");
  copies.files[kManifest] = differing;
  copies.files[kSecond] = changed;
  copies.tensor = "norm";
  copies.read_code = StatusCode::kMismatch;
  std::vector<DirectoryVector> vectors = collection.Take();
  for (DirectoryVector& vector : InvalidParts(valid)) vectors.push_back(std::move(vector));
  return vectors;
}

}  // namespace dsckpt::conformance
