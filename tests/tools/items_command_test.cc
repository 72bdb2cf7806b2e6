// extract, cat, edit and rollback.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using namespace dsckpt;
using Json = nlohmann::ordered_json;

namespace {

/// A .npy file, taken apart by its published description.
struct Numpy {
  std::string dict, data;
};

Numpy ReadNumpy(const std::string& path) {
  const std::string file = ReadWholeFile(path);
  REQUIRE(file.size() > 10);
  CHECK(file.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const size_t length = static_cast<unsigned char>(file[8]) |
                        static_cast<size_t>(static_cast<unsigned char>(file[9])) << 8;
  CHECK((10 + length) % 64 == 0);
  const std::string dict = file.substr(10, length);
  CHECK(dict.ends_with('\n'));
  return {dict.substr(0, dict.find('}') + 1), file.substr(10 + length)};
}

Numpy Extract(const std::string& path, const std::string& name) {
  TempDir dir;
  RunOk({"extract", path, name, "-o", dir / "o.npy"});
  return ReadNumpy(dir / "o.npy");
}

std::string Dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

/// Elements `rows` x `columns` of the sample's embed, F32 [8, 4], whose bytes count up.
std::string Embed(const std::vector<size_t>& rows, const std::vector<size_t>& columns) {
  const std::string bytes = Counting(128);
  std::string out;
  for (const size_t row : rows) {
    for (const size_t column : columns) out += bytes.substr((row * 4 + column) * 4, 4);
  }
  return out;
}

Json Inspect(const std::string& path) {
  return Json::parse(RunOk({"inspect", path, "--json"}).out);
}

}  // namespace

TEST_CASE("extract: parts of a tensor by Python's rules, in the form of numpy") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  struct Part {
    std::string brackets, shape, data;
  };
  const std::vector<Part> parts = {
      {"", "(8, 4)", Counting(128)},
      {"[]", "(8, 4)", Counting(128)},
      {"[5]", "(4,)", Embed({5}, {0, 1, 2, 3})},
      {"[-1]", "(4,)", Embed({7}, {0, 1, 2, 3})},
      {"[5, 2]", "()", Embed({5}, {2})},
      {"[1:3, :2]", "(2, 2)", Embed({1, 2}, {0, 1})},
      {"[::, -1]", "(8,)", Embed({0, 1, 2, 3, 4, 5, 6, 7}, {3})},
      {"[6:99:1, 3:]", "(2, 1)", Embed({6, 7}, {3})},
      {"[3:3]", "(0, 4)", ""},
  };
  for (const Part& part : parts) {
    INFO(part.brackets);
    const Numpy numpy = Extract(path, "model/embed" + part.brackets);
    CHECK(numpy.dict == Dict("<f4", part.shape));
    CHECK(numpy.data == part.data);
  }
  CHECK(Extract(path, "model/lm_head[0]").data == Embed({0}, {0, 1, 2, 3}));
  CHECK(Extract(path, "model/none").dict == Dict("<f4", "(0, 8)"));
  const std::vector<float> zip = SampleFloats();
  CHECK(Extract(path, "model/zip[4000:4002]").data ==
        std::string(reinterpret_cast<const char*>(&zip[4000]), 8));
}

TEST_CASE("extract: what numpy lacks is written as codes, and what cannot be is refused") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const Outcome codes = RunOk({"extract", path, "model/scale[1]", "-o", dir / "o.npy", "--json"});
  CHECK(Contains(codes.err, "numpy has no BF16"));
  CHECK(Json::parse(codes.out)["numpy_dtype"] == "<u2");
  CHECK(ReadNumpy(dir / "o.npy").dict == Dict("<u2", "(3,)"));
  CHECK(ReadNumpy(dir / "o.npy").data == Counting(12).substr(6));

  struct Refused {
    std::string name, why;
  };
  for (const Refused& refused :
       std::vector<Refused>{{"model/nothing", "no tensor 'model/nothing'"},
                            {"model/nothing[0]", "no tensor 'model/nothing'"},
                            {"model/embed[8]", "dimension 0 has no index 8: the shape is [8, 4]"},
                            {"model/embed[-9]", "no index -9"},
                            {"model/embed[::2]", "its step is 1"},
                            {"model/embed[a:]", "of whole numbers"},
                            {"model/embed[...]", "is no index and no range"},
                            {"model/embed[0,0,0]", "the tensor has 2 dimensions"}}) {
    const Outcome outcome = RunTool({"extract", path, refused.name, "-o", dir / "no.npy"});
    INFO(refused.name << ": " << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(Contains(outcome.err, refused.why));
    CHECK_FALSE(std::filesystem::exists(dir / "no.npy"));
  }
  const Outcome there = RunTool({"extract", path, "model/embed", "-o", dir / "o.npy"});
  CHECK(there.code == 2);
  CHECK(Contains(there.err, "--force"));
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    CHECK((entry.path().filename() == "a.dsckpt" || entry.path().filename() == "o.npy"));
  }
}

