#include "format/manifest/manifest.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "tests/support/catch.h"
#include "tests/support/piece_samples.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

// "b" and "w" F32, "q" F4; all pieces but one of "b" in shard "r0", that one in "r1".
ManifestColumns MakeManifest() {
  ManifestColumns m;
  m.attempt = "0f-1";
  m.step = 12;
  m.ranks = 3;
  m.shard_names = {"r0", "r1"};
  m.shard_rank = {0, 2};
  m.shard_file_bytes = {9000, 9001};
  m.shard_index_bytes = {800, 808};
  m.shard_index_xxh3_64 = {11, 12};
  m.dtypes = {{12, 32, 1, 4}, {23, 4, 2, 1}};
  m.logical_dtype = {0, 1, 0};
  const PieceColumns p = MakePieces();
  m.pieces = p;
  m.pieces.tensor = {0, 0, 1, 0};
  m.pieces.logical = {0, 0, 1, 2};
  m.pieces.element_offset = {8, 20, 0, 0};
  m.pieces.form = {1, 1, 0, 0};
  m.pieces.bounds = {90, 10, 0, 4, 2, 8, 1, 0, 2, 4};
  m.pieces.bounds_end = {2, 4, 6, 10};
  m.pieces.replica_group = {0, 0, 0, 7};
  m.piece_shard = {0, 1, 0, 0};
  return m;
}

Status ParseStatus(const ManifestColumns& m) {
  const auto bytes = EncodeManifest(m).value();
  return ParseManifest(bytes).status();
}

using Bytes = std::vector<std::byte>;

// The trailer changed and its checksum made right again.
Bytes WithTrailer(Bytes bytes, size_t at, uint64_t value, size_t width) {
  std::byte* trailer = bytes.data() + bytes.size() - 64;
  std::memcpy(trailer + at, &value, width);
  const uint64_t hash = Hash64(std::span(bytes).first(bytes.size() - 16));
  std::memcpy(trailer + 48, &hash, sizeof hash);
  return bytes;
}

}  // namespace

TEST_CASE("manifest: round trip") {
  const ManifestColumns m = MakeManifest();
  const Bytes bytes = EncodeManifest(m).value();
  CHECK(bytes == EncodeManifest(m).value());
  CHECK(bytes.size() % 8 == 0);
  CHECK(std::memcmp(bytes.data() + bytes.size() - 8, "DSCKMANI", 8) == 0);
  const Result<ManifestView> parsed = ParseManifest(bytes);
  REQUIRE(parsed.status().message() == "");
  const ManifestView& v = *parsed;
  CHECK(v.attempt == "0f-1");
  CHECK(v.step == 12);
  CHECK(v.ranks == 3);
  REQUIRE(v.shard_count() == 2);
  CHECK(v.shard_names[1] == "r1");
  CHECK(v.shard_rank[1] == 2);
  CHECK(v.shard_file_bytes[1] == 9001);
  CHECK(v.shard_index_bytes[1] == 808);
  CHECK(v.shard_index_xxh3_64[1] == 12);
  CHECK(v.dtypes[1].code == 23);
  CHECK(v.logical_dtype[1] == 1);
  const auto span = v.PiecesOf(0);
  CHECK(span.first == 0);
  CHECK(span.last == 2);
  CHECK(v.PiecesOf(2).first == 3);
  CHECK(v.PiecesOf(2).last == 4);
  CHECK(v.PiecesOf(3).first == v.PiecesOf(3).last);
  CHECK(v.piece_shard[1] == 1);
  CHECK(v.pieces.Get(3)->box == std::vector<Range>{{1, 3}, {0, 4}});
}

TEST_CASE("manifest: without shards, and with a step below zero") {
  ManifestColumns m;
  m.step = -5;
  const Bytes bytes = EncodeManifest(m).value();
  const Result<ManifestView> parsed = ParseManifest(bytes);
  REQUIRE(parsed.status().message() == "");
  CHECK(parsed->step == -5);
  CHECK(parsed->shard_count() == 0);
}

