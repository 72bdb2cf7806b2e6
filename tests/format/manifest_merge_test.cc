#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "format/checksum.h"
#include "format/manifest/manifest.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

// An index of stored tensors, as far as ManifestOfShard looks.
struct Shard {
  std::string name;
  uint32_t rank = 0;
  IndexColumns index = {};

  void Tensor(std::string_view tensor, DTypeRecord dtype, std::vector<int64_t> shape) {
    const auto known = std::find(index.dtypes.begin(), index.dtypes.end(), dtype);
    index.tensor_dtype.push_back(static_cast<uint8_t>(known - index.dtypes.begin()));
    if (known == index.dtypes.end()) index.dtypes.push_back(dtype);
    index.tensor_names.Append(tensor);
    index.dims.insert(index.dims.end(), shape.begin(), shape.end());
    index.dim_end.push_back(static_cast<uint32_t>(index.dims.size()));
  }
  // Call in the order that the rules ask for, logical tensors by name.
  void Box(uint32_t tensor, std::string_view logical, std::vector<int64_t> shape,
           std::vector<Range> box) {
    REQUIRE(AppendPiece(index.pieces, tensor,
                        {.logical_name = logical, .logical_shape = shape, .box = box})
                .ok());
  }
  ManifestColumns Manifest() const {
    auto manifest = ManifestOfShard({name, rank, 9000, 800, 17 + rank}, ViewOf(index));
    REQUIRE(manifest.status().message() == "");
    return std::move(manifest).value();
  }
};

constexpr DTypeRecord kFloat = {12, 32, 1, 4}, kHalf = {11, 16, 1, 2};

Result<ManifestColumns> Merge(const std::vector<ManifestColumns>& parts) {
  std::vector<ManifestView> views;
  for (const ManifestColumns& part : parts) views.push_back(ViewOf(part));
  return MergeManifests(views);
}

std::vector<std::string> Names(const NameColumns& names) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < names.size(); ++i) out.emplace_back(names[i]);
  return out;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("manifest of a shard: what declares no pieces is whole") {
  Shard shard{.name = "r", .rank = 4};
  shard.Tensor("m", kFloat, {2, 3});
  shard.Tensor("n", kHalf, {});
  shard.Tensor("p", kFloat, {4});
  shard.index.alias_names.Append("a");
  shard.index.alias_names.Append("z");
  shard.index.alias_target = {0, 2};
  shard.Box(2, "logical", {8}, {{4, 8}});
  const ManifestColumns m = shard.Manifest();
  // The alias "z" of a tensor that declares pieces stands for nothing of its own.
  CHECK(Names(m.pieces.logical_names) == Strings{"a", "logical", "m", "n"});
  CHECK(m.pieces.tensor == std::vector<uint32_t>{0, 2, 0, 1});
  CHECK(m.shard_names == Strings{"r"});
  CHECK(m.shard_rank == std::vector<uint32_t>{4});
  CHECK(m.ranks == 5);
  CHECK(m.shard_index_xxh3_64 == std::vector<uint64_t>{21});
  CHECK(m.piece_shard == std::vector<uint32_t>(4, 0));
  const PieceView pieces = ViewOf(m.pieces);
  CHECK(pieces.Get(2)->box == std::vector<Range>{{0, 2}, {0, 3}});
  CHECK(pieces.Get(3)->box.empty());
  // The dtype table is by code, whatever order the shard has.
  CHECK(m.dtypes == std::vector<DTypeRecord>{kHalf, kFloat});
  CHECK(m.logical_dtype == std::vector<uint8_t>{1, 1, 1, 0});
  const auto bytes = EncodeManifest(m).value();
  CHECK(ParseManifest(bytes).status().message() == "");
}

TEST_CASE("manifest of a shard: one logical tensor cannot be of two kinds") {
  SECTION("dtype") {
    Shard shard{.name = "r"};
    shard.Tensor("m", kFloat, {4});
    shard.Tensor("n", kHalf, {4});
    shard.Box(1, "m", {4}, {{0, 4}});
    const Status status = ManifestOfShard({"r"}, ViewOf(shard.index)).status();
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(status.message().find("'m' has dtype") != std::string::npos);
  }
  SECTION("shape") {
    Shard shard{.name = "r"};
    shard.Tensor("m", kFloat, {4});
    shard.Tensor("n", kFloat, {4});
    shard.Box(1, "m", {5}, {{0, 4}});
    const Status status = ManifestOfShard({"r"}, ViewOf(shard.index)).status();
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(status.message().find("'m' has shape") != std::string::npos);
  }
}

