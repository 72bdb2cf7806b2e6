#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
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

File OpenOk(const std::string& path) {
  Result<File> file = File::Open(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  return *file;
}

std::string TensorBytesOf(const File& file, const std::string& name) {
  const Result<Tensor> tensor = file.View(name);
  INFO(name << ": " << tensor.status().ToString());
  REQUIRE(tensor.ok());
  return {reinterpret_cast<const char*>(tensor->bytes().data()), tensor->bytes().size()};
}

// The JSON header of a safetensors file.
Json HeaderOf(const std::string& path) {
  const std::string bytes = ReadWholeFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return Json::parse(bytes.substr(8, length));
}

void RequireRefused(const Strings& args, const std::string& message, int code = 2) {
  const Outcome outcome = RunTool(args);
  INFO(args[0] << ": " << outcome.out << outcome.err);
  CHECK(outcome.code == code);
  CHECK(outcome.out.empty());
  CHECK(Contains(outcome.err, message));
}

Strings FilesIn(const std::string& directory) {
  Strings names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

constexpr char kTwoTensors[] =
    R"({"__metadata__":{"format":"np","lm_head":"embed","author":"x\ny"},)"
    R"("a/b~c":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
    R"("embed":{"dtype":"F32","shape":[2,2],"data_offsets":[3,19]}})";

}  // namespace

TEST_CASE("import keeps names, values and metadata, unaligned tensors are laid anew (C04)") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", out = dir / "out.dsckpt";
  const std::string data = Counting(19);
  for (const std::string& header : {std::string(kTwoTensors), std::string(kTwoTensors) + " "}) {
    for (const std::string encoding : {"raw", "zstd", "byteplane-zstd"}) {
      WriteWholeFile(in, Safetensors(header, data));
      const Json json = Json::parse(
          RunOk({"import", "--json", in, "-o", out, "--encoding", encoding, "--force"}).out);
      CHECK(json["schema"] == "dsckpt.import/1");
      CHECK(json["tensors"] == 2);
      CHECK(json["aliases"] == 1);
      CHECK(json["file_bytes"] == std::filesystem::file_size(out));
      const File file = OpenOk(out);
      CHECK(file.format() == FileFormat::kDsckpt);
      CHECK(file.tensor_count() == 2);
      CHECK_FALSE(file.tree().has_value());
      CHECK(TensorBytesOf(file, "a/b~c") == data.substr(0, 3));
      CHECK(TensorBytesOf(file, "embed") == data.substr(3));
      CHECK(TensorBytesOf(file, "lm_head") == data.substr(3));
      REQUIRE(file.alias_count() == 1);
      CHECK(file.alias(0).name == "lm_head");
      CHECK(file.tensor(1).offset % 4 == 0);
      CHECK(reinterpret_cast<uintptr_t>(file.View("embed")->bytes().data()) % 4 == 0);
      CHECK(HeaderOf(out)["__metadata__"]["format"] == "np");
      CHECK(HeaderOf(out)["__metadata__"]["author"] == "x\ny");
      CHECK(HeaderOf(out)["__metadata__"]["lm_head"] == "embed");
      CHECK(RunTool({"verify", "--decode", out}).code == 0);
    }
  }
}

TEST_CASE("import of names that are no paths: prefixes of one another, digits, empty (C08)") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", out = dir / "out.dsckpt",
                    back = dir / "back.safetensors";
  const Strings names = {"", "a", "a/b", "a/b/", "0", "~", "~s0", "../x", "/abs"};
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += (i == 0 ? "\"" : ",\"") + names[i] +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  WriteWholeFile(in, Safetensors(header + "}", Counting(names.size())));
  RunOk({"import", in, "-o", out});
  RunOk({"export", out, "-o", back});
  for (const std::string& path : {out, back}) {
    const File file = OpenOk(path);
    CHECK(file.tensor_count() == names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      CHECK(TensorBytesOf(file, names[i]) == std::string(1, static_cast<char>(i)));
    }
  }
  CHECK(FilesIn(dir.path()) == Strings{"back.safetensors", "in.safetensors", "out.dsckpt"});
}

