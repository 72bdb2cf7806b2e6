#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using namespace dsckpt;
using Json = nlohmann::ordered_json;

namespace {

Json InspectJson(std::vector<std::string> args) {
  args.insert(args.begin(), {"inspect", "--json"});
  const Outcome outcome = RunTool(args);
  const Json json = Json::parse(outcome.out);
  const bool listed = !json["tensors"].empty() || !json["objects"].empty();
  CHECK(outcome.code == (listed ? 0 : 1));
  CHECK(Contains(outcome.err, "no name is taken") == !listed);
  CHECK(outcome.err.empty() == listed);
  return json;
}

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::vector<std::string> Names(const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(row["name"]);
  return names;
}

using Strings = std::vector<std::string>;

// Three tensors of one byte, their names given as they stand in the JSON header.
std::string ThreeNames(const std::string& a, const std::string& b, const std::string& c) {
  std::string header = "{";
  int begin = 0;
  for (const std::string& name : {a, b, c}) {
    header += (begin == 0 ? "\"" : ",\"") + name +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(begin + 1) + "]}";
    ++begin;
  }
  return Safetensors(header + "}", "xyz");
}

}  // namespace

TEST_CASE("inspect --json of a shard: dsckpt.inspect/1") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const Json json = InspectJson({path});
  CHECK(Keys(json) == Strings{"schema", "path", "format", "format_version", "file_bytes", "totals",
                              "tensors", "objects", "attributes", "metadata", "content"});
  CHECK(json["format"] == "dsckpt");
  CHECK(json["metadata"] == Json::parse(R"({"format":"pt","author":"somebody"})"));
  CHECK(json["totals"]["parameters"] == 4134);
  CHECK(json["totals"]["tensors"] == 4);
  CHECK(json["totals"]["by_dtype"]["BF16"] ==
        Json::parse(R"({"tensors":1,"parameters":6,"bytes":12,"stored_bytes":12})"));
  CHECK(json["totals"]["by_dtype"]["F32"]["bytes"] == 16512);
  CHECK(json["schema"] == "dsckpt.inspect/1");
  CHECK(json["path"] == path);
  CHECK(json["format_version"] == "1.1");
  CHECK(json["file_bytes"] == ReadWholeFile(path).size());

  REQUIRE(Names(json["tensors"]) ==
          Strings{"model/embed", "model/lm_head", "model/none", "model/scale", "model/zip"});
  const Json& embed = json["tensors"][0];
  CHECK(Keys(embed) == Strings{"name", "dtype", "shape", "bytes", "stored_bytes", "offset",
                               "encoding", "digest", "alias_of"});
  CHECK(embed["dtype"] == "F32");
  CHECK(embed["shape"] == Json({8, 4}));
  CHECK(embed["bytes"] == 128);
  CHECK(embed["stored_bytes"] == 128);
  CHECK(embed["encoding"] == "raw");
  CHECK(embed["alias_of"].is_null());
  CHECK(embed["digest"].get<std::string>().size() == 32);
  // "offset" counts from the start of the file.
  const size_t offset = embed["offset"];
  CHECK(ReadWholeFile(path).substr(offset, 128) == Counting(128));

  const Json& alias = json["tensors"][1];
  CHECK(alias["alias_of"] == "model/embed");
  for (const char* key : {"dtype", "shape", "bytes", "stored_bytes", "offset", "digest"}) {
    CHECK(alias[key] == embed[key]);
  }
  CHECK(json["tensors"][2]["shape"] == Json({0, 8}));
  CHECK(json["tensors"][2]["bytes"] == 0);
  const Json& zip = json["tensors"][4];
  CHECK(zip["encoding"] == "byteplane-zstd");
  CHECK(zip["bytes"] == 4096 * 4);
  CHECK(zip["stored_bytes"].get<uint64_t>() < 4096 * 4);

  REQUIRE(Names(json["objects"]) == Strings{"rng", "text/note"});
  CHECK(Keys(json["objects"][0]) ==
        Strings{"name", "media_type", "bytes", "stored_bytes", "offset", "encoding", "digest"});
  const size_t note = json["objects"][1]["offset"];
  CHECK(ReadWholeFile(path).substr(note, 5) == "hello");
  CHECK(json["objects"][1]["name"] == "text/note");
  CHECK(json["objects"][1]["encoding"] == "raw");
  CHECK(json["objects"][1]["digest"] == "5a3de5028bfe4c9c90361a0911946ffa");
}

