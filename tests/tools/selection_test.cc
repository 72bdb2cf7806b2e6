// Which tensors conversions take, under which names, in which dtype.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;
using namespace dsckpt;

namespace {

Outcome Run(Strings args, const Strings& more) {
  args.insert(args.end(), more.begin(), more.end());
  return RunTool(args);
}

/// {model: {"layers.0.weight", "layers.1.weight", "lm_head" tied to the first}, optimizer: {state:
/// {0: {exp_avg}}, lr}} and an object, as training saves it.
void WriteTraining(const std::string& path) {
  static const std::vector<float> a = {1, 2, 3, 4}, b = {5, 6}, moments = {7, 8};
  const auto provider = MakeProvider([&](Description& d) {
    const auto tensor = [&](std::string_view key, const std::vector<float>& data) {
      TensorSource source;
      source.data = data.data();
      source.dtype = kF32;
      const int64_t shape[] = {static_cast<int64_t>(data.size())};
      source.shape = shape;
      d.Tensor(Key(key), source);
    };
    d.Begin(NodeKind::kDict, "model");
    tensor("layers.0.weight", a);
    tensor("layers.1.weight", b);
    tensor("lm_head", a);
    d.End();
    d.Begin(NodeKind::kDict, "optimizer");
    d.Begin(NodeKind::kDict, 0);
    tensor("exp_avg", moments);
    d.End();
    d.Leaf("lr", Value(0.5));
    d.End();
    d.Object("rng", {.bytes = "1234", .size = 4});
    d.Attribute("step", Value(int64_t{12}));
  });
  const Status status = SaveFile(path, *provider);
  INFO(status.ToString());
  REQUIRE(status.ok());
}

std::vector<float> FloatsOf(const File& file, const std::string& name) {
  const auto view = file.View(name);
  INFO(name << ": " << view.status().ToString());
  REQUIRE(view.ok());
  const auto floats = view->As<float>();
  REQUIRE(floats.ok());
  return {floats->begin(), floats->end()};
}

Strings NamesOf(const File& file) {
  Strings names;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) names.emplace_back(file.tensor(i).name);
  return names;
}

}  // namespace

