// What models and runs stand for on the command line, and what conversions keep of __metadata__.

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

/// One tensor of bytes, with metadata as JSON members: R"("a":"b")".
void WritePlain(const std::string& path, const std::string& name, const std::string& data,
                const std::string& metadata = "") {
  const std::string size = std::to_string(data.size());
  WriteWholeFile(path, Safetensors("{\"__metadata__\":{" + metadata + "},\"" + name +
                                       "\":{\"dtype\":\"U8\",\"shape\":[" + size +
                                       "],\"data_offsets\":[0," + size + "]}}",
                                   data));
}

Json HeaderOf(const std::string& path) {
  const std::string bytes = ReadWholeFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return Json::parse(bytes.substr(8, length));
}

/// Without what dsckpt writes itself.
std::map<std::string, std::string> MetadataOf(const std::string& path) {
  std::map<std::string, std::string> members;
  const Json header = HeaderOf(path);
  for (const auto& [key, value] : header["__metadata__"].items()) {
    if (key.find("dsckpt") != 0) members[key] = value;
  }
  return members;
}

constexpr const char* kMap = R"({"metadata":{"total_size":12,"note":"n","deep":{"x":[1]}},
    "weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";

/// Two files with an index, whose metadata agree in "step", differ in "rank", and have members of
/// their own.
std::string MakeModel(const TempDir& dir) {
  std::filesystem::create_directories(dir / "model");
  WritePlain(dir / "model/1.safetensors", "a", "aaaa",
             R"("format":"pt","step":"7","rank":"0","one":"1")");
  WritePlain(dir / "model/2.safetensors", "b", "bbbbbbbb",
             R"("format":"pt","step":"7","rank":"1","two":"2")");
  WriteWholeFile(dir / "model/model.safetensors.index.json", kMap);
  return dir / "model";
}

const std::map<std::string, std::string> kKept = {{"format", "pt"}, {"step", "7"},
                                                  {"one", "1"},     {"two", "2"},
                                                  {"note", "n"},    {"deep", R"({"x":[1]})"}};

Strings FilesEndingIn(const std::string& directory, const std::string& end) {
  Strings files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().string().ends_with(end)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// One tensor of one element, with attributes and members of metadata.
void SaveScalar(const std::string& path, const std::string& name,
                const std::vector<std::pair<std::string, Value>>& attributes,
                const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
  static const float data = 1;
  const auto provider = MakeProvider([&](Description& d) {
    TensorSource source;
    source.data = &data;
    source.dtype = kF32;
    d.Tensor(Key(name), source);
    for (const auto& [attribute, value] : attributes) d.Attribute(attribute, value);
  });
  SaveOptions options;
  options.metadata = metadata;
  REQUIRE(SaveFile(path, *provider, options).ok());
}

}  // namespace

TEST_CASE("merge and convert keep members of __metadata__, where inputs differ they say so") {
  TempDir dir;
  const std::string model = MakeModel(dir), out = dir / "out", split = dir / "split";
  for (const Strings& args :
       {Strings{"merge", model}, Strings{"merge", model + "/model.safetensors.index.json"},
        Strings{"convert", model}, Strings{"merge", model, "--format", "safetensors"},
        Strings{"convert", model, "--format", "safetensors"}, Strings{"export", model}}) {
    Strings command = args;
    command.insert(command.end(), {"-o", out, "--force"});
    const Outcome outcome = RunOk(command);
    INFO(args[0] << " " << args[1]);
    CHECK(MetadataOf(out) == kKept);
    CHECK(Contains(outcome.err, "metadata 'rank', which is left out: \"0\" in " + model +
                                    "/1.safetensors, \"1\" in " + model + "/2.safetensors"));
    command.push_back("--json");
    const Json json = Json::parse(RunOk(command).out);
    REQUIRE(json["conflicting_metadata"].size() == 1);
    CHECK(json["conflicting_metadata"][0]["key"] == "rank");
    CHECK(json["conflicting_metadata"][0]["values"] ==
          Json::array({{{"file", model + "/1.safetensors"}, {"value", "0"}},
                       {{"file", model + "/2.safetensors"}, {"value", "1"}}}));
  }
  // The step that all agree in is that of the output.
  RunOk({"merge", model, "-o", out, "--force"});
  CHECK(Checkpoint::Open(out)->step() == 7);
  RunOk({"merge", model, "-o", dir / "steps", "--shards", "2"});
  CHECK(Checkpoint::Open(dir / "steps")->step() == 7);
  // Into several files: each has all of it.
  for (const std::string format : {"dsckpt", "safetensors"}) {
    for (const std::string command : {"merge", "convert"}) {
      const std::string directory = split + command + format;
      RunOk({command, model, "-o", directory, "--max-shard-size", "8", "--format", format});
      const Strings files =
          FilesEndingIn(directory, format == "dsckpt" ? ".dsckpt" : ".safetensors");
      REQUIRE(files.size() == 2);
      for (const std::string& file : files) CHECK(MetadataOf(file) == kKept);
    }
  }
}