TEST_CASE("inspect --json: statistics of the tensors that have some") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> mixed = {1, -2.5, 0, nan}, none = {nan};
  const auto provider = MakeProvider([&](Description& description) {
    for (const auto& [name, values] : {std::pair{"mixed", &mixed}, std::pair{"none", &none}}) {
      const int64_t shape[] = {static_cast<int64_t>(values->size())};
      description.Tensor(name, {.data = values->data(), .dtype = kF32, .shape = shape});
    }
    const int64_t shape[] = {8};
    description.Tensor("packed", {.data = mixed.data(), .dtype = DType::kI4, .shape = shape});
  });
  REQUIRE(SaveFile(path, *provider, {.statistics = true}).ok());
  const Json json = InspectJson({path});
  CHECK(json["tensors"][0]["statistics"].dump() ==
        Json::parse(R"({"nan":1,"inf":0,"zero":1,"min":-2.5,"max":1.0,"sum":-1.5,
                        "sum_squares":7.25})")
            .dump());
  CHECK(json["tensors"][1]["statistics"]["min"].is_null());
  CHECK_FALSE(json["tensors"][2].contains("statistics"));
}

TEST_CASE("inspect --json: attributes and the state tree keep order and types") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const Json json = InspectJson({path, "--tree"});
  CHECK(json["attributes"].dump() == Json::parse(R"({"step":1200,"loss":2.0,
      "best":{"$float":"-inf"},"nothing":null,"flag":true,"framework":"ex\u001bample",
      "seed":{"$bigint":"-18446744073709551616"},
      "phase":{"$complex":[0.5,{"$float":"inf"}]},"key":{"$bytes":"/////w=="}})")
                                         .dump());
  CHECK(json["tree"].dump() == Json::parse(R"({"model":{"embed":{"$tensor":"model/embed"},
      "lm_head":{"$alias":"model/lm_head"},"scale":{"$tensor":"model/scale"},
      "zip":{"$tensor":"model/zip"},"none":{"$tensor":"model/none"}},
      "state":{"$dict":[[0,7],["0","zero"]]},
      "betas":{"$tag":"torch.Size","value":{"$tuple":[0.9,null]}},
      "rng":{"$object":"rng"},"text":{"note":{"$object":"text/note"}}})")
                                   .dump());
}

TEST_CASE("inspect --json of plain safetensors: no version, digests or attributes") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteWholeFile(path, ThreeNames("b", "a", "c"));
  const Json json = InspectJson({path, "--tree"});
  CHECK(json["format_version"].is_null());
  REQUIRE(Names(json["tensors"]) == Strings{"a", "b", "c"});
  CHECK(json["tensors"][0]["digest"].is_null());
  CHECK(json["objects"] == Json::array());
  CHECK(json["attributes"] == Json::object());
  CHECK(json["tree"].dump() == R"({"a":{"$tensor":"a"},"b":{"$tensor":"b"},"c":{"$tensor":"c"}})");
  const size_t offset = json["tensors"][0]["offset"];
  CHECK(ReadWholeFile(path)[offset] == 'y');
}

TEST_CASE("inspect: --filter, --sort and --limit") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  struct Case {
    Strings args, tensors, objects;
  };
  const std::vector<Case> cases = {
      {{"--filter", "*scale"}, {"model/scale"}, {}},
      {{"--filter", "*/z*p", "--filter", "rng"}, {"model/zip"}, {"rng"}},
      {{"--filter", "model/[l-n]?????[ad]"}, {"model/lm_head"}, {}},
      {{"--filter", "model/[!a-y]ip"}, {"model/zip"}, {}},
      {{"--filter", "model"}, {}, {}},
      {{"--filter", "{rng,model/{embed,none}}"}, {"model/embed", "model/none"}, {"rng"}},
      {{"--filter", "model/*", "-x", "*{e,z}*"}, {}, {}},
      {{"--exclude", "*e*"}, {}, {"rng"}},
      {{"--filter", "{model/zip}"}, {}, {}},
      {{"--filter", "*m*o*t*o*"}, {}, {}},
      {{"--filter", "*e*e*"},
       {"model/embed", "model/lm_head", "model/none", "model/scale"},
       {"text/note"}},
      {{"--sort", "size", "--limit", "2"}, {"model/zip", "model/embed"}, {"rng", "text/note"}},
      {{"--limit", "1"}, {"model/embed"}, {"rng"}},
  };
  for (const Case& c : cases) {
    Strings args = {path};
    args.insert(args.end(), c.args.begin(), c.args.end());
    const Json json = InspectJson(args);
    INFO(c.args[1]);
    CHECK(Names(json["tensors"]) == c.tensors);
    CHECK(Names(json["objects"]) == c.objects);
  }
  const Json by_offset = InspectJson({path, "--sort", "offset"})["tensors"];
  CHECK(std::is_sorted(by_offset.begin(), by_offset.end(),
                       [](const Json& a, const Json& b) { return a["offset"] < b["offset"]; }));
  // Totals are of what is listed.
  const Json some = InspectJson({path, "--filter", "*/{scale,zip}", "--limit", "1"});
  CHECK(some["totals"]["tensors"] == 2);
  CHECK(some["totals"]["parameters"] == 4102);
  CHECK(Contains(RunTool({"inspect", path, "--filter", "*scale"}).out,
                 "tensors     1, 12 B (selected, of 4)\n"));
  const Outcome text = RunTool({"inspect", path, "--limit", "2"});
  CHECK(Contains(text.out, "... 3 more (--limit 0 lists all)"));
}

