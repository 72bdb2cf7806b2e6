// dsckpt convert, and merge of a model that is several safetensors files with an index.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;
using namespace dsckpt;

namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

std::string OneTensor(const std::string& name, const std::string& data) {
  const std::string size = std::to_string(data.size());
  return Safetensors("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + size +
                         "],\"data_offsets\":[0," + size + "]}}",
                     data);
}

/// Two files of one tensor each, "a" and "b", in a directory with an index of them.
std::string MakeModel(const TempDir& dir, const std::string& map) {
  const std::string model = dir / "model";
  std::filesystem::create_directories(model);
  WriteWholeFile(model + "/1.safetensors", OneTensor("a", "aaaa"));
  WriteWholeFile(model + "/2.safetensors", OneTensor("b", "bbbbbbbb"));
  WriteWholeFile(model + "/" + kIndex, map);
  return model;
}

constexpr const char* kMap =
    R"({"metadata":{"total_size":12},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";

std::map<std::string, std::string> TensorsOf(const std::string& path) {
  const auto file = File::Open(path);
  INFO(path << ": " << file.status().ToString());
  REQUIRE(file.ok());
  std::map<std::string, std::string> tensors;
  for (uint32_t i = 0; i < file->tensor_count(); ++i) {
    const auto view = file->View(file->tensor(i).name);
    REQUIRE(view.ok());
    tensors[std::string(file->tensor(i).name)].assign(
        reinterpret_cast<const char*>(view->bytes().data()), view->bytes().size());
  }
  return tensors;
}

const std::map<std::string, std::string> kBoth = {{"a", "aaaa"}, {"b", "bbbbbbbb"}};

}  // namespace

TEST_CASE("convert and merge make one file of a model's index, its directory too") {
  TempDir dir;
  const std::string model = MakeModel(dir, kMap), out = dir / "out.dsckpt";
  for (const Strings& args : {Strings{"convert", model}, Strings{"convert", model + "/" + kIndex},
                              Strings{"merge", model + "/" + kIndex}}) {
    Strings command = args;
    command.insert(command.end(), {"-o", out, "--force"});
    RunOk(command);
    CHECK(TensorsOf(out) == kBoth);
    CHECK(File::Open(out)->format() == FileFormat::kDsckpt);
    CHECK(RunTool({"verify", out}).code == 0);
  }
}

TEST_CASE("convert picks the other format, and --format and --max-shard-size choose") {
  TempDir dir;
  const std::string model = MakeModel(dir, kMap), shard = dir / "m.dsckpt",
                    plain = dir / "m.safetensors", split = dir / "split";
  RunOk({"convert", model, "-o", shard});
  RunOk({"convert", shard, "-o", plain});
  CHECK(File::Open(plain)->format() == FileFormat::kSafetensors);
  CHECK(TensorsOf(plain) == kBoth);
  const Json json = Json::parse(RunOk({"convert", "--json", plain, "-o", dir / "back.dsckpt"}).out);
  CHECK(json["schema"] == "dsckpt.import/1");
  CHECK(TensorsOf(dir / "back.dsckpt") == kBoth);

  RunOk({"convert", shard, "-o", split, "--max-shard-size", "8"});
  const Json index = Json::parse(ReadWholeFile(split + "/" + kIndex));
  CHECK(index["metadata"]["total_size"] == 12);
  CHECK(index["weight_map"]["b"] == "model-00002-of-00002.safetensors");
  CHECK(TensorsOf(split + "/model-00002-of-00002.safetensors").at("b") == "bbbbbbbb");

  RunOk({"convert", split, "-o", plain, "--format", "safetensors", "--force"});
  CHECK(TensorsOf(plain) == kBoth);
  RunOk({"convert", plain, "-o", dir / "d", "--max-shard-size", "8"});
  CHECK(RunTool({"verify", dir / "d"}).code == 0);
  RunOk({"convert", dir / "d", "-o", plain, "--force"});
  CHECK(TensorsOf(plain) == kBoth);
}

TEST_CASE("indexes that cannot be meant are refused, with the reason, before anything is written") {
  struct Bad {
    const char* map;
    int code;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{"not JSON", 2, "it is not JSON"}, Bad{"[]", 2, "no weight_map"},
        Bad{R"({"weight_map":{}})", 2, "no weight_map"},
        Bad{R"({"weight_map":{"a":1}})", 2, "more than file names"},
        Bad{R"({"weight_map":{"a":"../model/1.safetensors"}})", 1, "must be bare"},
        Bad{R"({"weight_map":{"a":".."}})", 1, "must be bare"},
        Bad{R"({"weight_map":{"a":"3.safetensors"}})", 1, "3.safetensors"},
        Bad{R"({"weight_map":{"a":"2.safetensors","b":"2.safetensors"}})", 1, "which lacks it"},
        Bad{R"({"weight_map":{"a":"2.safetensors","b":"1.safetensors"}})", 1, "which lacks it"}}) {
    TempDir dir;
    const std::string model = MakeModel(dir, bad.map);
    const Outcome outcome = RunTool({"convert", model, "-o", dir / "out"});
    INFO(bad.map << ": " << outcome.err);
    CHECK(outcome.code == bad.code);
    CHECK(outcome.err.find(bad.message) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(dir / "out"));
  }
}

TEST_CASE("convert never overwrites a file that the index names, and names what needs Python") {
  TempDir dir;
  const std::string model = MakeModel(dir, kMap);
  for (const std::string& target : {model + "/2.safetensors", model + "/" + kIndex}) {
    const Outcome outcome = RunTool({"convert", model, "-o", target, "--force"});
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("never overwritten") != std::string::npos);
  }
  std::filesystem::create_directories(dir / "dcp");
  WriteWholeFile(dir / "dcp/.metadata", "x");
  WriteWholeFile(dir / "model.pt", "PK\x03\x04 and so on");
  for (const std::string& input : {dir / "dcp", dir / "model.pt"}) {
    const Outcome outcome = RunTool({"convert", input, "-o", dir / "out"});
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("dsckpt.convert.convert()") != std::string::npos);
  }
}
