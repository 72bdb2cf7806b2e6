#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

using Json = nlohmann::ordered_json;
using namespace dsckpt;

namespace {

// "part" with a box and a flat range, "plain" and its tied "tied" without pieces.
void WritePieces(const std::string& path) {
  static float data[16] = {};
  const int64_t matrix[] = {4, 3}, vector[] = {20};
  const Range box[] = {{0, 2}, {0, 3}};
  const Piece pieces[] = {
      {.logical_name = "w", .logical_shape = matrix, .box = box, .replica_group = 2},
      {.logical_name = "b\x1b",
       .logical_shape = vector,
       .form = Piece::Form::kFlat,
       .flat = {10, 12},
       .element_offset = 6}};
  State state;
  state.AddTensor("part", data, kF32, {8}, {.pieces = pieces});
  state.AddTensor("plain", data + 8, kF32, {8});
  state.AddTensor("tied", data + 8, kF32, {8});
  REQUIRE(SaveFile(path, state, {}, {.pool_bytes = 8 * kMiB}).ToString() == "Ok");
}

}  // namespace

TEST_CASE("inspect --json: tensors with pieces list them") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WritePieces(path);
  const Outcome outcome = RunTool({"inspect", "--json", path});
  REQUIRE(outcome.code == 0);
  const Json json = Json::parse(outcome.out);
  const Json& part = json["tensors"][0];
  CHECK(part["pieces"] == Json::parse(R"([
    {"logical_name": "w", "logical_shape": [4, 3], "box": [[0, 2], [0, 3]],
     "element_offset": 0, "replica_group": 2},
    {"logical_name": "b\u001b", "logical_shape": [20], "flat": [10, 12],
     "element_offset": 6, "replica_group": 0}])"));
  CHECK(!json["tensors"][1].contains("pieces"));
  CHECK(!json["tensors"][2].contains("pieces"));
}

TEST_CASE("inspect: a table says which parts of what a shard holds") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WritePieces(path);
  const auto table = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"inspect", path});
    const Outcome outcome = RunTool(args);
    CHECK(outcome.code == 0);
    const size_t at = outcome.out.find("PART OF");
    return at == std::string::npos ? "" : outcome.out.substr(at);
  };
  CHECK(table({}) ==
        "PART OF  SHAPE   PART            STORED IN  FROM ELEMENT  REPLICAS\n"
        "w        [4, 3]  [0:2, 0:3]      part                  0   group 2\n"
        "b\\x1b    [20]    elements 10:12  part                  6\n");
  CHECK(table({"--limit", "1"}).find("... 1 more") != std::string::npos);
  CHECK(table({"--filter", "plain"}) == "");
}