TEST_CASE("weights of a training state become a model's file, by any command") {
  TempDir dir;
  const std::string in = dir / "in.dsckpt", out = dir / "out.safetensors";
  WriteTraining(in);
  const Strings select = {"--filter", "model/*", "--strip-prefix", "model/"};
  for (const Strings& args :
       {Strings{"merge", "--format", "safetensors"}, Strings{"export"}, Strings{"convert"}}) {
    Strings command = args;
    command.insert(command.end(), {in, "-o", out, "--force"});
    const Outcome outcome = Run(command, select);
    INFO(args[0] << ": " << outcome.err);
    REQUIRE(outcome.code == 0);
    const File file = *File::Open(out);
    CHECK(file.format() == FileFormat::kSafetensors);
    CHECK(NamesOf(file) == Strings{"layers.0.weight", "layers.1.weight"});
    CHECK(FloatsOf(file, "layers.0.weight") == std::vector<float>{1, 2, 3, 4});
    CHECK(FloatsOf(file, "layers.1.weight") == std::vector<float>{5, 6});
    const auto members = file.Metadata();
    REQUIRE(members.ok());
    const std::map<std::string, std::string> metadata(members->begin(), members->end());
    CHECK(metadata == std::map<std::string, std::string>{
                          {"format", "pt"}, {"step", "12"}, {"lm_head", "layers.0.weight"}});
    CHECK(Contains(outcome.err, "1 object"));
    CHECK(Contains(outcome.err, "of the state tree"));
    command.push_back("--json");
    const Json json = Json::parse(Run(command, select).out);
    CHECK(json["tensors"] == 2);
    CHECK(json["aliases"] == 1);
    CHECK(json["dropped_objects"] == 1);
  }
  // The owner of a tie is left out, the second name is not.
  REQUIRE(RunTool({"export", in, "-o", out, "--force", "--filter", "*/lm_head"}).code == 0);
  CHECK(NamesOf(*File::Open(out)) == Strings{"model/lm_head"});
  REQUIRE(RunTool({"merge", in, "-o", out, "--force", "--filter", "*/lm_head"}).code == 0);
  CHECK(FloatsOf(*File::Open(out), "model/lm_head") == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("a selection in dsckpt keeps nesting and attributes, and says what it leaves out") {
  TempDir dir;
  const std::string in = dir / "in.dsckpt", out = dir / "out.dsckpt";
  WriteTraining(in);
  Outcome outcome = RunTool({"merge", in, "-o", out, "--exclude", "optimizer/*"});
  REQUIRE(outcome.code == 0);
  CHECK(Contains(outcome.err, "1 object, the plain values of the state tree"));
  const File file = *File::Open(out);
  REQUIRE(file.tree().has_value());
  CHECK(file.tree()->size() == 1);
  CHECK(file.tree()->Find("model")->size() == 3);
  CHECK(file.object_count() == 0);
  CHECK(std::get<int64_t>(*file.Attribute("step")) == 12);
  // With other names there is no tree.
  outcome = RunTool({"merge", in, "-o", out, "--force", "--rename", "s/layers\\.([0-9]+)/h.\\1/",
                     "--rename", "s|/|.|g", "--exclude", "optimizer*"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(NamesOf(*File::Open(out)) == Strings{"model.h.0.weight", "model.h.1.weight"});
  CHECK_FALSE(File::Open(out)->tree().has_value());
  CHECK(File::Open(out)->alias(0).name == "model.lm_head");
  // In several files, with an index of the new names.
  REQUIRE(RunTool({"merge", in, "-o", dir / "hf", "--format", "safetensors", "--max-shard-size",
                   "16", "--filter", "model/*", "--strip-prefix", "model/"})
              .code == 0);
  const Json index = Json::parse(ReadWholeFile(dir / "hf/model.safetensors.index.json"));
  CHECK(index["weight_map"] == Json::parse(R"({
      "layers.0.weight":"model-00001-of-00002.safetensors",
      "layers.1.weight":"model-00002-of-00002.safetensors"})"));
  CHECK(index["metadata"]["total_size"] == 24);
  CHECK(RunTool({"verify", dir / "hf"}).code == 0);
}

TEST_CASE("selections that meet nothing, or make two names one, are refused before any output") {
  TempDir dir;
  const std::string in = dir / "in.dsckpt", out = dir / "out";
  WriteTraining(in);
  struct Bad {
    Strings options;
    std::string said;
  };
  for (const Bad& bad : std::vector<Bad>{
           {{"--filter", "layers.0"}, "filter layers.0: no tensor has such a name"},
           {{"--filter", "model/*", "--exclude", "nothing*"}, "exclude nothing*: no tensor"},
           {{"--exclude", "*"}, "leave no tensor"},
           {{"--filter", "model/*", "--strip-prefix", "optimizer/"}, "strip-prefix optimizer/"},
           {{"--rename", "s/zzz/y/"}, "changes no name"},
           {{"--rename", "s/[01]/x/"}, "would both be called"},
           {{"--rename", "x/a/b/"}, "rename takes s/RE/NEW/"},
           {{"--rename", "s/a/b"}, "three delimiters"},
           {{"--rename", "s/(/b/"}, "rename takes s/RE/NEW/"},
           {{"--rename", "s/^model.lm_head$/__metadata__/"}, "no tensor may be"},
           {{"--dtype", "I8"}, "none of BF16"},
       }) {
    for (const std::string command : {"merge", "export", "convert"}) {
      const Outcome outcome = Run({command, in, "-o", out}, bad.options);
      INFO(command << " " << bad.options[1] << ": " << outcome.err);
      CHECK(outcome.code == 2);
      CHECK(Contains(outcome.err, bad.said));
      CHECK_FALSE(std::filesystem::exists(out));
    }
  }
}

TEST_CASE("merge --dtype casts floating-point tensors to the nearest, and says what overflows") {
  TempDir dir;
  const std::string in = dir / "in.dsckpt", out = dir / "out.safetensors";
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> floats = {1.0f,
                                     -0.0f,
                                     1.00390625f /* a tie in BF16: to even */,
                                     1.01171875f /* up to even */,
                                     65504.0f,
                                     65520.0f /* F16 overflows */,
                                     1e-7f,
                                     5.9604645e-8f /* the least F16 */,
                                     2.9802322e-8f /* a tie with 0 */,
                                     -infinity,
                                     std::nanf(""),
                                     3.4e38f};
  const std::vector<int64_t> integers = {1, 1 << 20};
  const auto provider = MakeProvider([&](Description& d) {
    TensorSource source;
    source.data = floats.data();
    source.dtype = kF32;
    const int64_t shape[] = {static_cast<int64_t>(floats.size())}, two[] = {2};
    source.shape = shape;
    d.Tensor("f", source);
    source.data = integers.data();
    source.dtype = kI64;
    source.shape = two;
    d.Tensor("i", source);
  });
  REQUIRE(SaveFile(in, *provider).ok());
  const std::map<std::string, std::vector<uint16_t>> expected = {
      {"F16",
       {0x3C00, 0x8000, 0x3C04, 0x3C0C, 0x7BFF, 0x7C00, 0x0002, 0x0001, 0x0000, 0xFC00, 0x7E00,
        0x7C00}},
      {"BF16",
       {0x3F80, 0x8000, 0x3F80, 0x3F82, 0x4780, 0x4780, 0x33D7, 0x3380, 0x3300, 0xFF80, 0x7FC0,
        0x7F80}}};
  for (const auto& [dtype, bits] : expected) {
    for (const std::string command : {"merge", "export"}) {
      Strings args = {command, in, "-o", out, "--force", "--dtype", dtype, "--json"};
      if (command == "merge") args.insert(args.end(), {"--format", "safetensors"});
      const Outcome outcome = RunTool(args);
      INFO(command << " " << dtype << ": " << outcome.err);
      REQUIRE(outcome.code == 0);
      const File file = *File::Open(out);
      CHECK(file.FindTensor("f")->dtype.name == dtype);
      CHECK(file.FindTensor("i")->dtype.name == "I64");
      const auto view = *file.View("f");
      std::vector<uint16_t> found(floats.size());
      std::memcpy(found.data(), view.bytes().data(), view.bytes().size());
      CHECK(found == bits);
      const Json json = Json::parse(outcome.out);
      CHECK(json["cast"] == 1);
      CHECK(json["became_infinite"] == (dtype == "F16" ? 2 : 1));
      CHECK(Contains(outcome.err, "became infinite"));
    }
  }
  // To a wider one it is exact, and back again.
  REQUIRE(RunTool({"merge", in, "-o", dir / "wide", "--dtype", "float64"}).code == 0);
  const auto wide = *File::Open(dir / "wide")->View("f");
  CHECK(wide.As<double>().value()[2] == 1.00390625);
  REQUIRE(RunTool({"merge", dir / "wide", "-o", dir / "back", "--dtype", "f32"}).code == 0);
  const auto back = FloatsOf(*File::Open(dir / "back"), "f");
  for (size_t i = 0; i < floats.size(); ++i) {
    CHECK((std::isnan(floats[i])
               ? std::isnan(back[i])
               : std::bit_cast<uint32_t>(back[i]) == std::bit_cast<uint32_t>(floats[i])));
  }
}

TEST_CASE("a prefix of a tree that goes leaves keys, not escaped segments") {
  TempDir dir;
  const std::string in = dir / "in.dsckpt", out = dir / "out";
  const float one = 1;
  const Strings keys = {"0", "a/b", "t~x", "~s1"};
  const auto provider = MakeProvider([&](Description& d) {
    d.Begin(NodeKind::kDict, "model");
    for (const std::string& key : keys) {
      TensorSource source;
      source.data = &one;
      source.dtype = kF32;
      d.Tensor(Key(key), source);
    }
    d.End();
  });
  REQUIRE(SaveFile(in, *provider).ok());
  for (const Strings& args : {Strings{"export"}, Strings{"merge", "--format", "safetensors"}}) {
    Strings command = args;
    command.insert(command.end(), {in, "-o", out, "--force", "--strip-prefix", "model/"});
    REQUIRE(RunTool(command).code == 0);
    const File file = *File::Open(out);
    Strings names = NamesOf(file);
    const auto members = *file.Metadata();
    for (const auto& [key, value] : members) {
      if (file.FindTensor(value).ok()) names.push_back(key);  // One element: all are tied.
    }
    std::sort(names.begin(), names.end());
    CHECK(names == keys);
  }
}

TEST_CASE("expressions of --rename have bounds: names from files neither crash nor stop them") {
  TempDir dir;
  const std::string in = dir / "in.dsckpt", out = dir / "out";
  const auto save = [&](const std::string& name) {
    const float one = 1;
    const auto provider = MakeProvider([&](Description& d) {
      TensorSource source;
      source.data = &one;
      source.dtype = kF32;
      d.Tensor(Key(name), source);
    });
    REQUIRE(SaveFile(in, *provider).ok());
  };
  const auto rename = [&](const std::string& expression) {
    return RunTool({"merge", in, "-o", out, "--force", "--rename", expression});
  };
  for (const size_t bytes : {size_t{4097}, size_t{65536}}) {
    save(std::string(bytes, 'a'));
    const Outcome outcome = rename("s/.*x/y/");
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(Contains(outcome.err, "rename s/.*x/y/: 'aaaa"));
    CHECK(Contains(outcome.err, bytes == 4097 ? "has 4097 bytes, and expressions take names of up "
                                                "to 4096"
                                              : "has 65536 bytes"));
    CHECK(outcome.err.size() < 1000);
    CHECK_FALSE(std::filesystem::exists(out));
  }
  save(std::string(4096, 'a'));
  for (const std::string expression : {"s/(a*)*x/y/", "s/(a|aa)+x/y/", "s/(|)*(a+)+\\2x/y/",
                                       "s/(((((((((((.)))))))))))*x/y/", "s/.*.*.*x/y/"}) {
    const Outcome outcome = rename(expression);
    INFO(expression << ": " << outcome.err);
    CHECK(outcome.code == 2);
    CHECK((Contains(outcome.err, "takes too many steps on this name: write it more exactly") ||
           Contains(outcome.err, "nests too deep on this name: write it more exactly")));
    CHECK_FALSE(std::filesystem::exists(out));
  }
  const Outcome outcome = rename("s/^(a)[^b]/<\\1&$>/g");
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(NamesOf(*File::Open(out)) == Strings{"<aaa$>" + std::string(4094, 'a')});
}