TEST_CASE("merge: C38, shards come by rank, not by name") {
  std::vector<ManifestColumns> parts;
  for (const uint32_t rank : {10u, 2u, 0u, 11u, 1u}) {
    Shard shard{.name = "shard-" + std::to_string(rank), .rank = rank};
    shard.Tensor("w", kFloat, {1});
    const int64_t at = rank;
    shard.Box(0, "all", {12}, {{at, at + 1}});
    parts.push_back(shard.Manifest());
  }
  const ManifestColumns m = Merge(parts).value();
  CHECK(m.shard_names == Strings{"shard-0", "shard-1", "shard-2", "shard-10", "shard-11"});
  CHECK(m.ranks == 12);
  CHECK(m.piece_shard == std::vector<uint32_t>{0, 1, 2, 3, 4});
  CHECK(m.pieces.bounds[6] == 10);
}

TEST_CASE("merge: C41, dtype or shape that differ name both shards") {
  struct Case {
    DTypeRecord dtype;
    std::vector<int64_t> shape;
    const char* message;
  };
  const Case cases[] = {
      {kHalf, {4, 3}, "logical tensor 'w' has dtype F32 in shard 'one' and BF16 in shard 'two'"},
      {kFloat, {4}, "logical tensor 'w' has shape [4, 3] in shard 'one' and [4] in shard 'two'"},
      {kFloat, {3, 4}, "shape [4, 3] in shard 'one' and [3, 4] in shard 'two'"},
  };
  for (const Case& c : cases) {
    Shard one{.name = "one", .rank = 0}, two{.name = "two", .rank = 1};
    one.Tensor("w", kFloat, {4, 3});
    two.Tensor("w", c.dtype, c.shape);
    const Status status = Merge({one.Manifest(), two.Manifest()}).status();
    INFO(status.message());
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(status.message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("merge: a dtype of the future cannot be described in two ways") {
  Shard one{.name = "one", .rank = 0}, two{.name = "two", .rank = 1};
  one.Tensor("v", {999, 24, 1, 3}, {4});
  two.Tensor("w", {999, 24, 1, 4}, {4});
  CHECK(Merge({one.Manifest(), two.Manifest()}).status().code() == StatusCode::kMismatch);
}

TEST_CASE("merge: a shard name twice is refused") {
  Shard one{.name = "s", .rank = 3}, two{.name = "s", .rank = 1};
  const Status status = Merge({one.Manifest(), two.Manifest()}).status();
  CHECK(status.code() == StatusCode::kAlreadyExists);
  CHECK(status.message().find("'s'") != std::string::npos);
}

TEST_CASE("merge: nothing") {
  const ManifestColumns m = Merge({}).value();
  CHECK(m.shard_names.empty());
  CHECK(m.pieces.size() == 0);
}

namespace {

// What a manifest says, free of positions.
using Fact = std::tuple<std::string, std::string, uint32_t, uint64_t, std::vector<uint64_t>>;
std::multiset<Fact> Facts(const ManifestView& m) {
  std::multiset<Fact> facts;
  for (uint32_t i = 0; i < m.pieces.size(); ++i) {
    const auto bounds = m.pieces.bounds_of(i);
    facts.emplace(m.pieces.logical_names[m.pieces.logical[i]], m.shard_names[m.piece_shard[i]],
                  m.pieces.tensor[i], m.pieces.element_offset[i],
                  std::vector<uint64_t>(bounds.begin(), bounds.end()));
  }
  return facts;
}

std::vector<ManifestColumns> RandomParts(std::mt19937& random, std::multiset<Fact>& facts) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::map<std::string, std::vector<int64_t>> logical;
  for (uint32_t i = 0, n = 1 + below(12); i < n; ++i) {
    std::vector<int64_t>& shape = logical["t" + std::to_string(below(40))];
    shape.clear();
    for (uint32_t d = 0, rank = below(4); d < rank; ++d) shape.push_back(below(6));
  }
  std::vector<ManifestColumns> parts;
  for (uint32_t s = 0, n = 1 + below(9); s < n; ++s) {
    Shard shard{.name = "s" + std::to_string(s), .rank = below(4)};
    for (uint32_t t = 0, tensors = below(4); t < tensors; ++t) {
      shard.Tensor("x" + std::to_string(t), kFloat, {10000});
      uint64_t offset = 0;
      for (const auto& [name, shape] : logical) {
        if (below(2) == 0 && offset > 0) continue;
        std::vector<Range> box;
        std::vector<uint64_t> bounds, extents;
        uint64_t elements = 1;
        for (const int64_t dim : shape) {
          const int64_t begin = below(static_cast<uint32_t>(dim) + 1);
          const int64_t extent = below(static_cast<uint32_t>(dim - begin) + 1);
          box.push_back({begin, begin + extent});
          bounds.push_back(begin);
          extents.push_back(extent);
          elements *= extent;
        }
        bounds.insert(bounds.end(), extents.begin(), extents.end());
        REQUIRE(AppendPiece(shard.index.pieces, t,
                            {.logical_name = name,
                             .logical_shape = shape,
                             .box = box,
                             .element_offset = offset})
                    .ok());
        facts.emplace(name, shard.name, t, offset, bounds);
        offset += elements;
      }
    }
    parts.push_back(shard.Manifest());
  }
  return parts;
}

}  // namespace

TEST_CASE("merge: any order and any grouping of the parts gives the same bytes") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::multiset<Fact> facts;
    std::vector<ManifestColumns> parts = RandomParts(random, facts);
    const auto bytes = EncodeManifest(Merge(parts).value()).value();
    const Result<ManifestView> parsed = ParseManifest(bytes);
    REQUIRE(parsed.status().message() == "");
    CHECK(Facts(*parsed) == facts);

    std::shuffle(parts.begin(), parts.end(), random);
    CHECK(EncodeManifest(Merge(parts).value()).value() == bytes);
    const size_t half = parts.size() / 2;
    const ManifestColumns first = Merge({parts.begin(), parts.begin() + half}).value();
    const ManifestColumns second = Merge({parts.begin() + half, parts.end()}).value();
    CHECK(EncodeManifest(Merge({second, first}).value()).value() == bytes);
  }
}

