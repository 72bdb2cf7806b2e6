#include "reader/checkpoint/coverage.h"

#include <algorithm>
#include <random>
#include <vector>

#include "format/manifest/manifest.h"
#include "format/pieces/pieces.h"
#include "reader/checkpoint/part_map.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::reader;

// Coverage and overlaps against their definitions, and how many steps they take. Steps are counted,
// not timed.

namespace {

std::vector<const Box*> Pointers(const std::vector<Box>& boxes) {
  std::vector<const Box*> pointers;
  for (const Box& box : boxes) pointers.push_back(&box);
  return pointers;
}

bool Holds(const Box& box, const std::vector<int64_t>& at) {
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < box[i].begin || at[i] >= box[i].end) return false;
  }
  return true;
}

/// Calls `use` with each element of a box.
template <typename Use>
void ForEachElement(const Box& box, Use&& use) {
  std::vector<int64_t> at;
  for (const Range& range : box) at.push_back(range.begin);
  while (true) {
    use(at);
    size_t dim = at.size();
    while (dim > 0 && ++at[dim - 1] == box[dim - 1].end) {
      at[dim - 1] = box[dim - 1].begin;
      --dim;
    }
    if (dim == 0) return;
  }
}

/// A manifest of one F32 logical tensor, its pieces in one shard or in one each.
format::ManifestColumns ManifestOf(const std::vector<int64_t>& shape,
                                   const std::vector<Piece>& pieces, bool one_shard) {
  format::ManifestColumns manifest;
  manifest.dtypes = {{12, 32, 1, 4}};
  manifest.logical_dtype = {0};
  manifest.pieces.logical_names.Append("w");
  manifest.pieces.logical_dims = shape;
  manifest.pieces.logical_dim_end = {static_cast<uint32_t>(shape.size())};
  format::PieceColumns all;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    REQUIRE(format::AppendPiece(all, 0, pieces[i]).ok());
    manifest.piece_shard.push_back(one_shard ? 0 : i);
    if (i == 0 || !one_shard) manifest.shard_names.push_back("s" + std::to_string(i));
  }
  all.logical.assign(pieces.size(), 0);
  all.logical_names = manifest.pieces.logical_names;
  all.logical_dims = manifest.pieces.logical_dims;
  all.logical_dim_end = manifest.pieces.logical_dim_end;
  manifest.pieces = all;
  return manifest;
}

/// What a map of the pieces says of the whole tensor, in at most `steps` steps.
std::optional<Box> GapWithin(uint64_t steps, const std::vector<int64_t>& shape,
                             const std::vector<Piece>& pieces) {
  // In a shard each, so that none of them claims too much.
  const format::ManifestColumns manifest = ManifestOf(shape, pieces, false);
  const PartMap map(ViewOf(manifest), 0);
  REQUIRE(map.status().ok());
  const Box whole = WholeBox(map.shape());
  CHECK(map.work() + map.GapWork(whole) <= steps);
  const auto gap = map.Gap(whole);
  REQUIRE(gap.ok());
  return *gap;
}

}  // namespace

TEST_CASE("coverage: a gap is found exactly where there is one") {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  int covered = 0, open = 0;
  for (int round = 0; round < 3000; ++round) {
    const size_t rank = 1 + round % 3;
    const int64_t size = rank == 3 ? 4 : 7;
    Box wanted;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t begin = below(2);
      wanted.push_back({begin, begin + 1 + below(size - 1)});
    }
    std::vector<Box> boxes(static_cast<size_t>(below(14)));
    for (Box& box : boxes) {
      for (size_t i = 0; i < rank; ++i) {
        // Often all of a dimension, so that whole slabs come about.
        const int64_t begin = random() % 2 == 0 ? 0 : below(size);
        const int64_t end = random() % 2 == 0 ? size + 2 : begin + 1 + below(size);
        box.push_back({begin, end});
      }
    }
    bool any = false;
    ForEachElement(wanted, [&](const std::vector<int64_t>& at) {
      any = any || std::none_of(boxes.begin(), boxes.end(),
                                [&](const Box& box) { return Holds(box, at); });
    });
    WorkMeter work(boxes.size());
    const auto gap = FindGap(wanted, Pointers(boxes), work);
    REQUIRE(gap.ok());
    REQUIRE(gap->has_value() == any);
    ++(any ? open : covered);
    if (!any) continue;
    REQUIRE(Volume(**gap) > 0);
    REQUIRE(Intersect(**gap, wanted) == **gap);
    for (const Box& box : boxes) REQUIRE(!Intersects(**gap, box));
  }
  CHECK(covered > 300);
  CHECK(open > 300);
}

