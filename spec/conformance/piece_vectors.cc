#include <cstring>
#include <memory>

#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

// Shards that hold parts of logical tensors, the manifest of two of them, and what breaks each rule
// of spec/format.md for pieces and what belongs to a rank (L) and manifests (M).

namespace dsckpt::conformance {
namespace {

using format::IndexColumns;
using format::ManifestColumns;
using format::PieceColumns;
using Bytes = std::vector<std::byte>;

constexpr StatusCode kCorrupt = StatusCode::kCorrupt;

// Bytes that count on, from `first`: parts of one logical tensor differ.
void AddTensor(Description& d, const Key& name, DType dtype, std::vector<int64_t> shape,
               uint8_t first, const std::vector<OwnedPiece>& pieces) {
  const Result<uint64_t> size = TensorBytes(*FindDType(dtype), shape);
  if (!size.ok()) return d.Fail(size.status());
  const auto owner = std::make_shared<Bytes>(*size);
  for (std::byte& byte : *owner) byte = std::byte{first++};
  std::vector<Piece> views;
  for (const OwnedPiece& piece : pieces) views.push_back(piece.view());
  d.Tensor(
      name,
      {.data = owner->data(), .dtype = dtype, .shape = shape, .owner = owner, .pieces = views});
}

OwnedPiece Box(std::string name, std::vector<int64_t> shape, std::vector<Range> box,
               uint64_t offset = 0, uint32_t group = 0) {
  return {.logical_name = std::move(name),
          .logical_shape = std::move(shape),
          .box = std::move(box),
          .element_offset = offset,
          .replica_group = group};
}

OwnedPiece Flat(std::string name, std::vector<int64_t> shape, Range range, uint64_t offset = 0) {
  return {.logical_name = std::move(name),
          .logical_shape = std::move(shape),
          .form = Piece::Form::kFlat,
          .flat = range,
          .element_offset = offset};
}

// Rank 0 or 1 of two: a fused projection, a ZeRO partition, a packed dtype, an uneven split, a
// replica, and what every rank has for itself.
void DescribeRank(Description& d, int64_t rank) {
  const auto half = [rank](int64_t size) { return Range{rank * size, (rank + 1) * size}; };
  const auto seed = [rank](int first) { return static_cast<uint8_t>(first + 64 * rank); };
  d.Attribute("step", int64_t{1000});
  AddTensor(d, "kv", kBF16, {4, 2}, seed(0),
            {Box("key", {4, 2}, {half(2), {0, 2}}), Box("value", {4, 2}, {half(2), {0, 2}}, 4)});
  AddTensor(d, "norm", kF32, {2}, 7, {Box("norm", {2}, {{0, 2}}, 0, 1)});
  AddTensor(d, "packed", DType::kF4, {2, 4}, seed(16), {Box("q", {2, 8}, {{0, 2}, half(4)})});
  AddTensor(d, "step.rank" + std::to_string(rank), kI64, {}, seed(24), {});
  AddTensor(d, "uneven", kF32, {rank == 0 ? 1 : 0, 2}, 32,
            {Box("uneven", {1, 2}, {{rank, 1}, {0, 2}})});
  std::vector<OwnedPiece> partition = {Flat("flat", {12}, half(6))};
  if (rank == 0) {
    partition.push_back(Flat("bias", {2}, {0, 2}));
    partition.push_back(Flat("weight", {2, 5}, {0, 4}, 2));
  } else {
    partition.push_back(Flat("weight", {2, 5}, {4, 10}));
  }
  AddTensor(d, "zero", kF32, {6}, seed(40), partition);
}

// What ranks share, and what is rank 1's own: a subtree with a tensor, an object and a value, a
// tied name, a list's element, a value. "rng!" stands between "rng" and what lies below it.
void DescribeRankOwn(Description& d) {
  const auto own = [&d](const std::function<void()>& describe) {
    const auto before = d.SetRankOwn(1);
    describe();
    (void)d.SetRankOwn(before);
  };
  AddTensor(d, "weight", kF32, {2, 2}, 1, {});
  own([&] {
    d.Begin(NodeKind::kDict, "rng");
    AddTensor(d, "torch", DType::kU8, {5}, 32, {});
    static const std::byte kState[] = {std::byte{1}, std::byte{2}};
    d.Object("python", {.bytes = kState, .size = sizeof kState});
    d.Leaf("draws", int64_t{7});
    d.End();
  });
  AddTensor(d, "rng!", kF32, {1}, 64, {});
  d.Begin(NodeKind::kList, "seen");
  d.Leaf({}, int64_t{3});
  own([&] { AddTensor(d, {}, kI64, {1}, 96, {}); });
  d.End();
  static const float kShared[] = {1, 2};
  const int64_t shape[] = {2};
  d.Tensor("mean", {.data = kShared, .dtype = kF32, .shape = shape});
  own([&] {
    d.Tensor("own_mean", {.data = kShared, .dtype = kF32, .shape = shape});
    d.Leaf("seed", int64_t{11});
  });
}

// Positions in "pieces" (rank 0): logical tensors bias flat key norm q uneven value weight; tensors
// kv norm packed step.rank0 uneven zero; pieces:
constexpr uint32_t kKey = 0, kNorm = 2, kQ = 3, kFlat = 6, kWeight = 7;
constexpr uint32_t kLogicalKey = 2, kLogicalQ = 4;

uint64_t& BoundOf(PieceColumns& p, uint32_t piece, uint32_t i) {
  return p.bounds.at((piece == 0 ? 0 : p.bounds_end.at(piece - 1)) + i);
}

void SetDim(PieceColumns& p, uint32_t logical, int64_t size) {
  p.logical_dims.at(p.logical_dim_end.at(logical - 1)) = size;
}

// Of equal length: no end moves.
void Rename(format::NameColumns& names, std::string_view from, std::string_view to) {
  names.bytes.replace(names.bytes.find(from), from.size(), to);
}

class Collection {
 public:
  explicit Collection(const std::string& valid) : valid_(valid) {}
  void Add(std::string name, StatusCode code, std::string contains, std::string bytes) {
    vectors_.push_back({std::move(name), std::move(bytes), code, std::move(contains)});
  }
  void Pieces(std::string name, std::string contains,
              const std::function<void(PieceColumns&)>& change) {
    Add(std::move(name), kCorrupt, std::move(contains),
        WithColumns(valid_, [&](IndexColumns& c) { change(c.pieces); }));
  }
  void RankOwn(std::string name, std::string contains, const std::vector<std::string_view>& roots) {
    Add(std::move(name), kCorrupt, std::move(contains), WithColumns(valid_, [&](IndexColumns& c) {
          for (const std::string_view root : roots) c.rank_own.Append(root);
        }));
  }
  void Manifest(std::string name, std::string contains,
                const std::function<void(ManifestColumns&)>& change) {
    Add(std::move(name), kCorrupt, std::move(contains), WithManifest(valid_, change));
  }
  void Trailer(std::string name, StatusCode code, std::string contains, size_t at, uint8_t value) {
    Add(std::move(name), code, std::move(contains),
        WithManifestBytes(valid_, [=](std::string& bytes) {
          bytes.at(bytes.size() - 64 + at) = static_cast<char>(value);
        }));
  }
  std::vector<InvalidVector> Take() { return std::move(vectors_); }