TEST_CASE("merge: digests of content follow their shards, and are kept where all have them") {
  std::vector<ManifestColumns> parts;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Shard shard{"s" + std::to_string(rank), rank};
    shard.Tensor("t" + std::to_string(rank), kFloat, {2});
    parts.push_back(shard.Manifest());
    parts.back().shard_content = {{100 + rank, 200 + rank}};
  }
  const std::vector<Hash128> ordered = {{100, 200}, {101, 201}, {102, 202}};
  CHECK(Merge({parts[2], parts[0], parts[1]})->shard_content == ordered);
  // A rank without shards has none to give.
  CHECK(Merge({parts[0], ManifestColumns(), parts[1], parts[2]})->shard_content == ordered);
  parts[1].shard_content.clear();
  CHECK(Merge(parts)->shard_content.empty());
}

TEST_CASE("the content digest of a checkpoint is over ranks and contents in order") {
  ManifestColumns m;
  m.shard_names = {"a", "b"};
  m.shard_rank = {1, 7};
  CHECK_FALSE(ContentOf(ViewOf(m)));
  m.shard_content = {{0x0102030405060708, 9}, {10, 11}};
  std::vector<std::byte> bytes;
  const auto add = [&bytes](uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  add(2, 4);
  add(1, 4);
  add(0x0102030405060708, 8);
  add(9, 8);
  add(7, 4);
  add(10, 8);
  add(11, 8);
  CHECK(ContentOf(ViewOf(m)) == HashChunk(bytes));
  std::swap(m.shard_content[0], m.shard_content[1]);
  CHECK(ContentOf(ViewOf(m)) != HashChunk(bytes));
}