TEST_CASE("extract: a damaged tensor is no output") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const uint64_t offset = Inspect(path)["tensors"][0]["offset"];
  std::string bytes = ReadWholeFile(path);
  bytes[offset + 5] ^= 1;
  WriteWholeFile(path, bytes);
  const Outcome outcome = RunTool({"extract", path, "model/embed", "-o", dir / "o.npy"});
  CHECK(outcome.code == 1);
  CHECK(Contains(outcome.err, "model/embed"));
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    CHECK(entry.path().filename() == "a.dsckpt");
  }
}

TEST_CASE("cat: an object's bytes, a tensor's bytes, nothing binary on a terminal") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  CHECK(RunOk({"cat", path, "text/note"}).out == "hello");
  CHECK(RunOk({"cat", path, "rng"}).out == "12345678");
  CHECK(RunOk({"cat", path, "model/embed"}).out == Counting(128));
  CHECK(RunOk({"cat", path, "model/zip"}).out.size() == 4096 * 4);
  const Outcome none = RunTool({"cat", path, "nothing"});
  CHECK(none.code == 2);
  CHECK(Contains(none.err, "neither an object nor a tensor 'nothing'"));
  CHECK(RunOnTerminal({"cat", path, "text/note"}, 80).out == "hello");
  const Outcome terminal = RunOnTerminal({"cat", path, "rng"}, 80);
  CHECK(terminal.code == 2);
  CHECK(Contains(terminal.out, "binary"));
}

TEST_CASE("cat --opcodes: what a pickle names is seen without running it") {
  TempDir dir;
  const auto write = [&](const std::string& pickle) {
    const auto provider = MakeProvider([&](Description& d) {
      ObjectSource source;
      source.media_type = "application/x-python-pickle";
      source.bytes = pickle.data();
      source.size = pickle.size();
      d.Object("p", source);
    });
    std::filesystem::remove(dir / "a.dsckpt");
    REQUIRE(SaveFile(dir / "a.dsckpt", *provider, {}).ok());
    return RunTool({"cat", dir / "a.dsckpt", "p", "--opcodes"});
  };
  const std::string mark = dir / "mark";
  const std::string call = std::string("\x80\x02", 2) + "cposix\nsystem\nX" +
                           std::string(1, static_cast<char>(6 + mark.size())) +
                           std::string(3, '\0') + "touch " + mark + std::string("\x85R", 2) + "G" +
                           std::string("\x3f\xf8\0\0\0\0\0\0", 8) + "J" +
                           std::string("\xff\xff\xff\xff", 4) + ".trailing";
  const Outcome outcome = write(call);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 0);
  CHECK(Contains(outcome.out, "       0  PROTO 2\n"));
  CHECK(Contains(outcome.out, "       2  GLOBAL posix system\n"));
  CHECK(Contains(outcome.out, "BINUNICODE touch " + mark + "\n"));
  CHECK(Contains(outcome.out, "  TUPLE1\n"));
  CHECK(Contains(outcome.out, "  REDUCE\n"));
  CHECK(Contains(outcome.out, "  BINFLOAT 1.5\n"));
  CHECK(Contains(outcome.out, "  BININT -1\n"));
  CHECK(outcome.out.ends_with("  STOP\n"));
  CHECK_FALSE(std::filesystem::exists(mark));

  for (const std::string& bad : {std::string("X\xff\xff\xff\xff", 5), std::string("\xfe"),
                                 std::string("N"), std::string("cposix\nsys")}) {
    const Outcome broken = write(bad);
    CHECK(broken.code == 1);
    CHECK(Contains(broken.err, "no pickle"));
  }
}