TEST_CASE("merge of one file keeps its metadata, whatever the formats") {
  TempDir dir;
  const std::string plain = dir / "in.safetensors", shard = dir / "in.dsckpt", out = dir / "out";
  WritePlain(plain, "a", "aaaa", R"("format":"np","step":"1000","author":"x","tied":"a")");
  RunOk({"import", plain, "-o", shard});
  const std::map<std::string, std::string> kept = {
      {"format", "np"}, {"step", "1000"}, {"author", "x"}, {"tied", "a"}};
  for (const std::string& in : {plain, shard}) {
    for (const std::string format : {"dsckpt", "safetensors"}) {
      const Outcome outcome = RunOk({"merge", in, "-o", out, "--format", format, "--force"});
      INFO(in << " to " << format);
      CHECK(MetadataOf(out) == kept);
      CHECK(outcome.err.empty());
      RunOk({"merge", in, "-o", dir / (format + "-dir"), "--shards", "1", "--format", format,
             "--force"});
    }
    CHECK(MetadataOf(dir / "dsckpt-dir/shard-00000.dsckpt") == kept);
    CHECK(MetadataOf(dir / "safetensors-dir/model-00001-of-00001.safetensors") == kept);
  }
  // A recorded second name becomes an alias.
  RunOk({"merge", plain, "-o", out, "--force"});
  REQUIRE(File::Open(out)->alias_count() == 1);
  CHECK(File::Open(out)->alias(0).name == "tied");
}

TEST_CASE("one rule for operands: a model's directory, its index, its one file") {
  TempDir dir;
  const std::string model = MakeModel(dir);
  for (const std::string& path : {model, model + "/model.safetensors.index.json"}) {
    const Json json = Json::parse(RunOk({"inspect", "--json", path}).out);
    CHECK(json["schema"] == "dsckpt.checkpoint/1");
    CHECK(json["complete"] == true);
    CHECK(json["format"] == "safetensors");
    CHECK(json["step"] == 7);
    CHECK(json["tensors"][1]["name"] == "b");
    CHECK(Contains(RunOk({"inspect", path}).out, "model in several safetensors files, complete"));
    const Outcome verified = RunOk({"verify", path});
    CHECK(Contains(verified.out, "1.safetensors: header ok; it has no checksums"));
    CHECK(Contains(verified.out, "2 files: 0 ok, 2 without checksums"));
  }
  const std::string single = dir / "single", out = dir / "out";
  for (const char* const name :
       {"model.safetensors", "diffusion_pytorch_model.safetensors", "adapter_model.safetensors"}) {
    std::filesystem::create_directories(single);
    WritePlain(single + "/" + name, "a", "aaaa");
    WriteWholeFile(single + "/config.json", "{}");
    INFO(name);
    CHECK(Json::parse(RunOk({"inspect", "--json", single}).out)["tensors"][0]["name"] == "a");
    CHECK(Contains(RunOk({"verify", single}).out, std::string(name) + ": header ok"));
    for (const std::string command : {"merge", "convert", "import"}) {
      RunOk({command, single, "-o", out, "--force"});
      CHECK(File::Open(out)->format() == FileFormat::kDsckpt);
      CHECK(File::Open(out)->tensor(0).name == "a");
    }
    CHECK(RunTool({"export", single, "-o", out, "--force"}).code == 2);
    CHECK(RunTool({"merge", single, "-o", single + "/" + name, "--force"}).code == 2);
    std::filesystem::remove_all(single);
  }
  // The indexes of others, too.
  std::filesystem::rename(model + "/model.safetensors.index.json",
                          model + "/diffusion_pytorch_model.safetensors.index.json");
  RunOk({"inspect", model});
  std::filesystem::rename(model + "/diffusion_pytorch_model.safetensors.index.json",
                          model + "/other.safetensors.index.json");
  RunOk({"verify", model});
}

