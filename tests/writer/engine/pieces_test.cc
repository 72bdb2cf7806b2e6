#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/piece.h"
#include "dsckpt/state.h"
#include "state/description.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

const EngineOptions kSmall = {.pool_bytes = 8 * kMiB};

// Half 1 of 2 of everything, by rows.
std::vector<OwnedPiece> SecondHalf(std::string_view name, std::span<const int64_t> shape) {
  OwnedPiece piece;
  piece.logical_name = name;
  piece.logical_shape.assign(shape.begin(), shape.end());
  piece.logical_shape[0] *= 2;
  piece.box = SplitBox(piece.logical_shape, 0, 1, 2);
  return {piece};
}

std::vector<OwnedPiece> SavedPieces(const StateProvider& provider, std::string_view tensor) {
  TempDir dir;
  const std::string path = dir / "f.dsckpt";
  REQUIRE(SaveFile(path, provider, {}, kSmall).ToString() == "Ok");
  const File file = File::Open(path).value();
  return file.Pieces(file.FindTensor(tensor).value());
}

}  // namespace

TEST_CASE("pieces: C42, the usual split") {
  struct Case {
    std::vector<int64_t> shape;
    size_t dim;
    int64_t index, count;
    Range range;
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const Case cases[] = {
      {{6}, 0, 0, 4, {0, 2}},           {{6}, 0, 2, 4, {4, 6}},
      {{6}, 0, 3, 4, {6, 6}},           {{7, 5}, 1, 1, 2, {3, 5}},
      {{7, 5}, 0, 1, 2, {4, 7}},        {{1}, 0, 0, 3, {0, 1}},
      {{1}, 0, 2, 3, {1, 1}},           {{0, 4}, 0, 1, 2, {0, 0}},
      {{5}, 0, 0, 1, {0, 5}},           {{5}, 0, 4, 5, {4, 5}},
      {{3}, 0, kMax - 1, kMax, {3, 3}}, {{kMax}, 0, 1, 2, {kMax / 2 + 1, kMax}},
  };
  for (const Case& c : cases) {
    const std::vector<Range> box = SplitBox(c.shape, c.dim, c.index, c.count);
    CAPTURE(c.shape[0], c.dim, c.index, c.count);
    REQUIRE(box.size() == c.shape.size());
    CHECK(box[c.dim] == c.range);
    for (size_t dim = 0; dim < box.size(); ++dim) {
      if (dim != c.dim) CHECK(box[dim] == Range{0, c.shape[dim]});
    }
  }
}

TEST_CASE("pieces: every split covers, whatever the numbers") {
  for (int64_t size = 0; size < 20; ++size) {
    for (int64_t count = 1; count < 12; ++count) {
      int64_t next = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t shape[] = {size};
        const Range range = SplitBox(shape, 0, i, count)[0];
        CHECK(range.begin == next);
        CHECK(range.end >= range.begin);
        next = range.end;
      }
      CHECK(next == size);
    }
  }
}

TEST_CASE("pieces: Sharded gives them to tensors that name none") {
  float data[8] = {};
  const int64_t logical[] = {100};
  const Piece own = {.logical_name = "own",
                     .logical_shape = logical,
                     .form = Piece::Form::kFlat,
                     .flat = {10, 14}};
  auto state = std::make_shared<State>();
  state->AddTensor("a", data, kF32, {2, 2});
  state->AddTensor("b", data + 4, kF32, {4}, {.pieces = std::span(&own, 1)});
  const auto after = MakeProvider([&](Description& d) {
    const int64_t shape[] = {1};
    d.Tensor("c", {.data = data + 2, .dtype = kF32, .shape = shape});
  });
  const auto all = Combine({Sharded(state, SecondHalf),
                            std::shared_ptr<const StateProvider>(after.get(), [](auto*) {})});

  const auto a = SavedPieces(*all, "a");
  REQUIRE(a.size() == 1);
  CHECK(a[0].logical_name == "a");
  CHECK(a[0].logical_shape == std::vector<int64_t>{4, 2});
  CHECK(a[0].box == std::vector<Range>{{2, 4}, {0, 2}});
  const auto b = SavedPieces(*all, "b");
  REQUIRE(b.size() == 1);
  CHECK(b[0].logical_name == "own");
  CHECK(b[0].flat == Range{10, 14});
  CHECK(SavedPieces(*all, "c").empty());
}

