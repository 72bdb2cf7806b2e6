#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "format/header/header.h"
#include "format/manifest/manifest.h"
#include "state/description.h"
#include "state/file_layout.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

char memory[1 << 12];  // LaidOutState, never read.
constexpr int64_t kSix[] = {6}, kTwelve[] = {12}, kEight[] = {8};

OwnedPiece Box(std::string name, std::vector<int64_t> shape, std::vector<Range> box,
               uint64_t offset = 0) {
  return {.logical_name = std::move(name),
          .logical_shape = std::move(shape),
          .box = std::move(box),
          .element_offset = offset};
}

OwnedPiece Flat(std::string name, std::vector<int64_t> shape, Range range, uint64_t offset = 0) {
  return {.logical_name = std::move(name),
          .logical_shape = std::move(shape),
          .form = Piece::Form::kFlat,
          .flat = range,
          .element_offset = offset};
}

void Add(Description& d, std::string_view name, const std::vector<OwnedPiece>& pieces,
         const void* data = memory, DType dtype = kF32, std::span<const int64_t> shape = kSix) {
  std::vector<Piece> views;
  for (const OwnedPiece& piece : pieces) views.push_back(piece.view());
  d.Tensor(name, {.data = data, .dtype = dtype, .shape = shape, .pieces = views});
}

Status BuildStatus(const Description& d, bool shard = true) {
  return BuildFileLayout(d.data(), shard, {}).status();
}

PieceColumns Stored(const Description& d) {
  Result<FileLayout> layout = BuildFileLayout(d.data(), true, {});
  REQUIRE(layout.status().message() == "");
  return std::move(layout->columns.pieces);
}

