#include "dsckpt/run_layout.h"
#include "format/manifest/parts.h"
#include "format/manifest/trailer.h"
#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

// Sharded checkpoints whose manifests are in parts, and what breaks each rule for them: the last of
// rules M of spec/format.md.

namespace dsckpt::conformance {
namespace {

using format::ManifestColumns;

constexpr StatusCode kBroken = StatusCode::kCorrupt;

std::string Encoded(const ManifestColumns& columns) {
  const std::vector<std::byte> bytes = format::EncodeManifest(columns).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A manifest and its parts before they are encoded.
struct Divided {
  ManifestColumns root;
  std::vector<ManifestColumns> parts;

  /// In two parts, each of about half of the logical tensors.
  explicit Divided(const ManifestColumns& whole) : root(format::WithoutPieces(ViewOf(whole))) {
    const uint32_t all = whole.pieces.logical_names.size();
    parts.push_back(format::PartOf(whole, {0, all / 2}));
    parts.push_back(format::PartOf(whole, {all / 2, all}));
  }

  /// Puts the encoded files into `vector`.
  void Write(DirectoryVector& vector) const {
    ManifestColumns said = root;
    for (uint32_t i = 0; i < parts.size(); ++i) {
      std::string& bytes = vector.files[ManifestPartName(i)];
      bytes = Encoded(parts[i]);
      said.part_file_bytes.push_back(bytes.size());
      said.part_xxh3_64.push_back(format::ManifestSum(std::as_bytes(std::span(bytes))));
    }
    vector.files[std::string(kManifestName)] = Encoded(said);
  }
};

class PartVectors {
 public:
  explicit PartVectors(const DirectoryVector& sharded)
      : sharded_(sharded),
        whole_(ManifestColumnsOf(sharded.files.at(std::string(kManifestName)))) {}

  /// Everything is as the manifest says, which `change` had before any of it was encoded.
  DirectoryVector& Add(std::string name, StatusCode code, std::string contains,
                       const std::function<void(Divided&)>& change = {}) {
    vectors_.push_back({std::move(name), sharded_.files, code, std::move(contains)});
    Divided divided(whole_);
    if (change) change(divided);
    divided.Write(vectors_.back());
    return vectors_.back();
  }
  const ManifestColumns& whole() const { return whole_; }
  std::vector<DirectoryVector> Take() { return std::move(vectors_); }

 private:
  const DirectoryVector& sharded_;
  const ManifestColumns whole_;
  std::vector<DirectoryVector> vectors_;
};

void AddFilesOfParts(PartVectors& c) {
  using D = DirectoryVector;
  const std::string second = ManifestPartName(1);
  D& missing = c.Add("m19-missing", StatusCode::kIncomplete, "missing");
  missing.files.erase(second);
  D& longer = c.Add("m20-size", StatusCode::kMismatch, "bytes");
  longer.files[second] += std::string(8, '\0');
  Divided other(c.whole());
  for (ManifestColumns& part : other.parts) part.attempt = "6f1d2c-5";
  D another;
  other.Write(another);
  D& save = c.Add("m20-another-save", StatusCode::kMismatch, "checksum");
  save.files[second] = another.files[second];
  D& flipped = c.Add("m3-part", kBroken, "checksum");
  flipped.files[second][100] = static_cast<char>(flipped.files[second][100] ^ 1);
}

void AddContentOfParts(PartVectors& c) {
  c.Add("m21-shape", kBroken, "shape", [](Divided& d) { d.parts[1].pieces.logical_dims[0] = -2; });
  c.Add("m21-parts", kBroken, "parts", [&c](Divided& d) {
    d.parts[1] = d.root;
    d.parts[1].part_file_bytes = {Encoded(Divided(c.whole()).parts[1]).size()};
    d.parts[1].part_xxh3_64 = {17};
  });
  const auto other = [&c](std::string name, std::string contains, auto change) {
    c.Add(std::move(name), StatusCode::kMismatch, std::move(contains),
          [change](Divided& d) { change(d.parts[1]); });
  };
  using M = ManifestColumns;
  other("m22-attempt", "attempt", [](M& m) { m.attempt = "6f1d2c-5"; });
  other("m22-step", "step", [](M& m) { m.step += 1; });
  other("m22-ranks", "ranks", [](M& m) { m.ranks += 1; });
  other("m22-serial", "serial", [](M& m) { m.serial += 1; });
  other("m22-parent", "parent", [](M& m) { m.parent += 1; });
  other("m22-shard-name", "names", [](M& m) { m.shard_names[1] = "pieces-rank2.dsckpt"; });
  other("m22-shard-sum", "index_xxh3_64", [](M& m) { m.shard_index_xxh3_64[1] ^= 1; });
  other("m22-content", "content", [](M& m) { m.shard_content.resize(m.shard_names.size()); });
  // No logical tensor is I32 (7).
  other("m22-dtypes", "dtypes", [](M& m) { m.dtypes.push_back({7, 32, 1, 4}); });
  c.Add("m23-order", kBroken, "logical names",
        [](Divided& d) { std::swap(d.parts[0], d.parts[1]); });
  c.Add("m23-twice", kBroken, "logical names", [](Divided& d) { d.parts[1] = d.parts[0]; });
}

/// The manifest with another minor version and other feature bits.
std::string WithVersion(const std::string& manifest, const format::ManifestVersion& version) {
  const auto buffer =
      std::as_bytes(std::span(manifest)).first(manifest.size() - format::kManifestTrailerBytes);
  std::vector<std::byte> bytes(buffer.begin(), buffer.end());
  format::AppendManifestTrailer(bytes, version);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

DirectoryVector ValidParts(const DirectoryVector& sharded) {
  DirectoryVector vector = PartVectors(sharded).Add("sharded-parts", StatusCode::kOk, "");
  return vector;
}

std::vector<DirectoryVector> InvalidParts(const DirectoryVector& sharded) {
  PartVectors collection(sharded);
  AddFilesOfParts(collection);
  AddContentOfParts(collection);
  return collection.Take();
}

std::vector<InvalidVector> InvalidPartTables(const std::string& manifest) {
  std::vector<InvalidVector> vectors;
  const ManifestColumns whole = ManifestColumnsOf(manifest);
  DirectoryVector files;
  const Divided divided(whole);
  divided.Write(files);
  const std::string root = files.files.at(std::string(kManifestName));
  const auto add = [&](std::string name, std::string contains, const std::string& bytes) {
    vectors.push_back({std::move(name), bytes, kBroken, std::move(contains)});
  };
  const auto change = [&](std::string name, std::string contains, auto&& how) {
    add(std::move(name), std::move(contains), WithManifest(root, how));
  };
  using M = ManifestColumns;
  change("m9-parts-column", "parts.xxh3_64", [](M& m) { m.part_xxh3_64.pop_back(); });
  change("m9-content-column", "shards.content", [](M& m) { m.shard_content = {{1, 2}}; });
  add("m17-bit-alone", "feature bit 0", WithVersion(manifest, {1, format::kManifestHasParts}));
  add("m17-no-bit", "feature bit 0", WithVersion(root, {1, 0}));
  change("m17-many", "at most", [](M& m) {
    m.part_file_bytes.resize(kMaxManifestParts + 1, 800);
    m.part_xxh3_64.resize(kMaxManifestParts + 1);
  });
  const auto none = WithManifest(root, [](M& m) {
    m.part_file_bytes.clear();
    m.part_xxh3_64 = {17};
  });
  // The columns of no part: encoded with one sum, whose vector is then cut to none.
  add("m17-none", "parts", WithVersion(WithoutPartSums(none), {1, format::kManifestHasParts}));
  change("m18-pieces", "beside parts", [&](M& m) {
    m.pieces = whole.pieces;
    m.logical_dtype = whole.logical_dtype;
    m.piece_shard = whole.piece_shard;
  });
  change("m18-names", "beside parts", [](M& m) {
    m.pieces.logical_names.Append("w");
    m.pieces.logical_dim_end = {0};
    m.logical_dtype = {0};
  });
  change("m18-small", "file_bytes", [](M& m) { m.part_file_bytes[1] = 63; });
  change("m18-large", "file_bytes", [](M& m) { m.part_file_bytes[0] = kMaxManifestBytes + 1; });
  return vectors;
}

}  // namespace dsckpt::conformance
