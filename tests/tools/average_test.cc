// dsckpt average: operands, weights, names of outputs, reports and exit codes.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

using namespace dsckpt;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

void SaveX(const std::string& path, int64_t step, float value) {
  fs::create_directories(fs::path(path).parent_path());
  planted::Save(path, {{"x", {2}, {value, 2 * value}}}, step);
}

/// Checkpoints of the steps 1 to `count`, whose "x" begins with the step.
void WriteSteps(const std::string& run, int count) {
  for (int step = 1; step <= count; ++step) {
    SaveX(run + "/step" + std::to_string(step), step, static_cast<float>(step));
  }
}

float FirstOf(const std::string& path) {
  const auto file = File::Open(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  const auto view = file->View("x");
  REQUIRE(view.ok());
  return view->As<float>().value()[0];
}

}  // namespace

TEST_CASE("average: the last checkpoints of a run, chosen steps, moving averages") {
  TempDir dir;
  WriteSteps(dir / "run", 5);
  const auto average = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"average", dir / "run", "-o", dir / "out", "--force"});
    RunOk(more);
    return FirstOf(dir / "out");
  };
  CHECK(average({}) == 3);
  CHECK(average({"--last", "2"}) == 4.5f);
  CHECK(average({"--steps", "1,2,4:"}) == 3);
  CHECK(average({"--ema", "0.5"}) == 4.0625f);
  CHECK(average({"--ema", "0"}) == 5);
  CHECK(average({"--weights", "1,0,0,0,3"}) == 4);
}

TEST_CASE("average: weights count in the order of operands") {
  TempDir dir;
  WriteSteps(dir / "run", 3);
  const std::string run = dir / "run";
  RunOk({"average", run + "@3", run + "/step1", "--weights", "3,1", "-o", dir / "out"});
  CHECK(FirstOf(dir / "out") == 2.5f);
  const auto file = File::Open(dir / "out");
  REQUIRE(file.ok());
  // What is not averaged is that of the last operand.
  CHECK(std::get<int64_t>(*file->Attribute("step")) == 1);
  const Json from = Json::parse(std::get<std::string>(*file->Attribute("averaged_from")));
  CHECK(from[0]["step"] == 3);
  CHECK(from[0]["weight"] == 0.75);
}

TEST_CASE("average: points between two checkpoints") {
  TempDir dir;
  WriteSteps(dir / "run", 2);
  const std::string run = dir / "run";
  RunOk({"average", "--lerp", run + "@2", run + "@1", "--alpha", "0.25", "-o", dir / "one.st"});
  CHECK(FirstOf(dir / "one.st") == 1.75f);
  const Json json = Json::parse(RunOk({"average", "--lerp", run + "@1", run + "@2", "--alpha",
                                       "-0.1:0.3:0.2", "-o", dir / "p.dsckpt", "--json"})
                                    .out);
  REQUIRE(json["averages"].size() == 3);
  CHECK(json["averages"][2]["output"] == dir / "p-0.3.dsckpt");
  CHECK(json["averages"][2]["alpha"] == 0.3);
  CHECK(json["averages"][0]["from"][0]["weight"] == 1.1);
  CHECK(FirstOf(dir / "p--0.1.dsckpt") == 0.9f);
  CHECK(FirstOf(dir / "p-0.1.dsckpt") == 1.1f);
  CHECK(!fs::exists(dir / "p.dsckpt"));
}

TEST_CASE("average: safetensors, with what was averaged among the metadata") {
  TempDir dir;
  WriteSteps(dir / "run", 2);
  RunOk({"average", dir / "run", "-o", dir / "out.safetensors", "--format", "safetensors"});
  CHECK(FirstOf(dir / "out.safetensors") == 1.5f);
  const auto file = File::Open(dir / "out.safetensors");
  REQUIRE(file.ok());
  CHECK(file->format() == FileFormat::kSafetensors);
  std::string from;
  const auto metadata = *file->Metadata();
  for (const auto& [key, value] : metadata) {
    if (key == "averaged_from") from = value;
  }
  CHECK(Json::parse(from)[1]["step"] == 2);
}