TEST_CASE("manifest: one broken rule at a time") {
  struct Case {
    const char* name;
    const char* message;
    std::function<void(ManifestColumns&)> change;
  };
  using M = ManifestColumns;
  const auto shard_name = [](std::string name) {
    return [name = std::move(name)](M& m) { m.shard_names[1] = name; };
  };
  const std::vector<Case> cases = {
      {"attempt with a slash", "attempt: id", [](M& m) { m.attempt = "../x"; }},
      {"attempt with NUL", "attempt: id", [](M& m) { m.attempt = std::string("x\0y", 3); }},
      {"attempt not UTF-8", "attempt: id", [](M& m) { m.attempt = "\xff"; }},
      {"attempt too long", "attempt: id", [](M& m) { m.attempt.assign(256, 'x'); }},
      {"rank column", "shards.rank: entries: expected 2, found 1",
       [](M& m) { m.shard_rank.pop_back(); }},
      {"file_bytes column", "shards.file_bytes", [](M& m) { m.shard_file_bytes.pop_back(); }},
      {"index_bytes column", "shards.index_bytes", [](M& m) { m.shard_index_bytes.push_back(1); }},
      {"index sum column", "shards.index_xxh3_64", [](M& m) { m.shard_index_xxh3_64.clear(); }},
      {"logical_dtype column", "logical_dtype: entries", [](M& m) { m.logical_dtype.pop_back(); }},
      {"piece_shard column", "piece_shard: entries", [](M& m) { m.piece_shard.pop_back(); }},
      {"name empty", "shard '': name", shard_name("")},
      {"name .", "shard '.': name", shard_name(".")},
      {"name ..", "shard '..': name", shard_name("..")},
      {"name with a slash", "name: expected a bare file name", shard_name("a/b")},
      {"name absolute", "name: expected a bare file name", shard_name("/etc/passwd")},
      {"name with NUL", "name: expected a bare file name", shard_name(std::string("r1\0", 3))},
      {"name too long", "name: expected a bare file name", shard_name(std::string(256, 'r'))},
      {"name not UTF-8", "name: expected a bare file name", shard_name("\xc0\x80")},
      {"name of the manifest", "name: expected a bare file name", shard_name("dsckpt.manifest")},
      {"rank too high", "shard 'r1': rank: expected below 3, found 3",
       [](M& m) { m.shard_rank[1] = 3; }},
      {"file too large", "shard 'r1': file_bytes", [](M& m) { m.shard_file_bytes[1] = ~0ull; }},
      {"index beyond", "shard 'r1': index_bytes", [](M& m) { m.shard_index_bytes[1] = 9001; }},
      {"shards out of order", "shard 'r1': order",
       [](M& m) {
         m.shard_rank = {2, 0};
       }},
      {"shards of a rank out of order", "shard 'r0': order",
       [](M& m) {
         m.shard_rank = {0, 0};
         std::swap(m.shard_names[0], m.shard_names[1]);
       }},
      {"a shard name twice", "shard 'r0': name: expected unique",
       [](M& m) { m.shard_names[1] = "r0"; }},
      {"dtype twice", "dtype 23: entries", [](M& m) { m.dtypes.push_back(m.dtypes[1]); }},
      {"dtype block", "dtype 12: description", [](M& m) { m.dtypes[0].block_bytes = 8; }},
      {"dtype position", "logical tensor 'q': dtype: expected below 2, found 2",
       [](M& m) { m.logical_dtype[1] = 2; }},
      {"logical names beyond their bytes, and a message that would show one", "end",
       [](M& m) {
         m.dtypes.clear();
         m.pieces.logical_names.ends.back() = 0x7FFFFFFF;
       }},
      {"no dtypes", "logical tensor 'b': dtype", [](M& m) { m.dtypes.clear(); }},
      {"logical names", "above 'b'", [](M& m) { m.pieces.logical_names.bytes = "bbw"; }},
      {"piece lengths", "pieces.form", [](M& m) { m.pieces.form.pop_back(); }},
      {"logical ordinal", "piece 3: logical", [](M& m) { m.pieces.logical[3] = 3; }},
      {"shard ordinal", "piece 1: shard: expected below 2, found 2",
       [](M& m) { m.piece_shard[1] = 2; }},
      {"pieces out of order by shard", "piece 1: order",
       [](M& m) {
         m.piece_shard = {1, 0, 0, 0};
       }},
      {"pieces out of order by tensor", "piece 1: order",
       [](M& m) {
         m.piece_shard[1] = 0;
         m.pieces.tensor[0] = 1;
       }},
      {"pieces out of order by offset", "piece 1: order",
       [](M& m) {
         m.piece_shard[1] = 0;
         m.pieces.element_offset[1] = 7;
       }},
      {"a piece twice", "piece 1: order",
       [](M& m) {
         m.piece_shard[1] = 0;
         m.pieces.element_offset[1] = 8;
         m.pieces.bounds[2] = 90;
         m.pieces.bounds[3] = 10;
       }},
      {"box beyond", "piece 3 of 'w': box", [](M& m) { m.pieces.bounds[9] = 5; }},
      {"flat beyond", "piece 0 of 'b': flat range", [](M& m) { m.pieces.bounds[1] = 11; }},
      {"cut block", "piece 2 of 'q': box", [](M& m) { m.pieces.bounds[5] = 7; }},
      {"offset wraps", "piece 3 of 'w': element_offset",
       [](M& m) { m.pieces.element_offset[3] = INT64_MAX - 4; }},
      {"logical tensor without pieces", "logical tensor 'q': pieces: expected at least one",
       [](M& m) {
         m.pieces.logical = {0, 0, 2, 2};
         m.pieces.tensor[3] = 2;
         m.pieces.bounds_end = {2, 4, 8, 10};
         m.pieces.form[2] = 9;
         m.pieces.form[3] = 9;
       }},
      {"last logical tensor without pieces", "logical tensor 'w': pieces",
       [](M& m) {
         m.pieces.logical = {0, 0, 1, 1};
         m.pieces.tensor[3] = 2;
         m.pieces.form[3] = 9;
       }},
  };
  for (const Case& broken : cases) {
    INFO(broken.name);
    ManifestColumns m = MakeManifest();
    broken.change(m);
    const Status status = ParseStatus(m);
    INFO(status.message());
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find("manifest") == 0);
    CHECK(status.message().find(broken.message) != std::string::npos);
  }
}