TEST_CASE("edit: attributes of a dsckpt file change, its tree and objects stay") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt", out = dir / "b.dsckpt";
  WriteSample(path);
  RunOk({"edit", path, "-o", out, "--set", "step=7", "--set", "author=me", "--unset", "loss"});
  const Json before = Inspect(path), after = Inspect(out);
  CHECK(after["attributes"]["step"] == 7);
  CHECK(after["attributes"]["author"] == "me");
  CHECK_FALSE(after["metadata"].contains("author"));  // It would contradict the attribute.
  CHECK_FALSE(after["attributes"].contains("loss"));
  CHECK(after["attributes"]["best"] == before["attributes"]["best"]);
  CHECK(after["content"] == before["content"]);
  CHECK(RunOk({"cat", out, "text/note"}).out == "hello");

  RunOk({"edit", path, "-o", out, "--force", "--unset", "author"});
  CHECK_FALSE(Inspect(out)["metadata"].contains("author"));
  CHECK(Inspect(out)["attributes"] == before["attributes"]);

  struct Refused {
    std::vector<std::string> args;
    std::string why;
  };
  for (const Refused& refused :
       std::vector<Refused>{{{}, "nothing to change"},
                            {{"--unset", "nix"}, "no attribute and no metadata 'nix'"},
                            {{"--set", "x"}, "--set takes NAME=VALUE"},
                            {{"--set", "x=1", "--unset", "x"}, "'x' is changed twice"},
                            {{"-f", "nix*", "--set", "x=1"}, "nix*"}}) {
    std::vector<std::string> args = {"edit", path, "-o", dir / "no.dsckpt"};
    args.insert(args.end(), refused.args.begin(), refused.args.end());
    const Outcome outcome = RunTool(args);
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(Contains(outcome.err, refused.why));
    CHECK_FALSE(std::filesystem::exists(dir / "no.dsckpt"));
  }
}

TEST_CASE("edit: plain safetensors stay plain, with metadata as text") {
  TempDir dir;
  const std::string path = dir / "a.safetensors", out = dir / "b.safetensors";
  WriteWholeFile(path, Safetensors(R"({"__metadata__":{"format":"pt","lr":"0.1","step":"9"},)"
                                   R"("model.a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                   R"("model.b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                                   "123456"));
  RunOk({"edit", path, "-o", out, "--set", "lr=1.50", "--unset", "step", "--rename", "s/^model/m/",
         "-x", "*.b"});
  const Json json = Inspect(out);
  CHECK(json["format"] == "safetensors");
  CHECK(json["metadata"] == Json{{"format", "pt"}, {"lr", "1.50"}});
  REQUIRE(json["tensors"].size() == 1);
  CHECK(json["tensors"][0]["name"] == "m.a");
  CHECK(RunOk({"cat", out, "m.a"}).out == "1234");
}

TEST_CASE("rollback: 'latest' moves back, nothing goes, and it can be undone") {
  TempDir dir;
  const std::string run = dir / "run";
  {
    const auto engine = Engine::Create({.pool_bytes = kMiB});
    REQUIRE(engine.ok());
    const auto writer = CheckpointWriter::Create(**engine, {.run_directory = run});
    REQUIRE(writer.ok());
    const auto provider = MakeProvider([](Description& d) { d.Leaf("lr", Value(0.5)); });
    for (const int64_t step : {1, 2, 3}) {
      const ShardSource source{"s", provider.get()};
      const auto handle = (*writer)->Save(step, std::span(&source, 1));
      REQUIRE(handle.ok());
      REQUIRE(handle->WaitDurable().ok());
    }
    const Outcome busy = RunTool({"rollback", run, "1"});
    INFO(busy.err);
    CHECK(busy.code == 2);
  }
  const std::string text = RunOk({"rollback", run, "2"}).out;
  CHECK(Contains(text, "training goes on from step-0000000002\n"));
  CHECK(Contains(text, "abandoned: step-0000000003\n"));
  const Json json = Json::parse(RunOk({"rollback", run, "step-0000000001", "--json"}).out);
  CHECK(json == Json{{"schema", "dsckpt.rollback/1"},
                     {"path", run},
                     {"latest", "step-0000000001"},
                     {"abandoned", {"step-0000000002"}}});
  CHECK(Json::parse(RunOk({"ls", run, "--json"}).out)["checkpoints"].size() == 3);
  CHECK(Contains(RunOk({"rollback", run, "3"}).out, "no checkpoint became abandoned"));
  CHECK(Json::parse(RunOk({"ls", run, "--json"}).out)["latest"] == "step-0000000003");
  CHECK(RunTool({"rollback", run, "4"}).code == 2);
  CHECK(RunTool({"rollback", dir / "missing", "1"}).code == 2);
}