TEST_CASE("pieces: the function of the inner Sharded counts, with the full name") {
  float data[4] = {};
  std::vector<std::string> asked;
  auto state = std::make_shared<State>();
  state->AddTensor("x/w", data, kF32, {4});
  std::shared_ptr<const StateProvider> inner =
      Sharded(state, [&](std::string_view name, std::span<const int64_t>) {
        asked.emplace_back(name);
        return std::vector<OwnedPiece>();
      });
  std::shared_ptr<const StateProvider> prefixed = WithPrefix("rank", inner);
  const auto outer = Sharded(prefixed, SecondHalf);
  CHECK(SavedPieces(*outer, "rank/x/w").empty());
  CHECK(asked == std::vector<std::string>{"rank/x/w"});
}

TEST_CASE("pieces: State keeps copies") {
  float data[4] = {};
  State state;
  {
    std::string name = "logical/w";
    std::vector<int64_t> shape = {2, 4};
    std::vector<Range> box = {{1, 2}, {0, 4}};
    const Piece piece = {
        .logical_name = name, .logical_shape = shape, .box = box, .replica_group = 3};
    state.AddTensor("w", data, kF32, {4}, {.pieces = std::span(&piece, 1)});
    name.assign(name.size(), 'x');
    shape.assign(2, -1);
    box.assign(2, {9, 9});
  }
  const State moved = std::move(state);
  const auto pieces = SavedPieces(moved, "w");
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].logical_name == "logical/w");
  CHECK(pieces[0].logical_shape == std::vector<int64_t>{2, 4});
  CHECK(pieces[0].box == std::vector<Range>{{1, 2}, {0, 4}});
  CHECK(pieces[0].replica_group == 3);
}

TEST_CASE("pieces: a ZeRO partition holds parts of several parameters and is one itself") {
  float data[10] = {};
  const int64_t weight[] = {3, 3}, bias[] = {5}, flat[] = {20};
  const Piece pieces[] = {
      {.logical_name = "flat", .logical_shape = flat, .form = Piece::Form::kFlat, .flat = {0, 10}},
      {.logical_name = "weight",
       .logical_shape = weight,
       .form = Piece::Form::kFlat,
       .flat = {2, 9}},
      {.logical_name = "bias",
       .logical_shape = bias,
       .form = Piece::Form::kFlat,
       .flat = {0, 3},
       .element_offset = 7},
  };
  State state;
  state.AddTensor("partition", data, kF32, {10}, {.pieces = pieces});
  const auto saved = SavedPieces(state, "partition");
  REQUIRE(saved.size() == 3);
  CHECK(saved[0].logical_name == "flat");
  CHECK(saved[1].logical_name == "weight");
  CHECK(saved[2].element_offset == 7);
}

TEST_CASE("pieces: what cannot be saved leaves no file") {
  TempDir dir;
  uint8_t data[4] = {};
  const int64_t logical[] = {4, 6};
  const Range box[] = {{0, 2}, {1, 5}};
  const Piece piece = {.logical_name = "w", .logical_shape = logical, .box = box};
  State state;
  state.AddTensor("q", data, DType::kF4, {8}, {.pieces = std::span(&piece, 1)});
  const std::string path = dir / "f.dsckpt";
  const Status status = SaveFile(path, state, {}, kSmall);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("'q': piece of 'w'") != std::string::npos);
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("pieces: a tied tensor that names none keeps its name as a logical tensor") {
  float data[4] = {};
  State state;
  state.AddTensor("head", data, kF32, {2, 2});
  const int64_t logical[] = {4, 2};
  const Range box[] = {{2, 4}, {0, 2}};
  const Piece piece = {.logical_name = "w", .logical_shape = logical, .box = box};
  state.AddTensor("embed", data, kF32, {2, 2}, {.pieces = std::span(&piece, 1)});
  const auto pieces = SavedPieces(state, "head");
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].logical_name == "head");
  CHECK(pieces[0].box == std::vector<Range>{{0, 2}, {0, 2}});
  CHECK(pieces[1].logical_name == "w");
}
