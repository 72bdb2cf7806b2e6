#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "format/checksum.h"
#include "format/manifest/manifest.h"
#include "spec/conformance/describe.h"
#include "spec/conformance/vectors.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

// Replays spec/conformance: every valid file opens, says what its JSON says, and reads; every
// invalid one is refused as its JSON says.

namespace dsckpt::conformance {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::string kVectors = std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/";

// Paths without extension, sorted.
std::vector<std::string> Stems(const std::string& folder, const char* extension = ".dsckpt") {
  std::vector<std::string> stems;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension)
      stems.push_back((folder / entry.path().stem()).string());
  }
  std::sort(stems.begin(), stems.end());
  return stems;
}

Json ReadJson(const std::string& stem) { return Json::parse(ReadWholeFile(stem + ".json")); }

// The texts of messages are this implementation's own: they stand apart from what a vector asks.
bool SaysWhatItShould(const std::string& stem, const Status& status) {
  static const Json texts = ReadJson(kVectors + "messages");
  const std::string name = fs::path(stem).filename().string();
  if (status.ok()) return !texts.contains(name);
  // Made by later_vectors.py, not by this library: they have no text.
  if (name.starts_with("x7-") || name == "p3-other-sums-left-over") return true;
  const auto text = texts.at(name).get<std::string>();
  INFO("should contain: " << text);
  return status.message().find(text) != std::string::npos;
}

/// Such files cannot be verified.
bool HasOtherHash(const std::string& stem) { return stem.find("other-hash") != std::string::npos; }

bool Readable(const std::string& encoding) { return encoding.rfind("unknown", 0) != 0; }

void CheckPayload(const File& file, const Json& json) {
  for (const Json& tensor : json["tensors"]) {
    const std::string name = tensor["name"];
    INFO(name);
    const Result<Tensor> view = file.View(name);
    if (!Readable(tensor["encoding"]) || !Readable(tensor["dtype"])) {
      CHECK(view.status().code() == StatusCode::kUnsupported);
      continue;
    }
    REQUIRE(view.ok());
    CHECK(view->bytes().size() == tensor["bytes"].get<uint64_t>());
  }
  for (const Json& object : json["objects"]) {
    const Result<std::vector<std::byte>> bytes = file.ReadObject(object["name"].get<std::string>());
    REQUIRE(bytes.ok());
    CHECK(bytes.value().size() == object["bytes"].get<uint64_t>());
  }
}

// What does not depend on how well a zstd version compresses.
Json WithoutStorage(Json json) {
  json.erase("file_bytes");
  for (const char* kind : {"tensors", "objects"}) {
    for (Json& item : json[kind]) {
      item.erase("stored_bytes");
      item.erase("offset");
    }
  }
  return json;
}

bool HasEncoded(const Json& json) {
  const auto encoded = [](const Json& item) { return item["encoding"] != "raw"; };
  return std::any_of(json["tensors"].begin(), json["tensors"].end(), encoded) ||
         std::any_of(json["objects"].begin(), json["objects"].end(), encoded);
}

}  // namespace

TEST_CASE("valid vectors open and say what their JSON says") {
  const auto stems = Stems(kVectors + "valid");
  REQUIRE(stems.size() >= 15);
  for (const std::string& stem : stems) {
    for (const bool map : {true, false}) {
      INFO(stem << " map=" << map);
      const Result<File> file = File::Open(stem + ".dsckpt", {.map = map});
      REQUIRE(file.status().ToString() == "Ok");
      const Json expected = ReadJson(stem);
      CHECK(Describe(*file) == expected);
      CheckPayload(*file, expected);
    }
  }
}

TEST_CASE("valid vectors verify, decoded too") {
  for (const std::string& stem : Stems(kVectors + "valid")) {
    INFO(stem);
    const Result<VerifyReport> report = Verify(stem + ".dsckpt", {.decode = true});
    REQUIRE(report.ok());
    for (const Problem& problem : report->problems) {
      CAPTURE(problem.item, problem.kind, problem.expected, problem.found);
      // An unknown encoding cannot be decoded, an unknown hash not be compared; that is said, and
      // nothing else is wrong.
      CHECK(problem.kind == "unsupported");
      CHECK((stem.find("future-encoding") != std::string::npos || HasOtherHash(stem)));
    }
    CHECK(report->checked_bytes == fs::file_size(stem + ".dsckpt"));
  }
}