TEST_CASE("manifest: the trailer's rules") {
  struct Case {
    const char* name;
    StatusCode code;
    const char* message;
    size_t at;
    uint64_t value;
    size_t width;
  };
  const Bytes bytes = EncodeManifest(MakeManifest()).value();
  const Case cases[] = {
      {"file bytes more", StatusCode::kTruncated, "file bytes", 0, bytes.size() + 8, 8},
      {"file bytes less", StatusCode::kCorrupt, "file bytes", 0, bytes.size() - 8, 8},
      {"FlatBuffer bytes", StatusCode::kCorrupt, "FlatBuffer bytes", 8, bytes.size() - 72, 8},
      {"major", StatusCode::kUnsupported, "manifest version 2.0", 16, 2, 2},
      {"minor", StatusCode::kOk, "", 18, 7, 2},
      {"length", StatusCode::kCorrupt, "length: expected 64, found 72", 20, 72, 4},
      {"features", StatusCode::kUnsupported, "feature bits 4", 24, 4, 8},
      {"compatible", StatusCode::kOk, "", 32, ~0ull, 8},
      {"reserved", StatusCode::kCorrupt, "reserved", 40, 1, 8},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const Status status = ParseManifest(WithTrailer(bytes, c.at, c.value, c.width)).status();
    CHECK(status.code() == c.code);
    INFO(status.message());
    CHECK(status.message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("manifest: cut, lengthened, or none") {
  const Bytes bytes = EncodeManifest(MakeManifest()).value();
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const StatusCode code = ParseManifest(std::span(bytes).first(cut)).status().code();
    CHECK(code == (cut < 8 ? StatusCode::kNotCheckpoint : StatusCode::kTruncated));
  }
  Bytes longer = bytes;
  longer.resize(bytes.size() + 8);
  CHECK(ParseManifest(longer).status().code() == StatusCode::kTruncated);
  longer.insert(longer.begin() + 64, bytes.begin(), bytes.begin() + 64);
  CHECK(!ParseManifest(longer).ok());
  Bytes twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  CHECK(ParseManifest(twice).status().code() == StatusCode::kCorrupt);
  CHECK(ParseManifest(Bytes(200)).status().code() == StatusCode::kNotCheckpoint);
}

TEST_CASE("manifest: no flipped byte is accepted") {
  const Bytes bytes = EncodeManifest(MakeManifest()).value();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xFF}}) {
      Bytes changed = bytes;
      changed[i] ^= mask;
      CHECK(!ParseManifest(changed).ok());
      // With the checksum made right it may pass; what passed must be safe to look at.
      if (i + 64 >= bytes.size()) continue;
      changed = WithTrailer(changed, 40, 0, 8);
      const Result<ManifestView> parsed = ParseManifest(changed);
      if (!parsed.ok()) continue;
      for (uint32_t p = 0; p < parsed->pieces.size(); ++p) {
        CHECK(parsed->shard_names[parsed->piece_shard[p]].size() < 10);
        if (const auto piece = parsed->pieces.Get(p)) CHECK(piece->logical_name.size() < 10);
      }
    }
  }
}

TEST_CASE("manifest: too large to encode") {
  ManifestColumns m = MakeManifest();
  m.attempt.resize(kMaxManifestBytes);
  CHECK(EncodeManifest(m).status().code() == StatusCode::kLimitExceeded);
}
