// dsckpt hash: one digest for one content, in whatever file.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;
using namespace dsckpt;

namespace {

Strings Lines(const std::string& text) {
  Strings lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Digests and names, without the path between them.
Strings Digests(const Strings& args) {
  Strings command = {"hash"};
  command.insert(command.end(), args.begin(), args.end());
  Strings lines = Lines(RunOk(command).out);
  for (std::string& line : lines) line = line.substr(0, 32) + line.substr(line.find('#'));
  return lines;
}

std::string Tree(const std::string& path) {
  return RunOk({"hash", "--tree", path}).out.substr(0, 32);
}

}  // namespace

TEST_CASE("hash: plain safetensors have the digests that they have after an import") {
  TempDir dir;
  const std::string plain = dir / "a.safetensors", raw = dir / "raw", coded = dir / "coded";
  // Over one chunk, one chunk, a byte, nothing; and a recorded second name.
  const std::string big(9 << 20, 'x');
  const std::string header =
      R"({"__metadata__":{"tied":"big"},"big":{"dtype":"U8","shape":[9,1048576],)"
      R"("data_offsets":[0,9437184]},"none":{"dtype":"F32","shape":[0,2],)"
      R"("data_offsets":[9437184,9437184]},"one":{"dtype":"I8","shape":[],)"
      R"("data_offsets":[9437184,9437185]}})";
  WriteWholeFile(plain, Safetensors(header, big + "y"));
  REQUIRE(RunTool({"import", plain, "-o", raw}).code == 0);
  REQUIRE(RunTool({"import", plain, "-o", coded, "--encoding", "zstd"}).code == 0);
  const Strings digests = Digests({plain});
  REQUIRE(digests.size() == 4);
  CHECK(digests[0].ends_with("#big"));
  CHECK(digests[3] == digests[0].substr(0, 32) + "#tied");
  CHECK(Digests({raw}) == digests);
  CHECK(Digests({coded}) == digests);
  CHECK(Tree(raw) == Tree(plain));
  CHECK(Tree(coded) == Tree(plain));
  const auto file = File::Open(raw);
  const auto stored = *file->Digest(*file->FindTensor("big"));
  CHECK(*File::Open(plain)->ComputeDigest(*File::Open(plain)->FindTensor("big")) == stored);
  CHECK(Digests({plain, "--filter", "{one,none}"}) == Strings{digests[1], digests[2]});
  const Json json = Json::parse(RunTool({"hash", "--json", plain, raw}).out);
  CHECK(json["schema"] == "dsckpt.hash/1");
  CHECK(json["paths"][0]["tensors"] == json["paths"][1]["tensors"]);
  CHECK(json["paths"][1]["tree_digest"] == Tree(plain));
}

TEST_CASE("hash: tensors in parts have the digest of the whole") {
  for (const uint64_t seed : {400, 401, 402}) {
    CAPTURE(seed);
    const job::Job job(seed);
    TempDir dir;
    Strings merge = {"merge"};
    for (int64_t rank = 0; rank < 4; ++rank) {
      auto locals = job.Of(rank, 4);
      for (job::Local& local : locals) local.memory = local.expected;
      merge.push_back(dir / ("s-" + std::to_string(rank)));
      REQUIRE(SaveFile(merge.back(), *job::Provider(locals), {}, {.pool_bytes = kMiB}).ok());
    }
    Strings several = merge;
    several.insert(several.end(), {"-o", dir / "many", "--shards", "3"});
    REQUIRE(RunTool(several).code == 0);
    merge.insert(merge.end(), {"-o", dir / "one"});
    REQUIRE(RunTool(merge).code == 0);
    CHECK(Digests({dir / "many"}) == Digests({dir / "one"}));
    CHECK(Tree(dir / "many") == Tree(dir / "one"));
    // From the parts themselves, which no digest is stored of.
    const Strings shards(merge.begin() + 1, merge.end() - 2);
    const auto parts = Checkpoint::OpenShards(shards);
    REQUIRE(parts.ok());
    const auto whole = File::Open(dir / "one");
    for (uint32_t i = 0; i < parts->tensor_count(); ++i) {
      const auto info = parts->tensor(i);
      CAPTURE(info.name);
      const auto expected = *whole->Digest(*whole->FindTensor(info.name));
      CHECK(*parts->ComputeDigest(i) == expected);
      const auto stored = parts->Digest(i);
      REQUIRE(stored.ok());
      CHECK((!*stored || **stored == expected));
    }
    const auto many = Checkpoint::Open(dir / "many");
    for (uint32_t i = 0; i < many->tensor_count(); ++i) {
      CHECK(many->Digest(i)->value() == *many->ComputeDigest(i));
    }
    // The directory's JSON has them.
    const Json json = Json::parse(RunTool({"inspect", "--json", dir / "many"}).out);
    for (const Json& tensor : json["tensors"]) {
      CHECK(tensor["digest"].is_string());
      CHECK(tensor["pieces"][0]["encoding"].is_string());
    }
  }
}

TEST_CASE("hash --check: equal, different, missing, names and paths of every kind") {
  TempDir dir;
  const std::string path = dir / "a#b\\\x1b.safetensors", list = dir / "list";
  const auto write = [&](const char* data) {
    WriteWholeFile(path, Safetensors(R"({"x#y\u001b\\":{"dtype":"U8","shape":[1],)"
                                     R"("data_offsets":[0,1]},"z":{"dtype":"U8","shape":[1],)"
                                     R"("data_offsets":[1,2]}})",
                                     data));
  };
  write("ab");
  WriteWholeFile(list, RunTool({"hash", path}).out + RunTool({"hash", "--tree", path}).out);
  const Outcome good = RunTool({"hash", "--check", list});
  INFO(good.out << good.err);
  CHECK(good.code == 0);
  CHECK(good.out == "3 digests: 3 equal, 0 different, 0 missing\n");
  write("ac");
  const Outcome bad = RunTool({"hash", "--check", list});
  CHECK(bad.code == 1);
  CHECK(bad.out.find("#z: DIFFERS\n") != std::string::npos);
  CHECK(bad.out.find("3 digests: 1 equal, 2 different, 0 missing\n") != std::string::npos);
  const Json json = Json::parse(RunTool({"hash", "--json", "--check", list}).out);
  CHECK(json["different"] == 2);
  WriteWholeFile(path,
                 Safetensors(R"({"z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "b"));
  CHECK(RunTool({"hash", "--check", list}).code == 1);
  std::filesystem::remove(path);
  CHECK(RunTool({"hash", "--check", list}).code == 2);
  WriteWholeFile(list, "junk\n");
  CHECK(RunTool({"hash", "--check", list}).code == 2);
  CHECK(RunTool({"hash"}).code == 2);
}

TEST_CASE("hash --check: a listing without a line is none, one that was filtered is checked so") {
  TempDir dir;
  const std::string path = dir / "a.safetensors", list = dir / "list";
  WriteWholeFile(path, Safetensors(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("y":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                   "ab"));
  WriteWholeFile(list, "");
  const Outcome empty = RunTool({"hash", "--check", list});
  CHECK(empty.code == 2);
  CHECK(empty.out.empty());
  CHECK(empty.err.find("list holds no line of dsckpt hash") != std::string::npos);

  WriteWholeFile(list, RunTool({"hash", "--tree", "--filter", "x", path}).out);
  CHECK(RunTool({"hash", "--check", list}).code == 1);
  const Outcome same = RunTool({"hash", "--check", list, "--filter", "x"});
  INFO(same.err);
  CHECK(same.code == 0);
  CHECK(same.out == "1 digest: 1 equal, 0 different, 0 missing\n");
  CHECK(RunTool({"hash", "--check", list, "-x", "y"}).code == 0);
  CHECK(RunTool({"hash", "--check", list, "-x", "x"}).code == 1);

  // Of names, those that are taken; a filter that takes none is a mistake.
  WriteWholeFile(list, RunTool({"hash", path}).out);
  CHECK(RunTool({"hash", "--check", list, "--filter", "y"}).out ==
        "1 digest: 1 equal, 0 different, 0 missing\n");
  const Outcome none = RunTool({"hash", "--check", list, "--filter", "z"});
  CHECK(none.code == 2);
  CHECK(none.err.find("--filter and --exclude leave no line of it") != std::string::npos);
}

TEST_CASE("hash --duplicates: only what is there twice") {
  TempDir dir;
  const std::string a = dir / "a.safetensors", b = dir / "b.safetensors";
  const std::string two = R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                          R"("y":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})";
  WriteWholeFile(a, Safetensors(two, "aabb"));
  WriteWholeFile(b, Safetensors(two, "bbcc"));
  const Outcome found = RunOk({"hash", "--duplicates", a, b});
  REQUIRE(Lines(found.out).size() == 2);
  CHECK(Lines(found.out)[0].ends_with("  " + a + "#y"));
  CHECK(Lines(found.out)[1].ends_with("  " + b + "#x"));
  CHECK(Lines(found.out)[0].substr(0, 32) == Lines(found.out)[1].substr(0, 32));
  const Json json = Json::parse(RunOk({"hash", "--duplicates", "--json", a, b}).out);
  CHECK(json["schema"] == "dsckpt.hash-duplicates/1");
  CHECK(json["duplicates"].size() == 1);
  CHECK(json["duplicates"][0]["holders"][1]["name"] == "x");
  CHECK(RunTool({"hash", "--duplicates", "--tree", a, b}).code == 1);
  CHECK(Lines(RunOk({"hash", "--duplicates", "--tree", a, b, a}).out).size() == 2);
}