TEST_CASE("invalid vectors are refused as their JSON says") {
  const auto stems = Stems(kVectors + "invalid");
  REQUIRE(stems.size() >= 60);
  for (const std::string& stem : stems) {
    const Json expected = ReadJson(stem);
    const Result<File> file = File::Open(stem + ".dsckpt");
    const Status status = file.status();
    INFO(stem << ": " << status.ToString());
    CHECK(StatusCodeName(status.code()) == expected["code"].get<std::string>());
    CHECK(SaysWhatItShould(stem, status));
  }
}

TEST_CASE("verification finds fault with every invalid vector") {
  for (const std::string& stem : Stems(kVectors + "invalid")) {
    INFO(stem);
    const Json expected = ReadJson(stem);
    const Result<VerifyReport> report = Verify(stem + ".dsckpt", {.decode = true});
    if (!report.ok()) {
      CHECK(StatusCodeName(report.status().code()) == expected["code"].get<std::string>());
      continue;
    }
    CHECK_FALSE(report->ok);
    if (!expected.contains("verify")) continue;
    REQUIRE(report->problems.size() >= 1);
    CHECK(report->problems[0].item == expected["verify"]["item"].get<std::string>());
    CHECK(report->problems[0].kind == expected["verify"]["kind"].get<std::string>());
  }
}

namespace {

std::vector<std::string> Directories(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Opens a checkpoint and every shard of it: the first error.
Result<Checkpoint> OpenAll(const std::string& path) {
  CheckpointOptions options;
  options.retry = std::chrono::milliseconds(0);
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path, options));
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_RETURN_IF_ERROR(checkpoint.OpenShard(i).status());
  }
  return checkpoint;
}

}  // namespace

TEST_CASE("valid directories hold what their JSON says") {
  const auto paths = Directories(kVectors + "valid");
  REQUIRE(paths.size() >= 3);
  for (const std::string& path : paths) {
    INFO(path);
    const Result<Checkpoint> checkpoint = OpenAll(path);
    REQUIRE(checkpoint.status().ToString() == "Ok");
    const Result<Json> json = Describe(*checkpoint);
    REQUIRE(json.status().ToString() == "Ok");
    CHECK(*json == ReadJson(path));
    for (uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
      CHECK(checkpoint->CheckCoverage(i).ok());
      CHECK(checkpoint->CompareCopies(i).ok());
    }
    for (uint32_t i = 0; i < checkpoint->shard_count(); ++i) {
      CHECK(Verify(checkpoint->OpenShard(i)->path())->ok == !HasOtherHash(path));
    }
  }
}

TEST_CASE("invalid directories are refused as their JSON says") {
  const auto paths = Directories(kVectors + "invalid");
  REQUIRE(paths.size() >= 15);
  for (const std::string& path : paths) {
    const Json expected = ReadJson(path);
    const Status status = OpenAll(path).status();
    INFO(path << ": " << status.ToString());
    CHECK(StatusCodeName(status.code()) == expected["code"].get<std::string>());
    CHECK(SaysWhatItShould(path, status));
    if (!expected.contains("read")) continue;
    const Result<Checkpoint> checkpoint = Checkpoint::Open(path);
    REQUIRE(checkpoint.ok());
    const std::string name = expected["read"]["tensor"];
    const auto info = checkpoint->FindTensor(name);
    REQUIRE(info.ok());
    std::vector<std::byte> bytes(info->bytes);
    Status read = checkpoint->ReadBytes(info->ordinal, 0, bytes, true);
    // Reading takes one of declared replicas.
    if (read.ok()) read = checkpoint->CompareCopies(info->ordinal);
    CHECK(StatusCodeName(read.code()) == expected["read"]["code"].get<std::string>());
  }
}

TEST_CASE("the manifest vector says what its JSON says") {
  const std::string bytes = ReadWholeFile(kVectors + "valid/manifest.manifest");
  const Result<format::ManifestView> manifest =
      format::ParseManifest(std::as_bytes(std::span(bytes)));
  REQUIRE(manifest.status().ToString() == "Ok");
  CHECK(Describe(*manifest) == ReadJson(kVectors + "valid/manifest"));
  // It names the two shards next to it, and what it says of them holds.
  for (uint32_t i = 0; i < manifest->shard_count(); ++i) {
    const std::string shard = kVectors + "valid/" + std::string(manifest->shard_names[i]);
    INFO(shard);
    CHECK(fs::file_size(shard) == manifest->shard_file_bytes[i]);
  }
}

