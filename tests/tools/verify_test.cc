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

namespace {

void FlipBit(const std::string& path, uint64_t offset) {
  std::string bytes = ReadWholeFile(path);
  bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
  WriteWholeFile(path, bytes);
}

uint64_t OffsetOf(const std::string& path, const std::string& tensor) {
  return dsckpt::File::Open(path)->FindTensor(tensor)->offset;
}

}  // namespace

TEST_CASE("verify: a good file") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  for (const Strings& extra : {Strings{}, {"--decode"}, {"--threads", "1"}}) {
    Strings args = {"verify", path};
    args.insert(args.end(), extra.begin(), extra.end());
    const Outcome outcome = RunTool(args);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.code == 0);
    CHECK(Contains(outcome.out, path + ": ok, "));
    CHECK(Contains(outcome.out, " checked in "));
    CHECK(Contains(outcome.out, "iB/s\n"));
  }
  const Outcome outcome = RunTool({"verify", "--json", path});
  CHECK(Json::parse(outcome.out).dump() ==
        Json({{"schema", "dsckpt.verify/1"},
              {"ok", true},
              {"files", Json::array({{{"path", path},
                                      {"ok", true},
                                      {"checksums", true},
                                      {"checked_bytes", ReadWholeFile(path).size()},
                                      {"problems", Json::array()}}})}})
            .dump());
}

TEST_CASE("verify: a flipped bit is named with its tensor and offset, exit 1") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const uint64_t offset = OffsetOf(path, "model/scale");
  FlipBit(path, offset + 7);
  const Outcome text = RunTool({"verify", path});
  INFO(text.out << text.err);
  CHECK(text.code == 1);
  CHECK(text.err.empty());
  CHECK(Contains(text.out, path + ": BAD, 1 problem, "));
  CHECK(Contains(text.out, "  model/scale at offset " + std::to_string(offset) +
                               ": the bytes do not match their checksum; expected "));
  const Outcome outcome = RunTool({"verify", "--json", path});
  CHECK(outcome.code == 1);
  const Json json = Json::parse(outcome.out);
  CHECK(json["ok"] == false);
  CHECK(json["files"][0]["ok"] == false);
  REQUIRE(json["files"][0]["problems"].size() == 1);
  const Json& problem = json["files"][0]["problems"][0];
  CHECK(problem["item"] == "model/scale");
  CHECK(problem["kind"] == "checksum");
  CHECK(problem["offset"] == offset);
  CHECK(problem["expected"].is_string());
  CHECK(problem["found"].is_string());
  CHECK(problem.size() == 5);
}

TEST_CASE("verify: several files, bad outweighs unchecked outweighs good") {
  TempDir dir;
  const std::string good = dir / "good", bad = dir / "bad", cut = dir / "cut", missing = dir / "no";
  WriteSample(good);
  const std::string bytes = ReadWholeFile(good);
  WriteWholeFile(cut, bytes.substr(0, bytes.size() - 1));
  WriteWholeFile(bad, bytes);
  FlipBit(bad, OffsetOf(good, "model/embed"));
  struct Case {
    Strings files;
    int code;
  };
  const std::vector<Case> cases = {
      {{good, good}, 0},         {{good, bad, good}, 1}, {{missing, good}, 2},
      {{good, missing, bad}, 1}, {{bad, missing}, 1},    {{cut}, 1},
  };
  for (const Case& c : cases) {
    Strings args = {"verify"};
    args.insert(args.end(), c.files.begin(), c.files.end());
    CHECK(RunTool(args).code == c.code);
    args.push_back("--json");
    const Outcome outcome = RunTool(args);
    CHECK(outcome.code == c.code);
    const Json json = Json::parse(outcome.out);
    CHECK(json["ok"] == (c.code == 0));
    REQUIRE(json["files"].size() == c.files.size());
    for (size_t i = 0; i < c.files.size(); ++i) {
      const Json& file = json["files"][i];
      CHECK(file["path"] == c.files[i]);
      CHECK(file["ok"] == (c.files[i] == good));
      CHECK(file.contains("error") == (c.files[i] == missing));
    }
  }
  const Outcome text = RunTool({"verify", good, missing, cut, bad});
  INFO(text.out << text.err);
  CHECK(Contains(text.out, "4 files: 1 ok, 2 bad, 1 not checked"));
  CHECK(Contains(text.out, cut + ": BAD, 1 problem, not read\n"));
  CHECK(Contains(text.out, "the file is cut short; expected " + std::to_string(bytes.size())));
  CHECK(Contains(text.err, missing));
}

TEST_CASE("verify: plain safetensors files") {
  TempDir dir;
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  WriteWholeFile(dir / "good", Safetensors(header, "1234"));
  WriteWholeFile(dir / "short", Safetensors(header, "123"));
  WriteWholeFile(dir / "long", Safetensors(header, "12345"));
  const Outcome good = RunTool({"verify", dir / "good"});
  CHECK(good.code == 0);
  CHECK(Contains(good.out, "header ok; it has no checksums"));
  CHECK_FALSE(Contains(good.out, ": ok"));
  const Json json = Json::parse(RunTool({"verify", "--json", dir / "good"}).out);
  CHECK(json["files"][0]["ok"] == true);
  CHECK(json["files"][0]["checksums"] == false);
  CHECK(Contains(RunTool({"verify", dir / "good", dir / "good"}).out,
                 "2 files: 0 ok, 2 without checksums, 0 bad"));
  CHECK(RunTool({"verify", dir / "short"}).code == 1);
  CHECK(RunTool({"verify", dir / "long"}).code == 1);
  // Not known to be bad.
  WriteWholeFile(dir / "new",
                 Safetensors(R"({"a":{"dtype":"U5","shape":[4],"data_offsets":[0,4]}})", "1234"));
  const Outcome outcome = RunTool({"verify", dir / "new"});
  CHECK(outcome.code == 2);
  CHECK(Contains(outcome.out, "NOT CHECKED"));
}
