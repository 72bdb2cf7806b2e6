#include "format/pieces/pieces.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "format/index/index.h"
#include "tests/support/catch.h"
#include "tests/support/piece_samples.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// One stored tensor "a" F32 [6, 4] that holds a box of "w" and two flat ranges, and "q", F4 [8].
IndexColumns MakeIndex() {
  IndexColumns c;
  c.dtypes = {{12, 32, 1, 4}, {23, 4, 2, 1}};
  c.tensor_names.Append("a");
  c.tensor_names.Append("q");
  c.tensor_dtype = {0, 1};
  c.dims = {6, 4, 8};
  c.dim_end = {2, 3};
  c.tensors = {{4096, 4192}, {96, 4}, {96, 4}, {0, 0}, {1, 2}, {0, 0}};
  c.chunk_sums = {{1, 2}, {3, 4}};
  c.pieces = MakePieces();
  return c;
}

constexpr Geometry kGeometry = {.data_begin = 4096, .tail_begin = 4196, .index_offset = 8192};

Status ParseStatus(const IndexColumns& columns) {
  const auto bytes = EncodeIndex(columns).value();
  return ParseIndex(bytes, kGeometry).status();
}

template <typename A, typename B>
bool Equal(const A& a, const B& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

TEST_CASE("pieces: round trip") {
  const IndexColumns c = MakeIndex();
  const auto bytes = EncodeIndex(c).value();
  CHECK(bytes.size() <= IndexBytesBound(c));
  CHECK(bytes == EncodeIndex(c).value());
  const Result<IndexView> parsed = ParseIndex(bytes, kGeometry);
  REQUIRE(parsed.status().message() == "");
  const PieceView& v = parsed->pieces;
  REQUIRE(v.size() == 4);
  CHECK(Equal(v.logical_names.bytes, c.pieces.logical_names.bytes));
  CHECK(Equal(v.logical_dims, c.pieces.logical_dims));
  CHECK(Equal(v.bounds, c.pieces.bounds));

  const OwnedPiece box = *v.Get(0);
  CHECK(box.logical_name == "w");
  CHECK(box.logical_shape == std::vector<int64_t>{4, 4});
  CHECK(box.form == Piece::Form::kBox);
  CHECK(box.box == std::vector<Range>{{1, 3}, {0, 4}});
  CHECK(box.replica_group == 7);
  CHECK(v.elements(0) == 8u);
  const OwnedPiece flat = *v.Get(1);
  CHECK(flat.logical_name == "b");
  CHECK(flat.form == Piece::Form::kFlat);
  CHECK(flat.flat == Range{90, 100});
  CHECK(flat.element_offset == 8);
  CHECK(v.elements(1) == 10u);
  CHECK(v.Get(3)->logical_name == "q");
}

TEST_CASE("pieces: an index without any has no table for them") {
  IndexColumns c = MakeIndex();
  c.pieces = {};
  const auto bytes = EncodeIndex(c).value();
  const Result<IndexView> parsed = ParseIndex(bytes, kGeometry);
  REQUIRE(parsed.ok());
  CHECK(parsed->pieces.size() == 0);
  CHECK(bytes.size() + 200 < EncodeIndex(MakeIndex()).value().size());
}

TEST_CASE("pieces: a form of the future fails that piece only") {
  IndexColumns c = MakeIndex();
  c.pieces.form[1] = 9;
  c.pieces.bounds.insert(c.pieces.bounds.begin() + 6, {1, 2, 3});
  for (uint32_t i = 1; i < 4; ++i) c.pieces.bounds_end[i] += 3;
  c.pieces.element_offset[1] = 19;  // Beyond the tensor, for all that is known.
  const auto bytes = EncodeIndex(c).value();
  const Result<IndexView> parsed = ParseIndex(bytes, kGeometry);
  REQUIRE(parsed.status().message() == "");
  CHECK(!parsed->pieces.Get(1));
  CHECK(!parsed->pieces.elements(1));
  CHECK(parsed->pieces.bounds_of(1).size() == 5);
  CHECK(parsed->pieces.Get(2)->flat == Range{0, 4});
}

TEST_CASE("pieces: empty ones are legal") {
  IndexColumns c = MakeIndex();
  for (uint64_t& bound : c.pieces.bounds) bound = 0;
  c.pieces.element_offset[2] = 24;
  CHECK(ParseStatus(c).message() == "");
  c.pieces.element_offset[2] = 25;
  CHECK(ParseStatus(c).code() == StatusCode::kCorrupt);
}

TEST_CASE("pieces: one broken rule at a time") {
  struct Case {
    const char* name;
    const char* message;
    std::function<void(PieceColumns&)> change;
  };
  using P = PieceColumns;
  const auto rename = [](P& p, std::vector<std::string> to) {
    p.logical_names = {};
    for (const std::string& name : to) p.logical_names.Append(name);
  };
  const std::vector<Case> cases = {
      {"dim_end column", "pieces.logical_dim_end: entries: expected 3, found 2",
       [](P& p) { p.logical_dim_end.pop_back(); }},
      {"logical column", "pieces.logical: entries", [](P& p) { p.logical.pop_back(); }},
      {"offset column", "pieces.element_offset", [](P& p) { p.element_offset.push_back(0); }},
      {"form column", "pieces.form", [](P& p) { p.form.pop_back(); }},
      {"bounds_end column", "pieces.bounds_end", [](P& p) { p.bounds_end.pop_back(); }},
      {"group column", "pieces.replica_group", [](P& p) { p.replica_group.clear(); }},
      {"tensor column", "pieces.logical: entries: expected 3, found 4",
       [](P& p) { p.tensor.pop_back(); }},
      {"names out of order", "above 'q'",
       [&](P& p) {
         rename(p, {"q", "b", "w"});
       }},
      {"name twice", "above 'b'",
       [&](P& p) {
         rename(p, {"b", "b", "w"});
       }},
      {"reserved name", "legal item name",
       [&](P& p) {
         rename(p, {"__dsckpt__", "q", "w"});
       }},
      {"name not UTF-8", "legal item name",
       [&](P& p) {
         rename(p, {"b", "q", "\xff"});
       }},
      {"name bytes left", "logical tensor names: bytes",
       [](P& p) { p.logical_names.bytes += 'x'; }},
      {"dim_end falls", "logical tensor 'q': dim_end", [](P& p) { p.logical_dim_end[1] = 0; }},
      {"dim_end too far", "logical tensor 'w': dim_end", [](P& p) { p.logical_dim_end[2] = 5; }},
      {"dims left", "pieces.logical_dims: entries", [](P& p) { p.logical_dims.push_back(1); }},
      {"rank", "logical tensor 'b': dim_end",
       [](P& p) {
         p.logical_dims.insert(p.logical_dims.begin(), kMaxRank, 1);
         for (uint32_t& end : p.logical_dim_end) end += kMaxRank;
       }},
      {"negative dimension", "logical tensor 'b': shape", [](P& p) { p.logical_dims[0] = -1; }},
      {"C48: product wraps", "logical tensor 'w': shape",
       [](P& p) { p.logical_dims[2] = int64_t{1} << 62; }},
      {"bytes wrap", "piece 1 of 'b': logical shape", [](P& p) { p.logical_dims[0] = kHuge; }},
      {"logical ordinal", "piece 2: logical: expected below 3, found 3",
       [](P& p) { p.logical[2] = 3; }},
      {"tensor ordinal", "piece 3 of 'q': tensor: expected below 2, found 2",
       [](P& p) { p.tensor[3] = 2; }},
      {"bounds_end falls", "piece 1 of 'b': bounds_end", [](P& p) { p.bounds_end[1] = 3; }},
      {"bounds_end too far", "piece 3 of 'q': bounds_end", [](P& p) { p.bounds_end[3] = 11; }},
      {"bounds left", "pieces.bounds: entries", [](P& p) { p.bounds.push_back(0); }},
      {"tensors out of order", "piece 1: order", [](P& p) { p.tensor[0] = 1; }},
      {"offsets out of order", "piece 2: order", [](P& p) { p.element_offset[2] = 4; }},
      {"logical out of order", "piece 2: order",
       [](P& p) {
         p.element_offset[2] = 8;
         p.logical[1] = 1;
         p.bounds[4] = 0;
         p.bounds[5] = 2;
       }},
      {"a piece twice", "piece 2: order",
       [](P& p) {
         p.element_offset[2] = 8;
         p.bounds[6] = 90;
         p.bounds[7] = 10;
       }},
      {"box beyond", "piece 0 of 'w': box: expected within dimension 0 of 4, found 1 + 4",
       [](P& p) { p.bounds[2] = 4; }},
      {"box wraps", "piece 0 of 'w': box: expected within dimension 1",
       [](P& p) {
         p.bounds[1] = 1;
         p.bounds[3] = UINT64_MAX;
       }},
      {"box bounds missing", "piece 0 of 'w': box: expected 4 bounds, found 3",
       [](P& p) {
         p.bounds.erase(p.bounds.begin());
         for (uint32_t& end : p.bounds_end) --end;
       }},
      {"flat beyond", "piece 1 of 'b': flat range: expected within 100 elements, found 91 + 10",
       [](P& p) { p.bounds[4] = 91; }},
      {"flat wraps", "piece 1 of 'b': flat range", [](P& p) { p.bounds[5] = UINT64_MAX - 80; }},
      {"flat bounds", "piece 1 of 'b': flat range: expected 2 bounds, found 3",
       [](P& p) {
         p.bounds.insert(p.bounds.begin() + 4, 0);
         for (uint32_t i = 1; i < 4; ++i) ++p.bounds_end[i];
       }},
      {"beyond the tensor", "piece 2 of 'b': element_offset",
       [](P& p) { p.element_offset[2] = 21; }},
      {"offset wraps", "piece 2 of 'b': element_offset",
       [](P& p) { p.element_offset[2] = UINT64_MAX; }},
      {"cut block: offset", "piece 3 of 'q': element_offset: expected multiples of 2 elements",
       [](P& p) {
         p.element_offset[3] = 1;
         p.bounds[9] = 2;
       }},
      {"cut block: box begin", "piece 3 of 'q': box: expected rows that begin and end at",
       [](P& p) { p.bounds[8] = 1; }},
      {"cut block: box extent", "piece 3 of 'q': box: expected rows",
       [](P& p) { p.bounds[9] = 3; }},
      {"cut block: logical", "piece 3 of 'q': logical shape", [](P& p) { p.logical_dims[1] = 13; }},
      {"cut block: flat begin", "piece 3 of 'q': flat range: expected multiples",
       [](P& p) {
         p.form[3] = 1;
         p.bounds[8] = 3;
       }},
      {"cut block: flat count", "piece 3 of 'q': flat range: expected multiples",
       [](P& p) {
         p.form[3] = 1;
         p.bounds[9] = 3;
       }},
  };
  for (const Case& broken : cases) {
    INFO(broken.name);
    IndexColumns c = MakeIndex();
    broken.change(c.pieces);
    const Status status = ParseStatus(c);
    INFO(status.message());
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find(broken.message) != std::string::npos);
  }
}