std::vector<std::string> Texts(const PieceColumns& columns) {
  const PieceView pieces = ViewOf(columns);
  std::vector<std::string> out;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const OwnedPiece piece = *pieces.Get(i);
    std::string text = std::to_string(pieces.tensor[i]) + "+" +
                       std::to_string(piece.element_offset) + " " + piece.logical_name;
    const auto add = [&text](const Range& range) {
      text += " " + std::to_string(range.begin) + ":" + std::to_string(range.end);
    };
    for (const Range& range : piece.box) add(range);
    if (piece.form == Piece::Form::kFlat) add(piece.flat);
    out.push_back(text);
  }
  return out;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("description: a piece that cannot be is refused, with tensor and logical tensor") {
  struct Case {
    const char* name;
    OwnedPiece piece;
    const char* message;
    DType dtype = kF32;
    std::span<const int64_t> shape = kSix;
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const Case cases[] = {
      {"reserved name", Box("__dsckpt__", {6}, {{0, 6}}), "logical name"},
      {"ranges for dimensions", Box("w", {6}, {{0, 6}, {0, 1}}),
       "the box has 2 ranges for a logical shape of 1 dimensions"},
      {"range falls", Box("w", {6}, {{4, 2}}), "the range 4 to 2 is none"},
      {"range below zero", Box("w", {6}, {{-1, 2}}), "the range -1 to 2"},
      {"flat falls", Flat("w", {6}, {4, 2}), "the range 4 to 2"},
      {"box beyond", Box("w", {6}, {{2, 7}}), "box: expected within dimension 0 of 6"},
      {"flat beyond", Flat("w", {2, 2}, {2, 5}), "flat range: expected within 4 elements"},
      {"negative shape", Box("w", {-6}, {{0, 0}}), "logical shape"},
      {"shape wraps", Flat("w", {kMax, 2}, {0, 1}), "logical shape"},
      {"bytes wrap", Flat("w", {kMax / 2}, {0, 1}), "logical shape"},
      {"more than the tensor", Box("w", {7}, {{0, 7}}), "within the stored tensor's 6 elements"},
      {"offset", Box("w", {6}, {{0, 6}}, 1), "within the stored tensor's 6 elements"},
      {"packed box", Box("w", {4, 6}, {{0, 1}, {1, 5}}), "box: expected rows", DType::kF4, kEight},
      {"packed offset", Box("w", {2}, {{0, 2}}, 1), "element_offset: expected multiples of 2",
       DType::kI4, kEight},
      {"packed flat", Flat("w", {8}, {1, 3}), "flat range: expected multiples of 2", DType::kU4,
       kEight},
      {"packed F6", Flat("w", {8}, {0, 2}), "multiples of 4", DType::kF6E2M3, kEight},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    Description d;
    d.Begin(NodeKind::kDict, "model");
    Add(d, "part", {c.piece}, memory, c.dtype, c.shape);
    const Status status = d.status();
    INFO(status.message());
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find("'model/part': piece of '" + c.piece.logical_name + "'") == 0);
    CHECK(status.message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("description: a piece of unknown form, or of 65 dimensions, is refused") {
  Description d;
  OwnedPiece piece = Box("w", {6}, {{0, 6}});
  piece.form = Piece::Form{2};
  Add(d, "t", {piece});
  CHECK(d.status().code() == StatusCode::kInvalidArgument);
  Description e;
  Add(e, "t", {Flat("w", std::vector<int64_t>(65, 1), {0, 1})});
  CHECK(e.status().code() == StatusCode::kLimitExceeded);
}

TEST_CASE("layout: pieces are sorted, their logical tensors shared") {
  Description d;
  Add(d, "z", {Flat("w", {12}, {6, 10}, 2), Box("b", {2}, {{0, 2}})}, memory);
  Add(d, "a", {Flat("w", {12}, {0, 6})}, memory + 64);
  Add(d, "whole", {}, memory + 128);
  const PieceColumns pieces = Stored(d);
  CHECK(Texts(pieces) == Strings{"0+0 w 0:6", "2+0 b 0:2", "2+2 w 6:10"});
  CHECK(pieces.logical_names.size() == 2);
  CHECK(pieces.logical_dims == std::vector<int64_t>{2, 12});
}

TEST_CASE("layout: without pieces there are no columns for them") {
  Description d;
  Add(d, "t", {});
  CHECK(Stored(d).logical_names.size() == 0);
  CHECK(d.data().identity.pieces.size() == 0);
}

TEST_CASE("layout: a stored tensor gets the pieces of all that are tied to it") {
  Description d;
  SECTION("each names one") {
    Add(d, "embed", {Box("embed", {12}, {{0, 6}})});
    Add(d, "head", {Box("head", {12}, {{0, 6}})});
    CHECK(Texts(Stored(d)) == Strings{"0+0 embed 0:6", "0+0 head 0:6"});
  }
  SECTION("both name the same") {
    Add(d, "embed", {Box("w", {12}, {{0, 6}})});
    Add(d, "head", {Box("w", {12}, {{0, 6}})});
    CHECK(Texts(Stored(d)) == Strings{"0+0 w 0:6"});
  }
  SECTION("two parts of one logical tensor") {
    Add(d, "embed", {Box("w", {12}, {{6, 12}})});
    Add(d, "head", {Box("w", {12}, {{0, 6}})});
    CHECK(Texts(Stored(d)) == Strings{"0+0 w 0:6", "0+0 w 6:12"});
  }
  SECTION("one names none: its name stays a logical tensor") {
    Add(d, "embed", {Box("w", {12}, {{0, 6}})});
    Add(d, "head", {});
    CHECK(Texts(Stored(d)) == Strings{"0+0 head 0:6", "0+0 w 0:6"});
  }
  SECTION("the stored one names none") {
    Add(d, "head", {Box("w", {12}, {{0, 6}})});
    Add(d, "embed", {});
    Add(d, "third", {});
    CHECK(Texts(Stored(d)) == Strings{"0+0 embed 0:6", "0+0 third 0:6", "0+0 w 0:6"});
  }
  SECTION("none names any") {
    Add(d, "head", {});
    Add(d, "embed", {});
    CHECK(Stored(d).size() == 0);
  }
}

TEST_CASE("layout: a logical tensor has one shape and one dtype") {
  Description d;
  SECTION("shape") {
    Add(d, "a", {Box("w", {12}, {{0, 6}})});
    Add(d, "b", {Box("w", {13}, {{0, 6}})}, memory + 64);
    CHECK(BuildStatus(d).message() ==
          "logical tensor 'w' has shape [12] in tensor 'a' and [13] in 'b'");
  }
  SECTION("dtype") {
    Add(d, "a", {Box("w", {12}, {{0, 6}})});
    Add(d, "b", {Box("w", {12}, {{6, 12}})}, memory + 64, kI32);
    CHECK(BuildStatus(d).message() ==
          "logical tensor 'w' has dtype F32 in tensor 'a' and I32 in 'b'");
  }
  SECTION("shape of a tensor that is one without saying so") {
    Add(d, "a", {Box("b", {12}, {{0, 6}})});
    Add(d, "b", {}, memory + 64);
    CHECK(BuildStatus(d).message() ==
          "logical tensor 'b' has shape [12] in tensor 'a' and [6] in 'b'");
  }
  SECTION("dtype of a tied tensor that is one without saying so") {
    Add(d, "a", {Box("c", {6}, {{0, 6}})});
    Add(d, "b", {}, memory + 64, kI32);
    Add(d, "c", {}, memory + 64, kI32);
    CHECK(BuildStatus(d).message() ==
          "logical tensor 'c' has dtype F32 in tensor 'a' and I32 in 'c'");
  }
  CHECK(BuildStatus(d).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("layout: a whole tensor and an equal piece of its name agree") {
  Description d;
  Add(d, "a", {Box("b", {6}, {{0, 6}})});
  Add(d, "b", {}, memory + 64);
  const FileLayout layout = BuildFileLayout(d.data(), true, {}).value();
  const auto manifest = ManifestOfShard({"s"}, ViewOf(layout.columns));
  REQUIRE(manifest.ok());
  CHECK(manifest->pieces.size() == 2);
  CHECK(manifest->pieces.logical_names.size() == 1);
}

TEST_CASE("layout: pieces belong to what a layout depends on") {
  const auto describe = [](std::function<void(std::vector<OwnedPiece>&)> change) {
    Description d;
    std::vector<OwnedPiece> pieces = {Box("w", {12}, {{0, 4}}), Flat("b", {9}, {3, 5}, 4)};
    change(pieces);
    Add(d, "t", pieces);
    return d;
  };
  const Description built = describe([](auto&) {});
  const FileLayout layout = BuildFileLayout(built.data(), true, {}).value();
  const auto holds = [&](std::function<void(std::vector<OwnedPiece>&)> change) {
    return FileLayoutHolds(layout, built.data(), describe(change).data(), true, {});
  };
  using V = std::vector<OwnedPiece>;
  CHECK(holds([](V&) {}));
  CHECK(!holds([](V& p) { p.clear(); }));
  CHECK(!holds([](V& p) { p.pop_back(); }));
  CHECK(!holds([](V& p) { p[0].logical_name = "v"; }));
  CHECK(!holds([](V& p) { p[0].logical_shape = {13}; }));
  CHECK(!holds([](V& p) { p[0].box = {{1, 5}}; }));
  CHECK(!holds([](V& p) { p[1].flat = {4, 6}; }));
  CHECK(!holds([](V& p) { p[1].element_offset = 3; }));
  CHECK(!holds([](V& p) { p[0].replica_group = 1; }));
}

TEST_CASE("layout: plain safetensors cannot say of what a tensor is a part") {
  Description d;
  Add(d, "t", {Box("w", {12}, {{0, 6}})});
  const Status status = BuildStatus(d, false);
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(status.message().find("'t', part of logical tensor 'w'") != std::string::npos);
}