TEST_CASE("models that are not whole, or not one, are told from those that are") {
  TempDir dir;
  const std::string model = MakeModel(dir), out = dir / "out";
  const auto check = [&](const Strings& args, int code, const std::string& said) {
    const Outcome outcome = RunTool(args);
    INFO(args[0] << " " << args[1] << ": " << outcome.err);
    CHECK(outcome.code == code);
    CHECK(Contains(outcome.err, said));
  };
  std::filesystem::rename(model + "/2.safetensors", dir / "away");
  for (const Strings& args :
       {Strings{"inspect", model}, Strings{"verify", model}, Strings{"merge", model, "-o", out},
        Strings{"export", model, "-o", out}}) {
    check(args, 1, "2.safetensors");
  }
  std::filesystem::rename(dir / "away", model + "/2.safetensors");
  check({"ls", model}, 2, "is no run");
  WritePlain(model + "/model.safetensors", "c", "c");
  check({"verify", model}, 2, "holds both model.safetensors and model.safetensors.index.json");
  std::filesystem::remove(model + "/model.safetensors");
  std::filesystem::rename(model + "/model.safetensors.index.json", dir / "away");
  std::filesystem::rename(model + "/1.safetensors", model + "/model-00001-of-00002.safetensors");
  check({"verify", model}, 1, "but not the index model.safetensors.index.json");
  // What takes Python says so.
  for (const char* const name : {"pytorch_model.bin", ".metadata", "mp_rank_00_model_states.pt"}) {
    std::filesystem::create_directories(dir / "foreign");
    WriteWholeFile(dir / (std::string("foreign/") + name), "x");
    for (const std::string command : {"inspect", "verify", "ls"}) {
      check({command, dir / "foreign"}, 2, "dsckpt.convert.convert()");
    }
    std::filesystem::remove_all(dir / "foreign");
  }
}

TEST_CASE("of a run, conversions take the latest checkpoint and name it") {
  TempDir dir;
  std::filesystem::create_directories(dir / "run");
  WriteSample(dir / "run/step-1200");
  for (const Strings& args :
       {Strings{"merge", "-o"}, Strings{"convert", "-o"}, Strings{"export", "-o"}}) {
    const Outcome outcome = RunOk({args[0], dir / "run", "-o", dir / "out", "--force"});
    CHECK(Contains(outcome.err, "its latest checkpoint, " + (dir / "run/step-1200")));
    CHECK(File::Open(dir / "out")->FindTensor("model/embed").ok());
  }
  std::filesystem::create_directories(dir / "empty");
  CHECK(RunTool({"merge", dir / "empty", "-o", dir / "out", "--force"}).code == 1);
  const Outcome named = RunTool({"ls", dir / "run/step-1200"});
  CHECK(named.code == 2);
}

