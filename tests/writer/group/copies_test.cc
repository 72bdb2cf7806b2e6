#include "writer/group/copies.h"

#include <numeric>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

/// One tensor of a rank: floats that hold `pieces` of logical tensors; none: one of its own name.
struct Stored {
  std::vector<float> values;
  std::vector<int64_t> shape;
  std::vector<OwnedPiece> pieces = {};
  Encoding encoding = Encoding::kRaw;
  std::string name = "t";
};

OwnedPiece Box(std::vector<int64_t> shape, std::vector<Range> box, uint64_t offset = 0,
               uint32_t group = 0) {
  return {.logical_name = "w",
          .logical_shape = std::move(shape),
          .box = std::move(box),
          .element_offset = offset,
          .replica_group = group};
}
OwnedPiece Flat(int64_t begin, int64_t end) {
  return {
      .logical_name = "w", .logical_shape = {8}, .form = Piece::Form::kFlat, .flat = {begin, end}};
}

/// What a group of ranks that each save one of them is told.
Status Check(const std::vector<Stored>& ranks) {
  TempDir dir;
  std::vector<RankSummary> summaries;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Stored& stored = ranks[rank];
    std::vector<Piece> pieces;
    for (const OwnedPiece& piece : stored.pieces) pieces.push_back(piece.view());
    const auto provider = MakeProvider([&](Description& d) {
      d.Tensor(stored.name, {.data = stored.values.data(),
                             .dtype = kF32,
                             .shape = stored.shape,
                             .encoding = stored.encoding,
                             .pieces = pieces});
    });
    const std::string name = "shard-" + std::to_string(rank);
    REQUIRE(SaveFile(dir / name, *provider, {}, {.pool_bytes = 8 * kMiB}).ToString() == "Ok");
    std::vector<ShardSummary> shards = {
        SummaryOfFile(dir / name, name, static_cast<int>(rank)).value()};
    summaries.push_back(Merge(std::move(shards)).value());
    // As it travels.
    Report report;
    report.contents = summaries.back().contents;
    const auto bytes = EncodeReport(report);
    summaries.back().contents = DecodeReport(bytes).value().contents;
  }
  std::vector<format::ManifestView> parts;
  std::vector<std::vector<StoredContent>> contents;
  for (const RankSummary& summary : summaries) {
    parts.push_back(ViewOf(summary.manifest));
    contents.insert(contents.end(), summary.contents.begin(), summary.contents.end());
  }
  const auto manifest = format::MergeManifests(parts);
  REQUIRE(manifest.ok());
  return CheckCopies(ViewOf(*manifest), contents);
}

std::vector<float> Counting(size_t count, float first = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace

TEST_CASE("copies: equal ones stand, however they are stored") {
  const OwnedPiece half = Box({2, 4}, {{0, 1}, {0, 4}});
  CHECK(Check({{Counting(4), {4}}, {Counting(4), {4}}}).ok());
  CHECK(Check({{Counting(4), {4}}, {Counting(4), {4}, {}, Encoding::kZstd}}).ok());
  CHECK(Check({{Counting(4), {4}, {half}}, {Counting(4), {2, 2}, {half}}}).ok());
  CHECK(Check({{{}, {0}}, {{}, {0}}}).ok());
  CHECK(Check({{Counting(4), {4}, {half}}, {Counting(4), {4}, {half}, Encoding::kRaw, "u"}}).ok());
}

TEST_CASE("copies: those that differ are named, with two ranks") {
  const OwnedPiece half = Box({2, 4}, {{0, 1}, {0, 4}});
  const auto message = [](const std::vector<Stored>& ranks) {
    const Status status = Check(ranks);
    CHECK(status.code() == StatusCode::kMismatch);
    return status.message();
  };
  CHECK(message({{Counting(4), {4}}, {Counting(4), {4}}, {Counting(4, 1), {4}}})
            .find("tensor 't' differs between rank 0 and rank 2. What ranks save under one name is "
                  "one tensor") == 0);
  CHECK(message({{Counting(4), {4}, {half}}, {Counting(4, 1), {2, 2}, {half}}})
            .find("tensor 'w' differs between rank 0 and rank 1. ") == 0);
  const OwnedPiece claimed = Box({2, 4}, {{0, 1}, {0, 4}}, 0, 7);
  CHECK(message({{Counting(4), {4}, {claimed}}, {Counting(4, 1), {4}, {claimed}}}).find("'w'") !=
        std::string::npos);
  CHECK(message({{Counting(4), {4}, {Flat(2, 6)}}, {Counting(4, 1), {4}, {Flat(2, 6)}}})
            .find("'w'") != std::string::npos);
  CHECK(message({{{0.0F}, {1}}, {{-0.0F}, {1}}}).find("'t'") != std::string::npos);
}

TEST_CASE("copies: what only reading decides is left to verification") {
  const OwnedPiece half = Box({2, 4}, {{0, 1}, {0, 4}}), other = Box({2, 4}, {{1, 2}, {0, 4}});
  SECTION("other parts") {
    CHECK(Check({{Counting(4), {4}, {half}}, {Counting(4, 4), {4}, {other}}}).ok());
  }
  SECTION("parts of a stored tensor") {
    const OwnedPiece second = Box({2, 4}, {{0, 1}, {0, 4}}, 2);
    CHECK(Check({{Counting(6), {6}, {half}}, {Counting(6, 1), {6}, {half}}}).ok());
    CHECK(Check({{Counting(6), {6}, {second}}, {Counting(6, 1), {6}, {second}}}).ok());
  }
  SECTION("overlaps") {
    CHECK(Check({{Counting(4), {4}, {Flat(0, 4)}}, {Counting(4, 9), {4}, {Flat(2, 6)}}}).ok());
  }
}