TEST_CASE("invalid manifests are refused as their JSON says") {
  const auto stems = Stems(kVectors + "invalid", ".manifest");
  REQUIRE(stems.size() >= 40);
  for (const std::string& stem : stems) {
    const Json expected = ReadJson(stem);
    const std::string bytes = ReadWholeFile(stem + ".manifest");
    const Status status = format::ParseManifest(std::as_bytes(std::span(bytes))).status();
    INFO(stem << ": " << status.ToString());
    CHECK(StatusCodeName(status.code()) == expected["code"].get<std::string>());
    CHECK(SaysWhatItShould(stem, status));
  }
}

TEST_CASE("each validation rule of the specification has a vector") {
  const std::string spec = ReadWholeFile(std::string(DSCKPT_SOURCE_DIR) + "/spec/format.md");
  std::set<std::string> rules;
  for (size_t at = spec.find("\n| F1 |"); at != std::string::npos; at = spec.find("\n| ", at + 1)) {
    const std::string rule = spec.substr(at + 3, spec.find(' ', at + 3) - at - 3);
    const bool is_rule =
        rule.size() >= 2 && std::string("FXNTPRLMS").find(rule[0]) != std::string::npos &&
        std::all_of(rule.begin() + 1, rule.end(), [](char c) { return isdigit(c); });
    if (is_rule) rules.insert(rule);
    if (rule == "what") break;
  }
  REQUIRE(rules.size() > 60);
  std::set<std::string> covered;
  std::vector<std::string> stems = Stems(kVectors + "invalid");
  const std::vector<std::string> manifests = Stems(kVectors + "invalid", ".manifest");
  stems.insert(stems.end(), manifests.begin(), manifests.end());
  const std::vector<std::string> directories = Directories(kVectors + "invalid");
  stems.insert(stems.end(), directories.begin(), directories.end());
  for (const std::string& stem : stems) {
    std::string rule = fs::path(stem).filename().string();
    rule = rule.substr(0, rule.find('-'));
    rule[0] = static_cast<char>(toupper(rule[0]));
    covered.insert(rule);
  }
  for (const std::string& rule : rules) {
    INFO("rule " << rule << " has no vector");
    CHECK(covered.count(rule) == 1);
  }
}

TEST_CASE("the dtype registry of the specification is the library's") {
  const std::string spec = ReadWholeFile(std::string(DSCKPT_SOURCE_DIR) + "/spec/format.md");
  for (const DTypeInfo& dtype : AllDTypes()) {
    const std::string row =
        "\n| " + std::to_string(static_cast<int>(dtype.code)) + " | `" + std::string(dtype.name) +
        "` | " + std::to_string(dtype.bits) + " | " + std::to_string(dtype.block_elements) + " / " +
        std::to_string(dtype.block_bytes) + " | " + (dtype.listable ? "yes" : "no") + " | ";
    INFO(row);
    const size_t at = spec.find(row);
    REQUIRE(at != std::string::npos);
    const size_t planes = spec.find('|', at + row.size()) + 2;
    CHECK(spec.compare(planes, dtype.floating ? 4 : 3, dtype.floating ? "yes " : "no ") == 0);
  }
}

TEST_CASE("the worked layout of the specification is the vector's") {
  const std::string spec = ReadWholeFile(std::string(DSCKPT_SOURCE_DIR) + "/spec/format.md");
  const Json layout = ReadJson(kVectors + "valid/layout");
  for (const Json& tensor : layout["tensors"]) {
    const uint64_t offset = tensor["offset"];
    const std::string row = "| `" + tensor["name"].get<std::string>() + "`";
    const std::string place = "listed | " + std::to_string(offset) + " | " +
                              std::to_string(offset + tensor["bytes"].get<uint64_t>()) + " ";
    INFO(row << " ... " << place);
    const size_t at = spec.find(place);
    REQUIRE(at != std::string::npos);
    CHECK(spec.compare(spec.rfind('\n', at) + 1, row.size(), row) == 0);
  }
}