TEST_CASE("import gives the step as an attribute, from whatever says it") {
  TempDir dir;
  const auto imported = [&](const std::string& name, const std::string& metadata,
                            const Strings& more) {
    WritePlain(dir / name, "a", "aaaa", metadata);
    Strings args = {"import", "--json", dir / name, "-o", dir / "out", "--force"};
    args.insert(args.end(), more.begin(), more.end());
    return Json::parse(RunOk(args).out);
  };
  const auto attribute = [&](const std::string& name) {
    return File::Open(dir / "out")->Attribute(name);
  };
  Json json = imported("step1000.safetensors", R"("step":"7")", {});
  CHECK(json["step"] == 7);
  CHECK(json["step_from"] == "metadata");
  CHECK(std::get<int64_t>(*attribute("step")) == 7);
  for (const auto& [name, step] :
       std::map<std::string, int64_t>{{"step1000.safetensors", 1000},
                                      {"m_step-0000000020.safetensors", 20},
                                      {"onestep_3_step_4.safetensors", 4},
                                      {"step5-of-steps.safetensors", 5}}) {
    INFO(name);
    json = imported(name, R"("step":"x")", {});
    CHECK(json["step"] == step);
    CHECK(json["step_from"] == "file name");
    CHECK(std::get<int64_t>(*attribute("step")) == step);
    CHECK(Checkpoint::Open(dir / "out")->step() == step);
  }
  json = imported("model-00001.safetensors", "", {});
  CHECK(json["step"].is_null());
  CHECK(attribute("step").status().code() == StatusCode::kNotFound);
  json = imported("step1000.safetensors", R"("step":"7")",
                  {"--step", "9", "--attribute", "loss=2.5", "--attribute", "flag=true",
                   "--attribute", "n=-3", "--attribute", "text=a=b", "--attribute", "none=null"});
  CHECK(json["step"] == 9);
  CHECK(json["step_from"] == "option");
  CHECK(std::get<int64_t>(*attribute("step")) == 9);
  CHECK(std::get<double>(*attribute("loss")) == 2.5);
  CHECK(std::get<bool>(*attribute("flag")));
  CHECK(std::get<int64_t>(*attribute("n")) == -3);
  CHECK(std::get<std::string>(*attribute("text")) == "a=b");
  CHECK(std::holds_alternative<std::monostate>(*attribute("none")));
  const std::string in = dir / "step1000.safetensors";
  for (const Strings& bad :
       {Strings{"--attribute", "x"}, Strings{"--attribute", "=1"}, Strings{"--step", "-1"},
        Strings{"--attribute", "a=1", "--attribute", "a=2"}, Strings{"--attribute", "step=x"},
        Strings{"--step", "1", "--attribute", "step=2"}}) {
    Strings args = {"import", in, "-o", dir / "never"};
    args.insert(args.end(), bad.begin(), bad.end());
    CHECK(RunTool(args).code == 2);
    CHECK_FALSE(std::filesystem::exists(dir / "never"));
  }
}

TEST_CASE("merge says which attributes differ, a damaged header costs the metadata alone") {
  TempDir dir;
  for (const auto& [name, rank] : std::map<std::string, int64_t>{{"a", 0}, {"b", 1}}) {
    SaveScalar(dir / name, name, {{"step", Value(int64_t{5})}, {"rank", Value(rank)}},
               {{"author", "x"}});
  }
  const Strings merge = {"merge", dir / "a", dir / "b", "-o", dir / "out", "--force", "--json"};
  const Outcome outcome = RunOk(merge);
  CHECK(Contains(outcome.err, "the shards differ in the attribute 'rank': the first one's"));
  CHECK(Json::parse(outcome.out)["conflicting_attributes"] == Json::array({"rank"}));
  CHECK(MetadataOf(dir / "out").at("author") == "x");

  std::string bytes = ReadWholeFile(dir / "b");
  const size_t at = bytes.find("\"author\"");
  bytes[at + 1] = 'A';
  WriteWholeFile(dir / "b", bytes);
  CHECK(RunTool(merge).code == 1);
  Strings anyway = merge;
  anyway.push_back("--no-verify");
  CHECK(Contains(RunOk(anyway).err, "left out: metadata that cannot be read"));
  CHECK(MetadataOf(dir / "out").at("author") == "x");
}

TEST_CASE("attributes in which shards differ are left out of metadata, as members are") {
  TempDir dir;
  const auto attributes = [](int64_t rank, const Value& odd) {
    return std::vector<std::pair<std::string, Value>>{
        {"step", Value(int64_t{5})}, {"rank", Value(rank)}, {"odd", odd}};
  };
  SaveScalar(dir / "a", "a", attributes(0, Value(int64_t{1})));
  SaveScalar(dir / "b", "b", attributes(1, Value()));
  const std::string out = dir / "out.safetensors";
  const Outcome outcome = RunOk(
      {"merge", dir / "a", dir / "b", "-o", out, "--format", "safetensors", "--force", "--json"});
  CHECK(MetadataOf(out) == std::map<std::string, std::string>{{"format", "pt"}, {"step", "5"}});
  CHECK(Contains(outcome.err,
                 "the inputs differ in the attribute 'rank', which is left out: "
                 "\"0\" in " +
                     (dir / "a") + ", \"1\" in " + (dir / "b")));
  CHECK(Contains(outcome.err, "left out, as safetensors cannot hold them: 1 attribute\n"));
  const Json json = Json::parse(outcome.out);
  CHECK(json["dropped_attributes"] == 2);
  CHECK(json["conflicting_metadata"] ==
        Json::array({{{"key", "rank"},
                      {"values", Json::array({{{"file", dir / "a"}, {"value", "0"}},
                                              {{"file", dir / "b"}, {"value", "1"}}})}}}));
  CHECK(json["conflicting_attributes"] == Json::array({"odd", "rank"}));
}