 private:
  const std::string& valid_;
  std::vector<InvalidVector> vectors_;
};

void AddPieceRules(Collection& c) {
  using P = PieceColumns;
  c.Pieces("l1-form-column", "pieces.form", [](P& p) { p.form.pop_back(); });
  c.Pieces("l1-dim-end-column", "logical_dim_end", [](P& p) { p.logical_dim_end.pop_back(); });
  c.Pieces("l1-dim-end-more", "logical_dim_end",
           [](P& p) { p.logical_dim_end.push_back(p.logical_dim_end.back()); });
  c.Pieces("l2-dim-end-descends", "dim_end", [](P& p) { p.logical_dim_end[kLogicalKey] = 1; });
  c.Pieces("l2-dims-left-over", "logical_dims", [](P& p) { p.logical_dims.push_back(1); });
  c.Pieces("l2-bounds-end-beyond", "bounds_end", [](P& p) { p.bounds_end.back() += 1; });
  c.Pieces("l2-bounds-left-over", "bounds", [](P& p) { p.bounds.push_back(0); });
  c.Pieces("l3-order", "byte order", [](P& p) { Rename(p.logical_names, "flat", "zlat"); });
  c.Pieces("l3-nul", "legal item name",
           [](P& p) { Rename(p.logical_names, "flat", std::string_view("fl\0t", 4)); });
  c.Pieces("l4-negative", "shape", [](P& p) { SetDim(p, kLogicalKey, -4); });
  c.Pieces("l4-product", "shape", [](P& p) { SetDim(p, kLogicalKey, int64_t{1} << 62); });
  c.Pieces("l4-bytes", "logical shape",
           [](P& p) { SetDim(p, kLogicalKey, (int64_t{1} << 61) + 1); });
  c.Pieces("l4-odd-f4", "logical shape", [](P& p) {
    SetDim(p, kLogicalQ, 1);
    p.logical_dims[p.logical_dim_end[kLogicalQ] - 1] = 9;
  });
  c.Pieces("l5-tensor", "tensor", [](P& p) { p.tensor.back() = 6; });
  c.Pieces("l5-logical", "logical", [](P& p) { p.logical.back() = 8; });
  c.Pieces("l6-order", "order", [](P& p) { std::swap(p.tensor[kNorm], p.tensor[kQ]); });
  c.Pieces("l6-twice", "order", [](P& p) {
    p.logical[kFlat] = p.logical[kFlat - 1];
    BoundOf(p, kFlat, 1) = BoundOf(p, kFlat - 1, 1);
  });
  c.Pieces("l7-box-bounds", "box", [](P& p) {
    p.bounds.erase(p.bounds.begin());
    for (uint32_t& end : p.bounds_end) --end;
  });
  c.Pieces("l7-box-beyond", "box", [](P& p) { BoundOf(p, kKey, 2) = 5; });
  c.Pieces("l7-box-overflow", "box", [](P& p) { BoundOf(p, kKey, 0) = ~uint64_t{0}; });
  c.Pieces("l7-flat-beyond", "flat range", [](P& p) { BoundOf(p, kFlat, 0) = 7; });
  c.Pieces("l7-flat-overflow", "flat range", [](P& p) { BoundOf(p, kFlat, 1) = ~uint64_t{0}; });
  c.Pieces("l8-beyond-the-tensor", "element_offset", [](P& p) { p.element_offset[kWeight] = 3; });
  c.Pieces("l8-overflow", "element_offset", [](P& p) { p.element_offset[kWeight] = ~uint64_t{0}; });
  c.Pieces("l9-box-begin", "multiples of 2", [](P& p) { BoundOf(p, kQ, 1) = 1; });
  c.Pieces("l9-box-extent", "multiples of 2", [](P& p) { BoundOf(p, kQ, 3) = 3; });
  c.Pieces("l9-offset", "multiples of 2", [](P& p) {
    p.element_offset[kQ] = 1;
    BoundOf(p, kQ, 3) = 2;
  });
  c.RankOwn("l10-order", "byte order", {"b", "a"});
  c.RankOwn("l10-twice", "byte order", {"a", "a"});
  c.RankOwn("l10-nul", "legal item name", {std::string_view("a\0", 2)});
  c.RankOwn("l10-below", "below no other", {"a", "a/b"});
  c.RankOwn("l10-below-later", "below no other", {"a", "a!", "a!b", "a/b/c"});
}

void AddTrailerRules(Collection& c, const std::string& valid) {
  c.Add("m1-cut-1", StatusCode::kTruncated, "trailer", valid.substr(0, valid.size() - 1));
  c.Add("m1-cut-half", StatusCode::kTruncated, "trailer", valid.substr(0, valid.size() / 2));
  c.Add("m1-appended", StatusCode::kTruncated, "trailer", valid + '\n');
  c.Add("m1-empty", StatusCode::kNotCheckpoint, "not a manifest", "");
  c.Add("m1-text", StatusCode::kNotCheckpoint, "not a manifest", "{\"shards\":[]}");
  c.Add("m2-middle-cut-out", StatusCode::kTruncated, "file bytes",
        valid.substr(0, 64) + valid.substr(72));
  c.Add("m2-twice", kCorrupt, "file bytes", valid + valid);
  std::string flipped = valid;
  flipped[100] = static_cast<char>(flipped[100] ^ 1);
  c.Add("m3-checksum", kCorrupt, "checksum", flipped);
  c.Trailer("m4-major-2", StatusCode::kUnsupported, "version 2.0", 16, 2);
  c.Trailer("m5-must-understand", StatusCode::kUnsupported, "feature bits", 24, 2);
  c.Trailer("m6-trailer-bytes", kCorrupt, "length", 20, 72);
  c.Trailer("m6-buffer-bytes", kCorrupt, "FlatBuffer bytes", 8, 0);
  c.Trailer("m6-reserved", kCorrupt, "reserved", 47, 1);
  c.Add("m7-identifier", kCorrupt, "FlatBuffer",
        WithManifestBytes(valid, [](std::string& bytes) { bytes.replace(4, 4, "DSCK"); }));
  c.Add("m7-root-offset", kCorrupt, "FlatBuffer", WithManifestBytes(valid, [](std::string& bytes) {
          bytes.replace(0, 4, "\xff\xff\xff\x7f");
        }));
}

void AddShardRules(Collection& c) {
  using M = ManifestColumns;
  c.Manifest("m8-attempt", "attempt", [](M& m) { m.attempt = "../elsewhere"; });
  c.Manifest("m9-rank-column", "shards.rank", [](M& m) { m.shard_rank.pop_back(); });
  c.Manifest("m9-piece-shard-column", "piece_shard", [](M& m) { m.piece_shard.pop_back(); });
  c.Manifest("m9-logical-dtype-column", "logical_dtype", [](M& m) { m.logical_dtype.pop_back(); });
  const char* const names[][2] = {{"m10-empty", ""},
                                  {"m10-parent", "../pieces.dsckpt"},
                                  {"m10-absolute", "/etc/passwd"},
                                  {"m10-dots", ".."},
                                  {"m10-utf8", "\xff"},
                                  {"m10-manifest", "dsckpt.manifest"},
                                  {"m10-latest", "latest"},
                                  {"m10-hidden", ".pieces.dsckpt"},
                                  {"m10-mark", "pieces.incomplete-6f1d2c-3"},
                                  {"m10-mark-alone", "pieces.removed-"},
                                  {"m10-mark-case", "pieces.Replaced-1"},
                                  {"m10-latest-case", "Latest"},
                                  {"m10-manifest-case", "DsCkpt.Manifest"},
                                  {"m10-manifest-part", "dsckpt.manifest.0001"},
                                  {"m10-backslash", "..\\pieces.dsckpt"},
                                  {"m10-colon", "pieces:dsckpt"},
                                  {"m10-control", "pieces\x1b[2J"},
                                  {"m10-control-del", "pieces\x7f"},
                                  {"m10-dot-last", "pieces."},
                                  {"m10-space-last", "pieces.dsckpt "},
                                  {"m10-device", "NUL"},
                                  {"m10-device-extension", "com1.dsckpt"},
                                  {"m10-device-space", "Aux .dsckpt"},
                                  {"m10-device-console", "conin$"},
                                  {"m10-device-superscript", "LPT\xc2\xb2"}};
  for (const auto& [name, shard] : names) {
    c.Manifest(name, "bare file name", [&](M& m) { m.shard_names[1] = shard; });
  }
  c.Manifest("m10-nul", "bare file name",
             [](M& m) { m.shard_names[1] = std::string("pieces\0", 7); });
  c.Manifest("m11-rank", "rank", [](M& m) { m.shard_rank[1] = m.ranks; });
  c.Manifest("m11-file-bytes", "file_bytes", [](M& m) { m.shard_file_bytes[0] = ~uint64_t{0}; });
  c.Manifest("m11-index-bytes", "index_bytes",
             [](M& m) { m.shard_index_bytes[0] = m.shard_file_bytes[0]; });
  c.Manifest("m12-order", "order", [](M& m) { std::swap(m.shard_rank[0], m.shard_rank[1]); });
  c.Manifest("m12-twice", "unique", [](M& m) { m.shard_names[1] = m.shard_names[0]; });
  c.Manifest("m12-twice-case", "unique", [](M& m) { m.shard_names[1] = "PIECES.dsckpt"; });
}

void AddManifestPieceRules(Collection& c) {
  using M = ManifestColumns;
  c.Manifest("m13-dtype-twice", "dtype", [](M& m) { m.dtypes.push_back(m.dtypes[0]); });
  c.Manifest("m13-dtype-position", "dtype", [](M& m) { m.logical_dtype[0] = 200; });
  c.Manifest("m14-column", "pieces.form", [](M& m) { m.pieces.form.pop_back(); });
  c.Manifest("m14-name", "legal item name",
             [](M& m) { Rename(m.pieces.logical_names, "flat", std::string_view("fl\0t", 4)); });
  // A message about the dtype would need the name.
  c.Manifest("m14-name-beyond", "end", [](M& m) {
    m.dtypes.clear();
    m.pieces.logical_names.ends.back() = 0x7FFFFFFF;
  });
  c.Manifest("m14-shape", "shape", [](M& m) { m.pieces.logical_dims[0] = -2; });
  c.Manifest("m14-bounds", "flat range", [](M& m) { m.pieces.bounds[1] = 3; });
  c.Manifest("m14-overflow", "element_offset",
             [](M& m) { m.pieces.element_offset[0] = ~uint64_t{0}; });
  c.Manifest("m14-logical", "logical", [](M& m) { m.pieces.logical.back() = 200; });
  c.Manifest("m14-shard", "shard", [](M& m) { m.piece_shard.back() = 2; });
  c.Manifest("m15-order", "order", [](M& m) {
    m.piece_shard[1] = 1;
    m.piece_shard[2] = 0;
  });
  c.Manifest("m15-twice", "order", [](M& m) {
    PieceColumns& p = m.pieces;
    m.piece_shard[2] = m.piece_shard[1];
    BoundOf(p, 2, 0) = BoundOf(p, 1, 0);
  });
  c.Manifest("m16-no-pieces", "at least one", [](M& m) {
    m.pieces.logical_names.Append("zzz");
    m.pieces.logical_dim_end.push_back(m.pieces.logical_dim_end.back());
    m.logical_dtype.push_back(0);
  });
}

Result<ManifestColumns> PartOf(const std::string& shard, std::string_view name, uint32_t rank) {
  DSCKPT_ASSIGN_OR_RETURN(const Parts parts, TakeApart(shard));
  DSCKPT_ASSIGN_OR_RETURN(const IndexColumns columns, ColumnsOf(parts));
  return format::ManifestOfShard(
      {name, rank, parts.footer.file_bytes, parts.footer.index_bytes, parts.footer.index_xxh3_64},
      ViewOf(columns));
}

}  // namespace

std::vector<ValidVector> PieceVectors() {
  return {{"pieces", [](Description& d) { DescribeRank(d, 0); }, {}},
          {"pieces-rank1", [](Description& d) { DescribeRank(d, 1); }, {}},
          {"rank-own", DescribeRankOwn, {}}};
}

Result<std::vector<InvalidVector>> InvalidPieces(const std::string& pieces) {
  DSCKPT_RETURN_IF_ERROR(TakeApart(pieces).status());
  Collection collection(pieces);
  AddPieceRules(collection);
  return collection.Take();
}

Result<std::string> ManifestVector(const std::string& pieces, const std::string& pieces_rank1) {
  DSCKPT_ASSIGN_OR_RETURN(const ManifestColumns first, PartOf(pieces, "pieces.dsckpt", 0));
  DSCKPT_ASSIGN_OR_RETURN(const ManifestColumns second,
                          PartOf(pieces_rank1, "pieces-rank1.dsckpt", 1));
  const format::ManifestView parts[] = {ViewOf(second), ViewOf(first)};
  DSCKPT_ASSIGN_OR_RETURN(ManifestColumns manifest, format::MergeManifests(parts));
  manifest.attempt = "6f1d2c-3";
  manifest.step = 1000;
  manifest.serial = 3;
  manifest.parent = 1;
  DSCKPT_ASSIGN_OR_RETURN(const Bytes bytes, format::EncodeManifest(manifest));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::string> ManifestOfOne(const std::string& shard, std::string_view name) {
  DSCKPT_ASSIGN_OR_RETURN(ManifestColumns manifest, PartOf(shard, name, 0));
  manifest.attempt = "6f1d2c-4";
  DSCKPT_ASSIGN_OR_RETURN(const Bytes bytes, format::EncodeManifest(manifest));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::vector<InvalidVector>> InvalidManifests(const std::string& manifest) {
  Collection collection(manifest);
  AddTrailerRules(collection, manifest);
  AddShardRules(collection);
  AddManifestPieceRules(collection);
  std::vector<InvalidVector> vectors = collection.Take();
  for (InvalidVector& vector : InvalidPartTables(manifest)) vectors.push_back(std::move(vector));
  return vectors;
}

}  // namespace dsckpt::conformance