TEST_CASE("the known answers of the specification are the library's") {
  const std::string spec = ReadWholeFile(std::string(DSCKPT_SOURCE_DIR) + "/spec/format.md");
  const float elements[] = {1, 2};
  const Hash128 sums[] = {format::HashChunk(std::as_bytes(std::span(elements)))};
  const int64_t shape[] = {2};
  const int64_t empty[] = {0};
  const Hash128 hello[] = {format::HashChunk(std::as_bytes(std::span("hello\n", 6)))};
  const auto f32 = static_cast<uint16_t>(kF32);
  for (const Hash128& hash :
       {sums[0], hello[0], format::TensorDigest(f32, shape, sums),
        format::TensorDigest(f32, empty, {}), format::ObjectDigest(6, hello)}) {
    INFO(format::ToHex(hash));
    CHECK(spec.find(format::ToHex(hash)) != std::string::npos);
  }
}

TEST_CASE("the vectors are what this version writes") {
  TempDir dir;
  for (const char* part : {"valid", "invalid"}) fs::create_directories(dir / part);
  REQUIRE(WriteVectors(dir.path()).ToString() == "Ok");
  // Those that this library does not write are made by later_vectors.py.
  const auto ours = [](std::vector<std::string> paths) {
    std::erase_if(paths, [](const std::string& path) {
      const std::string name = fs::path(path).filename().string();
      return name.starts_with("later-") || name.starts_with("other-hash");
    });
    return paths;
  };
  const auto stems = ours(Stems(kVectors + "valid"));
  CHECK(stems.size() == Stems(dir / "valid").size());
  for (const std::string& stem : stems) {
    INFO(stem);
    const std::string written = dir / ("valid/" + fs::path(stem).filename().string());
    const Json expected = ReadJson(stem);
    if (ReadWholeFile(written + ".dsckpt") == ReadWholeFile(stem + ".dsckpt")) continue;
    // Another zstd may compress otherwise; another FlatBuffers may lay out the index otherwise.
    WARN("bytes differ from the vector; compared by content");
    CHECK(WithoutStorage(ReadJson(written)) == WithoutStorage(expected));
    if (!HasEncoded(expected)) CHECK(fs::file_size(written + ".dsckpt") == expected["file_bytes"]);
  }
  CHECK(ReadWholeFile(dir / "valid/manifest.manifest") ==
        ReadWholeFile(kVectors + "valid/manifest.manifest"));
  for (const char* const part : {"valid", "invalid"}) {
    CHECK(Directories(dir / part).size() == ours(Directories(kVectors + part)).size());
  }
}

#ifdef DSCKPT_TOOL
TEST_CASE("dsckpt verify and merge refuse manifests that do not fit their shards") {
  const TempDir dir;
  const auto exit_of = [&](const std::string& arguments) {
    const std::string command =
        std::string(DSCKPT_TOOL) + " " + arguments + " >'" + (dir / "log") + "' 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  for (const std::string& path : Directories(kVectors + "invalid")) {
    INFO(path);
    CHECK(exit_of("verify '" + path + "'") == 1);
    CHECK(exit_of("merge '" + path + "' -o '" + (dir / "out.dsckpt") + "'") == 1);
    CHECK_FALSE(fs::exists(dir / "out.dsckpt"));
  }
  for (const std::string& path : Directories(kVectors + "valid")) {
    INFO(path);
    CHECK(exit_of("verify '" + path + "'") == (HasOtherHash(path) ? 2 : 0));
  }
}

TEST_CASE("dsckpt inspect prints the JSON of the vectors") {
  TempDir dir;
  for (const std::string& stem : Stems(kVectors + "valid")) {
    INFO(stem);
    const std::string output = dir / "out.json";
    const std::string command =
        std::string(DSCKPT_TOOL) + " inspect --json --tree '" + stem + ".dsckpt' >'" + output + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    Json printed = Json::parse(ReadWholeFile(output));
    CHECK(printed["path"] == stem + ".dsckpt");
    // What it adds: where the file lies, what follows from the rest, and the JSON header's members.
    for (const char* const key : {"path", "format", "totals", "metadata"}) {
      CHECK(printed.erase(key) == 1);
    }
    CHECK(printed.erase("unknown_hash") == (HasOtherHash(stem) ? 1 : 0));
    CHECK(printed == ReadJson(stem));
  }
}
#endif

}  // namespace dsckpt::conformance
