// A manifest divided into parts, and united again.

#include <functional>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "format/manifest/parts.h"
#include "format/manifest/trailer.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

constexpr uint32_t kShards = 3;

// Logical tensors "t000" on, each of one piece a shard; every other one of rank 2, else flat.
ManifestColumns Many(uint32_t tensors) {
  ManifestColumns m;
  m.attempt = "0f-1";
  m.step = 12;
  m.ranks = kShards;
  m.serial = 4;
  m.parent = 3;
  m.dtypes = {{7, 32, 1, 4}, {12, 32, 1, 4}};
  for (uint32_t s = 0; s < kShards; ++s) {
    m.shard_names.push_back("r" + std::to_string(s));
    m.shard_rank.push_back(s);
    m.shard_file_bytes.push_back(9000 + s);
    m.shard_index_bytes.push_back(800);
    m.shard_index_xxh3_64.push_back(s);
  }
  PieceColumns& p = m.pieces;
  for (uint32_t t = 0; t < tensors; ++t) {
    const std::string number = std::to_string(t);
    p.logical_names.Append("t" + std::string(3 - number.size(), '0') + number);
    const bool box = t % 2 == 0;
    p.logical_dims.push_back(kShards);
    if (box) p.logical_dims.push_back(4);
    p.logical_dim_end.push_back(static_cast<uint32_t>(p.logical_dims.size()));
    m.logical_dtype.push_back(t % 2);
    for (uint32_t s = 0; s < kShards; ++s) {
      p.tensor.push_back(t);
      p.logical.push_back(t);
      p.element_offset.push_back(0);
      p.form.push_back(box ? 0 : 1);
      const std::vector<uint64_t> bounds =
          box ? std::vector<uint64_t>{s, 0, 1, 4} : std::vector<uint64_t>{s, 1};
      p.bounds.insert(p.bounds.end(), bounds.begin(), bounds.end());
      p.bounds_end.push_back(static_cast<uint32_t>(p.bounds.size()));
      p.replica_group.push_back(0);
      m.piece_shard.push_back(s);
    }
  }
  return m;
}

std::vector<ManifestColumns> Divided(const ManifestColumns& whole, uint64_t max_bytes) {
  const auto ranges = DivideManifest(whole, max_bytes);
  REQUIRE(ranges.ok());
  std::vector<ManifestColumns> parts;
  for (const LogicalRange range : *ranges) parts.push_back(PartOf(whole, range));
  return parts;
}

// The manifest beside its parts.
ManifestColumns Root(const ManifestColumns& whole, const std::vector<ManifestColumns>& parts) {
  ManifestColumns root = WithoutPieces(ViewOf(whole));
  for (const ManifestColumns& part : parts) {
    const auto bytes = EncodeManifest(part).value();
    root.part_file_bytes.push_back(bytes.size());
    root.part_xxh3_64.push_back(ManifestSum(bytes));
  }
  return root;
}

}  // namespace

TEST_CASE("manifest parts: divided and united, nothing is lost") {
  ManifestColumns whole = Many(20);
  const bool content = GENERATE(false, true);
  if (content) whole.shard_content = {{1, 2}, {3, 4}, {5, 6}};
  const auto bytes = EncodeManifest(whole).value();
  const uint64_t bound = ManifestBytesBound(whole);
  CHECK(bytes.size() <= bound);
  CHECK(DivideManifest(whole, bound)->empty());
  const uint64_t least = ManifestBytesBound(PartOf(whole, {0, 1}));
  for (const uint64_t max_bytes : {bound - 1, least + 700, least + 1}) {
    INFO(max_bytes);
    const auto parts = Divided(whole, max_bytes);
    CHECK(parts.size() >= 2);
    if (max_bytes == bound - 1) CHECK(parts.size() == 2);
    ManifestColumns united = WithoutPieces(ViewOf(whole));
    for (uint32_t i = 0; i < parts.size(); ++i) {
      CHECK(ManifestBytesBound(parts[i]) <= max_bytes);
      const auto encoded = EncodeManifest(parts[i]).value();
      const auto parsed = ParseManifest(encoded);
      REQUIRE(parsed.status().message() == "");
      REQUIRE(AppendPart(*parsed, i, united).message() == "");
    }
    CHECK(EncodeManifest(united).value() == bytes);
  }
}