TEST_CASE("pieces: boxes of packed dtypes") {
  struct Case {
    const char* name;
    bool legal;
    std::vector<int64_t> shape;
    std::vector<uint64_t> bounds;
  };
  const Case cases[] = {
      {"whole, odd rows", true, {2, 3}, {0, 0, 2, 3}},
      {"a row of two odd ones", false, {2, 3}, {0, 0, 1, 3}},
      {"even rows", true, {3, 2}, {1, 0, 1, 2}},
      {"begin in a byte", false, {2, 4}, {0, 1, 2, 2}},
      {"end in a byte", false, {2, 4}, {0, 0, 2, 3}},
      {"scalar", false, {}, {}},
      {"empty", true, {2, 4}, {2, 0, 0, 4}},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    IndexColumns index = MakeIndex();
    PieceColumns p;
    p.logical_names.Append("q");
    p.logical_dims = c.shape;
    p.logical_dim_end = {static_cast<uint32_t>(c.shape.size())};
    p.tensor = {1};
    p.logical = {0};
    p.element_offset = {0};
    p.form = {0};
    p.bounds = c.bounds;
    p.bounds_end = {static_cast<uint32_t>(c.bounds.size())};
    p.replica_group = {0};
    index.pieces = p;
    CHECK((ParseStatus(index).code() == StatusCode::kOk) == c.legal);
  }
}

TEST_CASE("pieces: every flipped byte is refused or harmless") {
  const auto bytes = EncodeIndex(MakeIndex()).value();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xFF}}) {
      auto changed = bytes;
      changed[i] ^= mask;
      const Result<IndexView> parsed = ParseIndex(changed, kGeometry);
      if (!parsed.ok()) continue;
      // Whatever passed must be safe to look at.
      for (uint32_t p = 0; p < parsed->pieces.size(); ++p) {
        if (const auto piece = parsed->pieces.Get(p)) CHECK(piece->logical_name.size() < 10);
      }
    }
  }
}