TEST_CASE("average: NaN goes through with a warning") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  const Outcome outcome = RunTool({"average", run, "--last", "3", "-o", dir / "out", "--json"});
  CHECK(outcome.code == 0);
  CHECK(Contains(outcome.err, "NaN"));
  CHECK(Contains(outcome.err, planted::kWithNan));
  const Json found = Json::parse(outcome.out)["averages"][0];
  REQUIRE(found["nonfinite"].size() == 1);
  CHECK(found["nonfinite"][0]["name"] == planted::kWithNan);
  CHECK(found["nonfinite"][0]["nan"] > 0);
  CHECK(found["from"].size() == 3);
}

TEST_CASE("average: what of a run is left out is named") {
  TempDir dir;
  WriteSteps(dir / "run", 2);
  std::ofstream(dir / "run/step3.dsckpt") << "no checkpoint";
  const Outcome outcome = RunTool({"average", dir / "run", "-o", dir / "out"});
  CHECK(outcome.code == 0);
  CHECK(Contains(outcome.err, "step3.dsckpt: left out: "));
  CHECK(FirstOf(dir / "out") == 1.5f);
  CHECK(Contains(RunTool({"gram", dir / "run"}).err, "step3.dsckpt: left out: "));
}

TEST_CASE("average: exit codes, and nothing is overwritten unasked") {
  TempDir dir;
  WriteSteps(dir / "run", 2);
  SaveX(dir / "other/step3", 3, 1);
  planted::Save(dir / "wide", {{"x", {3}, {1, 2, 3}}}, 4);
  const std::string run = dir / "run";
  const auto code = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "average");
    more.insert(more.end(), {"-o", dir / "out", "-q"});
    return RunTool(more).code;
  };
  CHECK(code({run, dir / "wide"}) == 1);
  CHECK(code({run, "--weights", "1"}) == 2);
  CHECK(code({run, "--weights", "1,x"}) == 2);
  CHECK(code({run, "--weights", "1,-1"}) == 2);
  CHECK(code({run, "--weights", "1,1", "--last", "1"}) == 2);
  CHECK(code({run, "--ema", "1"}) == 2);
  CHECK(code({run, "--ema", "0.5", "--weights", "1,1"}) == 2);
  CHECK(code({run, "--alpha", "0.5"}) == 2);
  CHECK(code({run, "--lerp"}) == 2);
  CHECK(code({run, "--lerp", "--alpha", "1:0:0.1"}) == 2);
  CHECK(code({run, dir / "other/step3", "--lerp", "--alpha", "0"}) == 2);
  CHECK(code({run, "--steps", "7"}) == 2);
  CHECK(code({run, "--filter", "none"}) == 2);
  CHECK(code({dir / "nowhere"}) == 2);
  CHECK(!fs::exists(dir / "out"));
  CHECK(code({run}) == 0);
  CHECK(code({run}) == 2);
  const Outcome onto = RunTool({"average", run, "-o", run + "/step1", "--force"});
  CHECK(onto.code == 2);
  CHECK(Contains(onto.err, "never overwritten"));
  CHECK(FirstOf(run + "/step1") == 1);
}

TEST_CASE("average: another dtype, and chosen tensors alone") {
  TempDir dir;
  WriteSteps(dir / "run", 2);
  RunOk({"average", dir / "run", "-o", dir / "out", "--dtype", "F64", "--filter", "x"});
  const auto file = File::Open(dir / "out");
  REQUIRE(file.ok());
  CHECK(file->tensor_count() == 1);
  const auto view = file->View("x");
  REQUIRE(view.ok());
  CHECK(view->As<double>().value()[1] == 3);
}