TEST_CASE("manifest parts: every range but the last is as full as can be") {
  const ManifestColumns whole = Many(40);
  const uint64_t max_bytes = ManifestBytesBound(PartOf(whole, {0, 7}));
  const auto ranges = DivideManifest(whole, max_bytes).value();
  REQUIRE(ranges.size() > 3);
  CHECK(ranges[0].first == 0);
  CHECK(ranges[0].last == 7);
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    CHECK(ranges[i].last == ranges[i + 1].first);
    const LogicalRange more = {ranges[i].first, ranges[i].last + 1};
    CHECK(ManifestBytesBound(PartOf(whole, more)) > max_bytes);
  }
  CHECK(ranges.back().last == 40);
}

TEST_CASE("manifest parts: a logical tensor that fits no part is refused by name") {
  const ManifestColumns whole = Many(5);
  const uint64_t one = ManifestBytesBound(PartOf(whole, {2, 3}));
  const Status status = DivideManifest(whole, one - 1).status();
  CHECK(status.code() == StatusCode::kLimitExceeded);
  CHECK(status.message().find("'t000'") != std::string::npos);
  CHECK(DivideManifest(whole, one)->size() > 1);
}

TEST_CASE("manifest parts: no more than a manifest may have") {
  const ManifestColumns whole = Many(kMaxManifestParts - 24);
  ManifestColumns more = Many(999);
  // Names of four digits follow those of three.
  for (uint32_t i = 0; i < 26; ++i) {
    const ManifestColumns one = PartOf(Many(1), {0, 1});
    ManifestColumns named = one;
    named.pieces.logical_names = {};
    named.pieces.logical_names.Append("u" + std::to_string(100 + i));
    REQUIRE(AppendPart(ViewOf(named), i, more).message() == "");
  }
  REQUIRE(more.pieces.logical_names.size() == kMaxManifestParts + 1);
  const uint64_t one = ManifestBytesBound(PartOf(more, {0, 1}));
  const Status status = DivideManifest(more, one).status();
  // Ranges of two flat tensors are not possible: a boxed one stands between any two.
  CHECK(status.code() == StatusCode::kLimitExceeded);
  CHECK(status.message().find("parts, at most 1024") != std::string::npos);
  CHECK(DivideManifest(whole, one)->size() == kMaxManifestParts - 24);
}

TEST_CASE("manifest parts: the manifest says that it has some") {
  const ManifestColumns whole = Many(6);
  const auto parts = Divided(whole, ManifestBytesBound(PartOf(whole, {0, 3})));
  const ManifestColumns root = Root(whole, parts);
  auto bytes = EncodeManifest(root).value();
  const auto view = ParseManifest(bytes);
  REQUIRE(view.status().message() == "");
  CHECK(view->part_count() == 2);
  CHECK(view->part_file_bytes[1] == EncodeManifest(parts[1])->size());
  CHECK(view->pieces.size() == 0);
  CHECK(view->shard_count() == kShards);
  // Minor version 1 and feature bit 0, which readers of 1.0 refuse.
  const std::byte* const trailer = bytes.data() + bytes.size() - kManifestTrailerBytes;
  CHECK(std::to_integer<int>(trailer[18]) == 1);
  CHECK(std::to_integer<int>(trailer[24]) == 1);
  const auto plain = EncodeManifest(whole).value();
  const std::byte* const plain_trailer = plain.data() + plain.size() - kManifestTrailerBytes;
  CHECK(std::to_integer<int>(plain_trailer[18]) == 0);
  CHECK(std::to_integer<int>(plain_trailer[24]) == 0);
}