TEST_CASE("inspect: the text names everything once") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const Outcome outcome = RunTool({"inspect", path});
  INFO(outcome.out);
  CHECK(outcome.code == 0);
  for (const char* part :
       {"dsckpt shard, format 1.1", "parameters  4,134\n", "aliases     1\n", "objects     2\n",
        "F32          3       4,128  16.1 KiB\n", "BF16         1           6      12 B\n",
        "seed       -18446744073709551616\n", "loss       2.0\n", "best       -inf\n",
        "phase      (0.5, inf)\n", "key        4 bytes: ff ff ff ff\n",
        "framework  \"ex\\x1bample\"\n", "author    somebody\n", "format    pt\n",
        "model/lm_head  F32    [8, 4]     128 B  = model/embed\n",
        "text/note  text/plain                 5 B\n"}) {
    INFO(part);
    CHECK(Contains(outcome.out, part));
  }
  CHECK_FALSE(Contains(outcome.out, "dsckpt.bytes"));
}

TEST_CASE("inspect --tree: boxes in a UTF-8 locale, ASCII elsewhere") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const Outcome ascii = RunTool({"inspect", path, "--tree"}, {.setenv = {"LC_ALL=C"}});
  INFO(ascii.out);
  CHECK(Contains(ascii.out,
                 "dict of 5\n"
                 "|-- model: dict of 5\n"
                 "|   |-- embed: F32 [8, 4]  128 B\n"
                 "|   |-- lm_head: = model/embed\n"
                 "|   |-- scale: BF16 [2, 3]  12 B\n"
                 "|   |-- zip: F32 [4096]  16.0 KiB\n"
                 "|   `-- none: F32 [0, 8]  0 B\n"
                 "|-- state: dict of 2\n"
                 "|   |-- 0: 7\n"
                 "|   `-- \"0\": \"zero\"\n"
                 "|-- betas: tuple of 2 (torch.Size)\n"
                 "|   |-- [0]: 0.9\n"
                 "|   `-- [1]: null\n"
                 "|-- rng: application/octet-stream  8 B\n"
                 "`-- text: dict of 1\n"
                 "    `-- note: text/plain  5 B\n"));
  const Outcome boxes = RunTool({"inspect", path, "--tree"}, {.setenv = {"LC_ALL=C.UTF-8"}});
  CHECK(Contains(boxes.out, "\u2502   \u2514\u2500\u2500 none: F32 [0, 8]  0 B\n"));
  CHECK(Contains(RunTool({"inspect", path, "--tree", "--limit", "3"}).out, "... (--limit 0"));
}

TEST_CASE("C51: escape sequences in names reach no terminal and no listing") {
  TempDir dir;
  const std::string path = dir / "evil.safetensors";
  // OSC 52 (clipboard), clear screen, a C1 control, a right-to-left override, a newline.
  WriteWholeFile(
      path, ThreeNames("\\u001b]52;c;ZXZpbA==\\u0007", "\\u001b[2Jx\\u009b31m", "a\\u202eb\\nc"));
  std::string all;
  const std::string output = dir / "\033[31mout.dsckpt";
  for (const Strings& args : {Strings{"inspect", path}, Strings{"inspect", path, "--tree"},
                              Strings{"inspect", "--json", path}, Strings{"verify", path},
                              Strings{"import", path, "-o", output}, Strings{"inspect", output},
                              Strings{"inspect", output, "--tree"}, Strings{"verify", output},
                              Strings{"inspect", dir / "\033[2Jmissing"}, Strings{"in\033[2J"}}) {
    const Outcome outcome = RunTool(args, {.setenv = {"LC_ALL=C.UTF-8"}});
    all += outcome.out + outcome.err;
  }
  INFO(all);
  CHECK_FALSE(Contains(all, "\033"));
  CHECK_FALSE(Contains(all, "\007"));
  CHECK_FALSE(Contains(all, "\u009b"));
  CHECK_FALSE(Contains(all, "\u202e"));
  CHECK(Contains(all, "\\x1b]52;c;ZXZpbA==\\x07"));
  CHECK(Contains(all, "\\x1b[2Jx\\u009b31m"));
  CHECK(Contains(all, "a\\u202eb\\x0ac"));
  const Json json = InspectJson({path});
  CHECK(json["tensors"][2]["name"] == "a\u202eb\nc");
}