TEST_CASE("coverage: overlaps are found exactly where there are few boxes") {
  std::mt19937 random(8);
  for (int round = 0; round < 1000; ++round) {
    const size_t rank = 1 + round % 3;
    std::vector<Box> boxes(2 + random() % 8);
    for (Box& box : boxes) {
      for (size_t i = 0; i < rank; ++i) {
        const auto begin = static_cast<int64_t>(random() % 8);
        box.push_back({begin, begin + 1 + static_cast<int64_t>(random() % 4)});
      }
    }
    WorkMeter work(boxes.size());
    const std::vector<bool> overlaps = FindOverlaps(Pointers(boxes), work);
    for (size_t i = 0; i < boxes.size(); ++i) {
      bool expected = false;
      for (size_t j = 0; j < boxes.size(); ++j) {
        expected = expected || (i != j && Intersects(boxes[i], boxes[j]));
      }
      REQUIRE(overlaps[i] == expected);
    }
  }
}

TEST_CASE("coverage: scalars and tensors without elements") {
  WorkMeter work(1);
  const Box scalar;
  const std::vector<Box> one = {scalar};
  CHECK(FindGap(scalar, {}, work)->has_value());
  CHECK(!FindGap(scalar, Pointers(one), work)->has_value());
}

TEST_CASE("coverage: nested ranges take near-linear steps") {
  for (const int64_t count : {2000, 20000}) {
    std::vector<Piece> pieces;
    const std::vector<int64_t> shape = {2 * count};
    for (int64_t i = 0; i < count; ++i) {
      pieces.push_back({.logical_name = "w",
                        .logical_shape = shape,
                        .form = Piece::Form::kFlat,
                        .flat = {i, 2 * count - i}});
    }
    CHECK(!GapWithin(20 * static_cast<uint64_t>(count), shape, pieces));
    pieces.erase(pieces.begin());
    CHECK(GapWithin(20 * static_cast<uint64_t>(count), shape, pieces) == Box{{0, 1}});
  }
}

TEST_CASE("coverage: nested ranges of a matrix take near-linear steps") {
  const int64_t count = 2000;
  const std::vector<int64_t> shape = {2 * count, 3};
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < count; ++i) {
    pieces.push_back({.logical_name = "w",
                      .logical_shape = shape,
                      .form = Piece::Form::kFlat,
                      .flat = {i, 6 * count - i}});
  }
  CHECK(!GapWithin(uint64_t{40'000'000}, shape, pieces));
}

TEST_CASE("coverage: crossing strips take near-linear steps") {
  const int64_t count = 1000;
  const std::vector<int64_t> shape = {count, count};
  std::vector<std::vector<Range>> boxes;
  for (int64_t i = 0; i < count; ++i) {
    boxes.push_back({{i, i + 1}, {0, count}});
    boxes.push_back({{0, count}, {i, i + 1}});
  }
  const auto gap = [&] {
    std::vector<Piece> pieces;
    for (const auto& box : boxes) {
      pieces.push_back({.logical_name = "w", .logical_shape = shape, .box = box});
    }
    return GapWithin(uint64_t{20'000'000}, shape, pieces);
  };
  CHECK(!gap());
  // One row and one column are missing: one element is in neither.
  boxes.erase(boxes.begin() + 2 * 700, boxes.begin() + 2 * 700 + 2);
  CHECK(gap() == Box{{700, 701}, {700, 701}});
}

TEST_CASE("coverage: a shard that claims a tensor too often is refused by name") {
  // 65 copies of 4 MiB each, at other places of the stored tensor; 64 are one too few.
  const std::vector<int64_t> shape = {1 << 20};
  const Range whole[] = {{0, 1 << 20}};
  for (const size_t copies : {64, 65}) {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < copies; ++i) {
      pieces.push_back(
          {.logical_name = "w", .logical_shape = shape, .box = whole, .element_offset = i});
    }
    const format::ManifestColumns manifest = ManifestOf(shape, pieces, true);
    const PartMap map(ViewOf(manifest), 0);
    CHECK(map.status().ok() == (copies == 64));
    if (map.status().ok()) continue;
    CHECK(map.status().code() == StatusCode::kLimitExceeded);
    CHECK(map.status().message().find("'s0'") != std::string::npos);
    // As many ranks with one copy each are what replication comes to.
    const format::ManifestColumns spread = ManifestOf(shape, pieces, false);
    CHECK(PartMap(ViewOf(spread), 0).status().ok());
  }
}