TEST_CASE("a run of which a stopped replacement left the latest checkpoint aside") {
  TempDir dir;
  const std::string run = dir / "run", aside = run + "/step-0000000001.replaced-0011-6";
  std::filesystem::create_directory(run);
  WritePlain(dir / "plain.safetensors", "w", "abcd");
  RunOk({"merge", dir / "plain.safetensors", "-o", run + "/step-0000000001", "--shards", "1"});
  WriteWholeFile(run + "/latest", "step-0000000001\n");
  std::filesystem::rename(run + "/step-0000000001", aside);
  REQUIRE(RunDirectory::Open(run)->checkpoints().empty());
  REQUIRE(RunDirectory::Open(run)->Latest().ok());
  const Outcome merged = RunOk({"merge", run, "-o", dir / "out"});
  CHECK(Contains(merged.err, "this is its latest checkpoint, " + aside));
  CHECK(File::Open(dir / "out")->FindTensor("w").ok());
  CHECK(Contains(RunOk({"hash", run}).out, "#w\n"));
  CHECK(Contains(RunOk({"verify", run}).out, aside));
  CHECK(Contains(RunOk({"ls", run}).err, aside + " stands for it"));

  std::filesystem::remove(aside + "/dsckpt.manifest");
  for (const std::string command : {"hash", "verify", "ls"}) {
    const Outcome none = RunTool({command, run});
    INFO(command);
    CHECK(none.code == 1);
    CHECK(Contains(none.err, run + ": no complete checkpoint"));
  }
}

TEST_CASE("a current directory that is gone is an error, not the end of the program") {
  TempDir dir;
  WritePlain(dir / "in.safetensors", "w", "abcd");
  for (const Strings& more :
       {Strings{}, Strings{"--shards", "2"}, Strings{"--shards", "2", "--format", "safetensors"}}) {
    std::filesystem::create_directory(dir / "gone");
    Strings args = {"merge", dir / "in.safetensors", "-o", "out"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = RunTool(args, {.directory = dir / "gone"});
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(Contains(outcome.err, "out: cannot find the current directory: No such"));
  }
  std::filesystem::create_directory(dir / "gone");
  const Outcome outcome =
      RunTool({"merge", dir / "in.safetensors", "-o", dir / "out"}, {.directory = dir / "gone"});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
}

TEST_CASE("ls shows what a roll back left behind, and --help says what all of it means") {
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
  }
  REQUIRE(RollBack(run, 1).ok());
  const std::string text = RunOk({"ls", run}).out;
  INFO(text);
  for (const auto& [name, state] :
       std::map<std::string, std::string>{{"step-0000000001", "latest"},
                                          {"step-0000000002", "abandoned"},
                                          {"step-0000000003", "abandoned"}}) {
    const size_t at = text.find(name);
    REQUIRE(at != std::string::npos);
    const std::string line = text.substr(at, text.find('\n', at) - at);
    CHECK(Contains(line, " " + state));
  }
  CHECK(RunOk({"inspect", run}).out == text);
  const Json json = Json::parse(RunOk({"ls", run, "--json"}).out);
  CHECK(json["latest"] == "step-0000000001");
  const std::string help = RunOk({"ls", "--help"}).out;
  for (const auto& [field, value] : json.items()) {
    CAPTURE(field);
    CHECK(Contains(help, field == "schema" ? value.get<std::string>() : field));
  }
  for (const auto& [field, value] : json["checkpoints"][1].items()) {
    CAPTURE(field);
    CHECK(Contains(help, field));
  }
  CHECK(json["checkpoints"][1]["abandoned"] == true);
  CHECK(json["checkpoints"][0]["abandoned"] == false);
}