TEST_CASE("inspect lists reserved names and NUL of safetensors files") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteWholeFile(path, ThreeNames("a\\u0000b", "__dsckpt_", ""));
  CHECK(Names(InspectJson({path})["tensors"]) == Strings{"", "__dsckpt_", std::string("a\0b", 3)});
  CHECK(Contains(RunTool({"inspect", path}).out, "a\\x00b"));
}

TEST_CASE("inspect on a terminal keeps to its width and to 40 rows") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  std::string header = "{";
  for (int i = 0; i < 50; ++i) {
    const std::string begin = std::to_string(i), end = std::to_string(i + 1);
    if (i != 0) header += ',';
    header.append("\"transformer.h.").append(begin);
    header += ".a_rather_long_module_name.with_a_rather_long_submodule_name.weight";
    header += R"(":{"dtype":"U8","shape":[1,1,1,1],"data_offsets":[)";
    header.append(begin).append(",").append(end).append("]}");
  }
  WriteWholeFile(path, Safetensors(header + "}", Counting(50)));
  for (const int width : {40, 80, 160}) {
    const Outcome outcome =
        RunOnTerminal({"inspect", path, "--color", "never", "--no-collapse"}, width);
    INFO(outcome.out);
    CHECK(outcome.code == 0);
    CHECK(Contains(outcome.out, "... 10 more"));
    std::istringstream lines(outcome.out.substr(outcome.out.find("TENSOR ")));
    for (std::string line; std::getline(lines, line);) {
      CHECK(line.size() <= static_cast<size_t>(width) + 1);  // The terminal adds \r.
    }
  }
  const Outcome piped = RunTool({"inspect", path});
  CHECK(Contains(piped.out, "transformer.h.49.a_rather_long_module_name.with_a_rather_long_"));
  CHECK_FALSE(Contains(piped.out, "more"));
}

TEST_CASE("inspect ignores no option: what it cannot do it refuses") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt", model = dir / "model", run = dir / "run";
  WriteSample(path);
  std::filesystem::create_directories(model);
  std::filesystem::create_directories(run);
  WriteWholeFile(model + "/a.safetensors", ThreeNames("a", "b", "c"));
  WriteWholeFile(model + "/model.safetensors.index.json",
                 R"({"weight_map":{"a":"a.safetensors"}})");
  std::filesystem::copy(path, run + "/step-1");
  for (const Strings& args :
       {Strings{path, "--tree", "--filter", "*"}, Strings{path, "--tree", "--sort", "size"},
        Strings{model, "--tree", "--json"}, Strings{model, "--sort", "offset"},
        Strings{run, "--filter", "*"}, Strings{run, "--tree"}, Strings{run, "--limit", "1"}}) {
    Strings command = {"inspect"};
    command.insert(command.end(), args.begin(), args.end());
    const Outcome outcome = RunTool(command);
    INFO(args[0] << " " << args[1] << ": " << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(Contains(outcome.err, args[1].substr(0, 6)));
  }
  CHECK(RunTool({"inspect", run}).code == 0);
  const Json json = InspectJson({model, "--limit", "1"});
  CHECK(Names(json["tensors"]) == Strings{"a"});
  CHECK(json["totals"]["tensors"] == 3);
}

TEST_CASE("inspect --json gives paths back exactly, also those that are not UTF-8") {
  TempDir dir;
  const std::string path = dir / "a\xff\xc3.dsckpt", missing = dir / "b\xfe";
  WriteSample(path);
  const Json json = InspectJson({path});
  REQUIRE(json["path"].is_object());
  const std::string base64 = json["path"]["$bytes"];
  std::string decoded;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    const size_t digit =
        std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    decoded += static_cast<char>(bits >> count & 0xFF);
  }
  CHECK(decoded == path);
  const Outcome error = RunTool({"inspect", "--json", missing});
  CHECK(error.code == 2);
  const Json said = Json::parse(error.out);
  CHECK(said["path"].is_object());
  CHECK(Contains(said["message"], "b\\xfe"));
  CHECK(InspectJson({[&] {
          WriteSample(dir / "plain");
          return dir / "plain";
        }()})["path"] == dir / "plain");
}

TEST_CASE("inspect says where the hash is not known") {
  const std::string valid = std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/";
  const Json json = InspectJson({valid + "other-hash.dsckpt"});
  CHECK(json["unknown_hash"] == 200);
  const Outcome text = RunOk({"inspect", valid + "other-hash.dsckpt"});
  CHECK(text.out.find("id 200, not known to this release") != std::string::npos);
  const Json whole = InspectJson({valid + "other-hash-sharded"});
  CHECK(whole["shards"][1]["unknown_hash"] == 200);
  CHECK(InspectJson({valid + "sharded"})["shards"][0].contains("unknown_hash") == false);
  const Outcome shards = RunOk({"inspect", valid + "other-hash-sharded"});
  CHECK(shards.out.find("hash 200, unknown") != std::string::npos);
}