TEST_CASE("C10: tied names survive export and import, stored once") {
  TempDir dir;
  const std::string shard = dir / "a.dsckpt", plain = dir / "a.safetensors",
                    again = dir / "b.dsckpt";
  WriteSample(shard);
  const Outcome exported = RunOk({"export", shard, "-o", plain});
  CHECK(Contains(exported.out, "4 tensors, 1 alias"));
  // What text can say of the attributes goes into the metadata.
  CHECK(Contains(exported.err, "2 objects, 3 attributes, 4 plain values"));
  const Json header = HeaderOf(plain);
  CHECK(header["__metadata__"]["model/lm_head"] == "model/embed");
  CHECK(header["__metadata__"]["author"] == "somebody");
  CHECK(header["__metadata__"]["format"] == "pt");
  CHECK(header["__metadata__"]["step"] == "1200");
  CHECK(header["__metadata__"]["loss"] == "2.0");
  CHECK(header["__metadata__"]["best"] == "-inf");
  CHECK(header["__metadata__"]["flag"] == "true");
  CHECK(header["__metadata__"]["framework"] == "ex\033ample");
  CHECK(header["__metadata__"]["seed"] == "-18446744073709551616");
  CHECK_FALSE(header["__metadata__"].contains("key"));
  CHECK_FALSE(header["__metadata__"].contains("dsckpt"));
  CHECK_FALSE(header.contains("__dsckpt__"));
  CHECK_FALSE(header.contains("model/lm_head"));
  CHECK(header["model/zip"]["shape"] == Json({4096}));

  const File file = OpenOk(plain);
  CHECK(file.format() == FileFormat::kSafetensors);
  CHECK(file.tensor_count() == 4);
  const std::vector<float> floats = SampleFloats();
  const std::string zip(reinterpret_cast<const char*>(floats.data()),
                        floats.size() * sizeof(float));
  CHECK(TensorBytesOf(file, "model/zip") == zip);
  CHECK(TensorBytesOf(file, "model/embed") == Counting(128));
  CHECK(TensorBytesOf(file, "model/scale") == Counting(12));
  CHECK(file.FindTensor("model/none")->shape[1] == 8);

  RunOk({"import", plain, "-o", again});
  const File both = OpenOk(again);
  CHECK(both.tensor_count() == 4);
  REQUIRE(both.alias_count() == 1);
  CHECK(both.FindTensor("model/lm_head")->name == "model/embed");
  CHECK(TensorBytesOf(both, "model/lm_head") == Counting(128));
  // Equal content, equal digests: encoded before, raw now.
  const File first = OpenOk(shard);
  CHECK(*first.Digest(*first.FindTensor("model/zip")) ==
        *both.Digest(*both.FindTensor("model/zip")));
}

TEST_CASE("C45: an input is never overwritten, an existing output needs --force") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", shard = dir / "in.dsckpt", out = dir / "out";
  WriteWholeFile(in, Safetensors(kTwoTensors, Counting(19)));
  WriteSample(shard);
  for (const std::string command : {"import", "export"}) {
    const std::string input = command == "import" ? in : shard;
    const std::string before = ReadWholeFile(input);
    const std::string link = dir / (command + "-symlink"), hard = dir / (command + "-hard");
    std::filesystem::create_symlink(input, link);
    std::filesystem::create_hard_link(input, hard);
    for (const std::string& output : {input, link, hard, dir / ("./" + command + "-hard")}) {
      RequireRefused({command, input, "-o", output, "--force"}, "never overwritten");
      RequireRefused({command, link, "-o", output, "--force"}, "never overwritten");
    }
    WriteWholeFile(out, "old");
    RequireRefused({command, input, "-o", out}, "--force");
    CHECK(ReadWholeFile(out) == "old");
    if (command == "export") {
      RequireRefused({command, input, "-o", dir.path(), "--force"}, "not a regular file");
    }
    RequireRefused({command, input, "-o", "/dev/null", "--force"}, "not a regular file");
    RequireRefused({command, input, "-o", dir / "none/out"}, "none");
    RunOk({command, input, "-o", out, "--force"});
    CHECK(ReadWholeFile(input) == before);
    OpenOk(out);
  }
}

TEST_CASE("C07: import refuses reserved names and NUL by name, before a file exists") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", out = dir / "out.dsckpt";
  struct Case {
    std::string name, message;
  };
  for (const Case& c : {Case{"a\\u0000b", "'a\\x00b' contains NUL"}, {"datastates_metadata", ""}}) {
    WriteWholeFile(
        in,
        Safetensors("{\"" + c.name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
    if (c.message.empty()) {
      RunOk({"import", in, "-o", out});
    } else {
      RequireRefused({"import", in, "-o", out}, c.message);
      CHECK(FilesIn(dir.path()) == Strings{"in.safetensors"});
    }
  }
}

TEST_CASE("import and export say what to use instead for the wrong kind of input") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", shard = dir / "a.dsckpt", out = dir / "out";
  WriteWholeFile(in, Safetensors(kTwoTensors, Counting(19)));
  WriteSample(shard);
  RequireRefused({"import", shard, "-o", out}, "dsckpt file already");
  RequireRefused({"export", in, "-o", out}, "safetensors file already");
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("C01: every dtype through import and export, bit for bit") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", shard = dir / "a.dsckpt", out = dir / "out";
  std::string header = "{", data;
  for (const DTypeInfo& dtype : AllDTypes()) {
    if (!dtype.listable) continue;
    const size_t bytes = 3 * dtype.block_bytes;
    header += (header.size() == 1 ? "\"" : ",\"") + std::string(dtype.name) + "\":{\"dtype\":\"" +
              std::string(dtype.name) + "\",\"shape\":[3," + std::to_string(dtype.block_elements) +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes) + "]}";
    data += Counting(256 - bytes).substr(256 - 2 * bytes);
  }
  WriteWholeFile(in, Safetensors(header + "}", data));
  for (const std::string encoding : {"raw", "byteplane-zstd"}) {
    RunOk({"import", in, "-o", shard, "--encoding", encoding, "--force"});
    RunOk({"export", shard, "-o", out, "--force"});
    const File before = OpenOk(in), after = OpenOk(out);
    REQUIRE(after.tensor_count() == before.tensor_count());
    for (uint32_t i = 0; i < before.tensor_count(); ++i) {
      const std::string name(before.tensor(i).name);
      CHECK(after.FindTensor(name)->dtype.name == name);
      CHECK(TensorBytesOf(after, name) == TensorBytesOf(before, name));
    }
  }
}

