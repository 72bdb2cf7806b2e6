// dsckpt gram: formats, files and exit codes.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

/// Three checkpoints of the steps 5, 10 and 20 with "x", and the same U8 tensor in all.
void WriteThree(const std::string& run) {
  fs::create_directories(run);
  planted::Save(run + "/step5", {{"x", {2}, {1, 2}}}, 5);
  planted::Save(run + "/step10", {{"x", {2}, {3, 4}}}, 10);
  planted::Save(run + "/step20", {{"x", {2}, {-1, 0.5}}}, 20);
}

}  // namespace

TEST_CASE("gram: a table, CSV and JSON") {
  TempDir dir;
  const std::string run = dir / "run";
  WriteThree(run);
  const std::string table = RunOk({"gram", run, "--filter", "x"}).out;
  CHECK(Contains(table, "STEP"));
  CHECK(Contains(table, "1.100e+01"));
  CHECK(Contains(table, "2 elements of 1 tensor in 3 checkpoints"));
  CHECK(RunOk({"gram", run, "-f", "x", "--format", "csv"}).out ==
        "step,5,10,20\n5,5.0,11.0,0.0\n10,11.0,25.0,-1.0\n20,0.0,-1.0,1.25\n");
  const Json json = Json::parse(RunOk({"gram", run, "--steps", "10:", "--json"}).out);
  CHECK(json["schema"] == "dsckpt.gram/1");
  CHECK(json["checkpoints"][0]["step"] == 10);
  CHECK(json["checkpoints"][1]["checkpoint"] == run + "@20");
  // 64 ones of the U8 tensor.
  CHECK(json["by"] == "all");
  REQUIRE(json["groups"].size() == 1);
  const Json& all = json["groups"][0];
  CHECK(all["products"] == Json::parse("[[89.0, 63.0], [63.0, 65.25]]"));
  CHECK(all["elements"] == 66);
  CHECK(all["tensors"].size() == 2);
  CHECK(all["nonfinite"] == Json::parse("[0, 0]"));
  CHECK(json["skipped"].empty());
  CHECK(json["read_bytes"] == 2 * 8 + 64);
}

TEST_CASE("gram: a file that numpy reads") {
  TempDir dir;
  WriteThree(dir / "run");
  const std::string said = RunOk({"gram", dir / "run", "-f", "x", "-o", dir / "g.npy"}).out;
  CHECK(Contains(said, "g.npy: 2 elements"));
  std::ifstream in(dir / "g.npy", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(text.starts_with(std::string("\x93NUMPY\x01\x00", 8)));
  CHECK(Contains(text, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3), }"));
  REQUIRE(text.size() % 64 == 9 * 8 % 64);
  std::vector<double> products(9);
  std::memcpy(products.data(), text.data() + text.size() - 72, 72);
  CHECK(products == std::vector<double>{5, 11, 0, 11, 25, -1, 0, -1, 1.25});
  RunOk({"gram", dir / "run", "-o", dir / "g.json", "-q"});
  std::ifstream json(dir / "g.json");
  CHECK(Json::parse(json)["groups"][0]["products"].size() == 3);
}

TEST_CASE("gram: a matrix for each group") {
  TempDir dir;
  WriteThree(dir / "run");
  const Json json =
      Json::parse(RunOk({"gram", dir / "run", "--last", "2", "--by", "dtype", "--json"}).out);
  CHECK(json["by"] == "dtype");
  REQUIRE(json["groups"].size() == 2);
  CHECK(json["groups"][0]["group"] == "F32");
  CHECK(json["groups"][0]["products"] == Json::parse("[[25.0, -1.0], [-1.0, 1.25]]"));
  CHECK(json["groups"][1]["group"] == "U8");
  CHECK(json["groups"][1]["products"] == Json::parse("[[64.0, 64.0], [64.0, 64.0]]"));
  CHECK(json["read_bytes"] == 2 * 8 + 64);
  CHECK(RunOk({"gram", dir / "run", "--last", "1", "--by", "dtype", "--format", "csv"}).out ==
        "group,step,20\nF32,20,1.25\nU8,20,64.0\n");
  RunOk({"gram", dir / "run", "--by", "tensor", "-o", dir / "g.npy"});
  std::ifstream in(dir / "g.npy", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(Contains(text, "'shape': (2, 3, 3), }"));
  CHECK(text.size() % 64 == 18 * 8 % 64);
}

TEST_CASE("gram: notes and exit codes") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  const Outcome nan = RunTool({"gram", run, "--last", "2", "-f", planted::kWithNan});
  CHECK(nan.code == 0);
  CHECK(Contains(nan.err, "2 elements are NaN or infinite"));
  planted::Save(dir / "more", {{"x", {3}, {1, 2, 3}}}, 20000);
  const Outcome more = RunTool({"gram", run, dir / "more", "--last", "2"});
  CHECK(more.code == 0);
  CHECK(Contains(more.err, "12 tensors left out"));
  const auto code = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"gram", run, "-q"});
    return RunTool(words).code;
  };
  CHECK(code({"--filter", "none"}) == 1);
  CHECK(code({"--steps", "3"}) == 1);
  CHECK(code({"--format", "npy"}) == 2);
  CHECK(code({"-o", dir / "g.txt"}) == 2);
  CHECK(code({"-o", dir / "none/g.npy"}) == 2);
  CHECK(code({"--steps", "x"}) == 2);
}
