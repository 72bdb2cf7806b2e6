#include "tests/support/mutants.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "format/index/index.h"
#include "format/manifest/manifest.h"
#include "format/manifest/shard_match.h"
#include "state/file_layout.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

// Index and manifest with one thing changed and sums right: refused, or what they say of each other
// still holds. What matters most here is that nothing reads outside its column: run with
// sanitizers.

namespace {

struct Shard {
  IndexColumns columns;
  Geometry geometry;
};

// Two tensors with pieces, one without, an alias, an object, a tree, attributes.
Shard MakeShard() {
  static const char memory[256] = {};
  Description description;
  const int64_t shape[] = {2, 4};
  const Range half[] = {{0, 2}, {0, 4}};
  const int64_t whole[] = {4, 4};
  const Piece box{.logical_name = "q", .logical_shape = whole, .box = half};
  const Piece flat{.logical_name = "flat",
                   .logical_shape = whole,
                   .form = Piece::Form::kFlat,
                   .flat = {4, 8},
                   .element_offset = 4};
  const auto add = [&](std::string_view name, size_t at, std::span<const Piece> pieces) {
    description.Tensor(name,
                       {.data = memory + at, .dtype = kF32, .shape = shape, .pieces = pieces});
  };
  const Piece both[] = {box, flat};
  add("a", 0, both);
  add("b", 64, std::span(&box, 1));
  add("c", 128, {});
  add("d", 128, {});
  ObjectSource object;
  object.bytes = memory;
  object.size = 5;
  object.media_type = "text/plain";
  description.Object("o", object);
  description.Leaf("text", std::string("value"), "a.tag");
  description.Attribute("step", int64_t{7});
  const FileLayout layout = BuildFileLayout(description.data(), true, {}).value();
  Shard shard{layout.columns, {}};
  IndexColumns& c = shard.columns;
  c.tree = ResolveTree(description.data(), layout);
  c.attributes = description.data().attributes;
  c.chunk_sums.assign(4, {1, 2});
  c.objects.offset = {layout.appended_begin};
  c.objects.raw_bytes = c.objects.stored_bytes = {5};
  c.objects.chunk_end = {4};
  c.objects.stored_chunk_end = {0};
  shard.geometry = {layout.data_begin, layout.tail_begin, layout.appended_begin + 64};
  return shard;
}

Result<ManifestColumns> ManifestOf(const IndexView& index) {
  DSCKPT_ASSIGN_OR_RETURN(ManifestColumns manifest,
                          ManifestOfShard({"a.dsckpt", 0, 1 << 20, 4096, 17}, index));
  manifest.attempt = "1f-2";
  manifest.step = 7;
  return manifest;
}

}  // namespace

TEST_CASE("mutants: an index with one thing changed is refused, or stays usable") {
  const Shard shard = MakeShard();
  REQUIRE(ParseIndex(EncodeIndex(shard.columns).value(), shard.geometry).status().ToString() ==
          "Ok");
  size_t refused = 0;
  const size_t count =
      mutants::ForEach(shard.columns, 1, [&](const std::string& name, const IndexColumns& mutant) {
        const auto bytes = EncodeIndex(mutant).value();
        const auto index = ParseIndex(bytes, shard.geometry);
        if (!index.ok()) {
          ++refused;
          if (index.status().message().empty()) FAIL(name);
          return;
        }
        // Everything that a reader does with a good index.
        const auto manifest = ManifestOf(*index);
        if (!manifest.ok()) return;
        const auto encoded = EncodeManifest(*manifest).value();
        const auto parsed = ParseManifest(encoded);
        INFO(name << ": " << parsed.status().ToString());
        REQUIRE(parsed.ok());
        const PiecesByShard by_shard(*parsed);
        const Status same = CheckShardAgainst(*parsed, 0, by_shard.Of(0), *index);
        if (same.ok()) return;
        INFO(same.ToString());
        CHECK(same.message().find("step") != std::string::npos);
      });
  CHECK(count > 1500);
  CHECK(refused > count / 2);
}

TEST_CASE("mutants: a manifest with one thing changed is refused, or says what its shard says") {
  const Shard shard = MakeShard();
  const auto index_bytes = EncodeIndex(shard.columns).value();
  const IndexView index = ParseIndex(index_bytes, shard.geometry).value();
  const ManifestColumns manifest = ManifestOf(index).value();
  const std::vector<std::string> free = {"attempt",
                                         "ranks",
                                         "shards.rank",
                                         "shards.names",
                                         "shards.file_bytes",
                                         "shards.index_bytes",
                                         "shards.index_xxh3_64"};
  const size_t count =
      mutants::ForEach(manifest, 1, [&](const std::string& name, const ManifestColumns& mutant) {
        const auto bytes = EncodeManifest(mutant).value();
        const auto parsed = ParseManifest(bytes);
        if (!parsed.ok()) {
          if (parsed.status().message().empty()) FAIL(name);
          return;
        }
        if (bytes == EncodeManifest(manifest).value()) return;  // Nothing was changed after all.
        // What files decide (rule S2), or nobody but the manifest.
        const std::string column = name.substr(0, name.find(' '));
        if (std::find(free.begin(), free.end(), column) != free.end()) return;
        INFO(name);
        REQUIRE(parsed->shard_count() == 1);
        const PiecesByShard by_shard(*parsed);
        const Status status = CheckShardAgainst(*parsed, 0, by_shard.Of(0), index);
        CHECK(status.code() == StatusCode::kMismatch);
        CHECK(status.message().find("a.dsckpt") != std::string::npos);
      });
  CHECK(count > 500);
}

TEST_CASE("mutants: several things changed at once") {
  const Shard shard = MakeShard();
  const auto index_bytes = EncodeIndex(shard.columns).value();
  const IndexView index = ParseIndex(index_bytes, shard.geometry).value();
  const ManifestColumns manifest = ManifestOf(index).value();
  std::mt19937 random(11);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto bytes = EncodeIndex(mutants::Several(shard.columns, random)).value();
    const auto parsed = ParseIndex(bytes, shard.geometry);
    if (parsed.ok()) {
      ++accepted;
      (void)ManifestOf(*parsed);
    }
    const auto manifest_bytes = EncodeManifest(mutants::Several(manifest, random)).value();
    const auto parsed_manifest = ParseManifest(manifest_bytes);
    if (!parsed_manifest.ok()) continue;
    ++accepted;
    const PiecesByShard by_shard(*parsed_manifest);
    for (uint32_t s = 0; s < parsed_manifest->shard_count(); ++s) {
      (void)CheckShardAgainst(*parsed_manifest, s, by_shard.Of(s), index);
    }
  }
  CHECK(accepted < 5000);
}