TEST_CASE("export names what safetensors cannot hold") {
  TempDir dir;
  const std::string shard = dir / "a.dsckpt", out = dir / "out.safetensors";
  const std::string data = Counting(64);
  const auto provider = MakeProvider([&](Description& description) {
    TensorSource source;
    source.data = data.data();
    const std::vector<int64_t> shape = {2, 2};
    source.shape = shape;
    source.dtype = kC128;
    description.Tensor("wave", source);
    source.dtype = DType::kI4;
    description.Tensor("nibbles", source);
    source.dtype = kU8;
    description.Tensor("fine", source);
  });
  REQUIRE(SaveFile(shard, *provider).ok());
  RequireRefused({"export", shard, "-o", out}, "no dtype for 'nibbles' I4, 'wave' C128");

  WriteSample(dir / "b.dsckpt");
  RequireRefused({"export", dir / "b.dsckpt", "-o", out, "--strict"}, "'rng', 'text/note'");
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("export of a corrupt file is refused, unless asked for") {
  TempDir dir;
  const std::string shard = dir / "a.dsckpt", out = dir / "out.safetensors";
  WriteSample(shard);
  const uint64_t offset = OpenOk(shard).FindTensor("model/embed")->offset;
  std::string bytes = ReadWholeFile(shard);
  bytes[offset + 5] = static_cast<char>(bytes[offset + 5] ^ 1);
  WriteWholeFile(shard, bytes);
  RequireRefused({"export", shard, "-o", out}, "'model/embed'", 1);
  CHECK_FALSE(std::filesystem::exists(out));
  RunOk({"export", shard, "-o", out, "--no-verify"});
}

TEST_CASE("an interrupted import leaves nothing behind and the old output as it was") {
  TempDir dir;
  const std::string in = dir / "in.safetensors", out = dir / "out.dsckpt";
  // Sparse: large enough to be met in the middle, cheap to make.
  constexpr uint64_t kBytes = uint64_t{2} << 30;
  const std::string header = R"({"a":{"dtype":"U8","shape":[)" + std::to_string(kBytes) +
                             R"(],"data_offsets":[0,)" + std::to_string(kBytes) + "]}}";
  WriteWholeFile(in, Safetensors(header, ""));
  std::filesystem::resize_file(in, 8 + header.size() + kBytes);
  WriteWholeFile(out, "old");
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t pid = StartTool({"import", in, "-o", out, "--force"});
    // The third file is the temporary one.
    while (FilesIn(dir.path()).size() < 3 && !HasEnded(pid)) std::this_thread::yield();
    kill(pid, signal);
    CHECK(WaitFor(pid) == 128 + signal);
    CHECK(FilesIn(dir.path()) == Strings{"in.safetensors", "out.dsckpt"});
    CHECK(ReadWholeFile(out) == "old");
  }
}

TEST_CASE("export and merge refuse what cannot be verified, unless told") {
  const std::string shard =
      std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/other-hash.dsckpt";
  for (const std::string command : {"export", "merge"}) {
    CAPTURE(command);
    const TempDir dir;
    const std::string out = dir / "out";
    const Outcome refused = RunTool({command, shard, "-o", out});
    CHECK(refused.code != 0);
    CHECK(Contains(refused.err, "hash id 200"));
    CHECK(Contains(refused.err, "--no-verify"));
    CHECK_FALSE(std::filesystem::exists(out));
    RunOk({command, shard, "-o", out, "--no-verify"});
    const Tensor tensor = File::Open(out)->View("tied").value();
    CHECK(tensor.As<float>().value()[3] == 4);
  }
}