TEST_CASE("manifest parts: one broken rule of the manifest at a time") {
  struct Case {
    const char* message;
    std::function<void(ManifestColumns&)> change;
  };
  using M = ManifestColumns;
  const ManifestColumns whole = Many(6);
  const auto parts = Divided(whole, ManifestBytesBound(PartOf(whole, {0, 3})));
  const std::vector<Case> cases = {
      {"parts.xxh3_64: entries", [](M& m) { m.part_xxh3_64.pop_back(); }},
      {"parts: entries: expected at most 1024",
       [](M& m) {
         m.part_file_bytes.resize(1025, 100);
         m.part_xxh3_64.resize(1025);
       }},
      {"part 1: file_bytes", [](M& m) { m.part_file_bytes[1] = 63; }},
      {"part 0: file_bytes", [](M& m) { m.part_file_bytes[0] = kMaxManifestBytes + 1; }},
      {"pieces: entries",
       [&](M& m) {
         m.pieces = whole.pieces;
         m.logical_dtype = whole.logical_dtype;
         m.piece_shard = whole.piece_shard;
       }},
      {"shards.content: entries: expected 3, found 2", [](M& m) { m.shard_content.resize(2); }},
  };
  for (const Case& c : cases) {
    ManifestColumns root = Root(whole, parts);
    c.change(root);
    const auto bytes = EncodeManifest(root).value();
    const Status status = ParseManifest(bytes).status();
    INFO(c.message << ": " << status.message());
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("manifest parts: the feature bit stands exactly with parts") {
  const ManifestColumns whole = Many(6);
  const auto root = EncodeManifest(Root(whole, {whole})).value();
  const auto again = [](std::vector<std::byte> bytes, uint64_t bits) {
    bytes.resize(bytes.size() - kManifestTrailerBytes);
    AppendManifestTrailer(bytes, {1, bits});
    return ParseManifest(bytes).status();
  };
  CHECK(again(root, kManifestHasParts).ok());
  CHECK(again(root, 0).message().find("feature bit 0: expected 1, found 0") != std::string::npos);
  const auto plain = EncodeManifest(whole).value();
  CHECK(again(plain, 0).ok());
  CHECK(again(plain, kManifestHasParts).code() == StatusCode::kCorrupt);
  CHECK(again(plain, 2).code() == StatusCode::kUnsupported);
}

TEST_CASE("manifest parts: a part of something else is refused") {
  struct Case {
    const char* message;
    std::function<void(ManifestColumns&)> change;
    StatusCode code = StatusCode::kMismatch;
  };
  using M = ManifestColumns;
  const std::vector<Case> cases = {
      {"attempt", [](M& m) { m.attempt = "0f-2"; }},
      {"step", [](M& m) { m.step = 13; }},
      {"ranks", [](M& m) { m.ranks = 4; }},
      {"serial", [](M& m) { m.serial = 5; }},
      {"parent", [](M& m) { m.parent = 4; }},
      {"shards.names", [](M& m) { m.shard_names[2] = "r3"; }},
      {"shards.rank", [](M& m) { m.shard_rank[2] = 3; }},
      {"shards.file_bytes", [](M& m) { m.shard_file_bytes[0] = 8999; }},
      {"shards.index_bytes", [](M& m) { m.shard_index_bytes[0] = 808; }},
      {"shards.index_xxh3_64", [](M& m) { m.shard_index_xxh3_64[0] = 17; }},
      {"shards.content", [](M& m) { m.shard_content.resize(3); }},
      {"dtypes", [](M& m) { m.dtypes.pop_back(); }},
      {"parts: expected none", [](M& m) { m.part_file_bytes = {100}; }, StatusCode::kCorrupt},
  };
  const ManifestColumns whole = Many(6);
  for (const Case& c : cases) {
    ManifestColumns united = WithoutPieces(ViewOf(whole));
    REQUIRE(AppendPart(ViewOf(PartOf(whole, {0, 3})), 0, united).ok());
    ManifestColumns part = PartOf(whole, {3, 6});
    c.change(part);
    const Status status = AppendPart(ViewOf(part), 1, united);
    INFO(c.message << ": " << status.message());
    CHECK(status.code() == c.code);
    CHECK(status.message().find("part 1: " + std::string(c.message)) != std::string::npos);
  }
}

TEST_CASE("manifest parts: names ascend from part to part") {
  const ManifestColumns whole = Many(6);
  for (const LogicalRange again : {LogicalRange{2, 4}, LogicalRange{0, 2}}) {
    ManifestColumns united = WithoutPieces(ViewOf(whole));
    REQUIRE(AppendPart(ViewOf(PartOf(whole, {0, 3})), 0, united).ok());
    const Status status = AppendPart(ViewOf(PartOf(whole, again)), 1, united);
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find("logical names") != std::string::npos);
  }
  // A part without any is in nobody's way.
  ManifestColumns united = WithoutPieces(ViewOf(whole));
  REQUIRE(AppendPart(ViewOf(PartOf(whole, {0, 0})), 0, united).ok());
  REQUIRE(AppendPart(ViewOf(PartOf(whole, {0, 6})), 1, united).ok());
  CHECK(EncodeManifest(united).value() == EncodeManifest(whole).value());
}
