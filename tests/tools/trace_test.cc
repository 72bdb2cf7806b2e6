// dsckpt trace: what people and programs get to see of a run.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

namespace {

Strings Words(const std::string& command) {
  Strings words;
  std::istringstream in(command);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Strings LinesOf(const std::string& path) {
  Strings lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("trace: the findings of a run, each with a command that shows it") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  const Json json = Json::parse(RunOk({"trace", "--quick", run, "--json"}).out);
  CHECK(json["schema"] == "dsckpt.trace/1");
  REQUIRE(json["steps"].size() == planted::Steps().size());
  CHECK(json["steps"][0]["changed"].is_null());
  // All but the frozen tensor and the mask.
  CHECK(json["steps"][1]["changed"] == 10);
  CHECK(json["steps"][2]["attributes"]["step"] == 2);
  CHECK(json["rows"].size() == planted::Steps().size() * 12);
  uint64_t indexes = 0;
  for (const int64_t step : planted::Steps()) {
    indexes += std::filesystem::file_size(planted::PathOf(run, step));
  }
  CHECK(json["read_bytes"] == 0);
  CHECK(json["index_bytes"] > 0);
  CHECK(json["index_bytes"] < indexes);
  REQUIRE(json["events"].size() == 5);
  const Json& nan = json["events"][3];
  CHECK(nan["kind"] == "nan");
  CHECK(nan["step"] == planted::kNanStep);
  CHECK(nan["other_step"] == planted::kNanStep - 1000);
  CHECK(nan["last_clean_step"] == planted::kNanStep - 1000);
  CHECK(nan["element"].is_null());
  CHECK(nan["name"] == planted::kWithNan);
  CHECK(nan["group"] == "gpt_neox.layers.#.attention.query_key_value.weight");
  CHECK(nan["command"] == "dsckpt stats " + run + "@16000 --filter " + planted::kWithNan);
  Strings tried;
  for (const Json& event : json["events"]) {
    Strings words = Words(event["command"]);
    REQUIRE(words[0] == "dsckpt");
    words.erase(words.begin());
    CAPTURE(event["command"]);
    tried.push_back(words[0]);
    if (words[0] != "diff") CHECK(RunTool(words).code == 0);
  }
  CHECK(tried == Strings{"diff", "ls", "hash", "stats", "hash"});
  const Strings same = Words(json["events"][2]["command"]);
  const std::string trees = RunOk({same.begin() + 1, same.end()}).out;
  CHECK(trees.substr(0, 32) == trees.substr(trees.find('\n') + 1, 32));
}

TEST_CASE("trace: rows of the long table") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  RunOk({"trace", "--quick", run, "-f", planted::kSpiking, "--steps", "8000:11000", "-o",
         dir / "t.csv"});
  const Strings lines = LinesOf(dir / "t.csv");
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("step,prev_step,name,group,layer,dtype,n,n_finite,nan,inf,zero,min,"));
  CHECK(
      lines[1].starts_with("8000,," + planted::kSpiking +
                           ",gpt_neox.layers.#.mlp.dense_h_to_4h.weight,2,F32,1024,1024,0,0,0,-"));
  CHECK(lines[2].starts_with("9000,8000,"));
  CHECK(lines[2].ends_with(",,0"));
  const std::string text = RunOk({"trace", "--quick", run, "--filter", planted::kFrozen, "--last",
                                  "2", "--format", "jsonl"})
                               .out;
  const Json second = Json::parse(text.substr(text.find('\n') + 1));
  CHECK(second["step"] == planted::kLastStep);
  CHECK(second["same_as_step"] == planted::kLastStep - 1000);
  CHECK(second["changed"] == 0.0);
  CHECK(second["flags"] == 4);
  CHECK(second["upd_norm"].is_null());
  CHECK(second["layer"].is_null());
  CHECK(second["digest"].get<std::string>().size() == 32);
  CHECK(second["nan"] == 0);
}

TEST_CASE("trace: the digest of a checkpoint is that of dsckpt hash --tree") {
  TempDir dir;
  WriteSample(dir / "step1200.dsckpt");
  const Json json = Json::parse(RunOk({"trace", "--quick", dir / "step1200.dsckpt", "--json"}).out);
  CHECK(json["steps"][0]["step"] == 1200);
  CHECK(json["steps"][0]["tree_digest"] ==
        RunOk({"hash", "--tree", dir / "step1200.dsckpt"}).out.substr(0, 32));
}

TEST_CASE("trace: exit codes and selections") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  const auto code = [&](Strings more) {
    more.insert(more.begin(), {"trace", "--quick", run, "-q"});
    const Outcome outcome = RunTool(more);
    CHECK(outcome.out.empty());
    return outcome.code;
  };
  CHECK(code({}) == 0);
  CHECK(code({"--fail-on", "inf,retyped"}) == 0);
  CHECK(code({"--fail-on", "inf,nan"}) == 1);
  CHECK(code({"--fail-on", "nan", "--steps", "0:16000"}) == 0);
  CHECK(code({"--fail-on", "changed", "-f", planted::kFrozen}) == 0);
  CHECK(code({"--fail-on", "changed", "-x", planted::kFrozen}) == 1);
  CHECK(code({"--steps", "11000"}) == 1);
  CHECK(code({"-f", "nothing*"}) == 1);
  CHECK(code({"--steps", "x"}) == 2);
  CHECK(code({"--fail-on", "nans"}) == 2);
  CHECK(code({"--fail-on", "coarse"}) == 2);
  CHECK(code({"--columns", "nothing"}) == 2);
  CHECK(code({"--format", "table", "-o", dir / "x.csv"}) == 2);
  CHECK(code({"--cache", dir / "c"}) == 2);
}

TEST_CASE("trace: the table says what is not known") {
  TempDir dir;
  const std::string run = dir / "run";
  planted::WriteRun(run);
  const std::string text = RunOk({"trace", "--quick", run}).out;
  CHECK(Contains(text, "the same as step 7000"));
  CHECK(Contains(text, "Shown by:\n  dsckpt diff " + run + "@8000 " + run + "@9000 --filter "));
  CHECK(Contains(text, "no tensor data"));
  CHECK_FALSE(Contains(text, "not known"));
  RunOk({"export", run + "@latest", "-o", dir / "step18000.safetensors"});
  const std::string plain = RunOk({"trace", "--quick", dir / "step18000.safetensors"}).out;
  CHECK(Contains(plain, "Content is not known of 12 of 12 tensors"));
  CHECK(Contains(plain, "Nothing was found."));
}
