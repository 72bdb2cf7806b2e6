#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/dsckpt.h"
#include "tests/catch.h"
#include "tests/checkpoint/job.h"
#include "tests/temp_dir.h"
#include "tests/tools/command.h"

using namespace dsckpt;
using job::Job;
using job::Local;
using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Strings WriteShards(const Job& job, int64_t ranks, const TempDir& dir) {
  Strings paths;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<Local> locals = job.Of(rank, ranks);
    for (Local& local : locals) local.memory = local.expected;
    paths.push_back(dir / ("s-" + std::to_string(rank)));
    REQUIRE(SaveFile(paths.back(), *job::Provider(locals), {}, {.pool_bytes = kMiB}).ok());
  }
  return paths;
}

/// Every tensor of the job, whole, in one of the files.
void CheckTensors(const Job& job, const Strings& files) {
  for (const job::Tensor& tensor : job.tensors) {
    CAPTURE(tensor.name);
    bool found = false;
    for (const std::string& path : files) {
      const auto file = File::Open(path);
      INFO(path << file.status().ToString());
      REQUIRE(file.ok());
      const auto view = file->View(tensor.name);
      if (!view.ok()) continue;
      found = true;
      CHECK(std::equal(view->bytes().begin(), view->bytes().end(), tensor.bytes.begin(),
                       tensor.bytes.end()));
      CHECK(std::equal(view->info().shape.begin(), view->info().shape.end(), tensor.shape.begin(),
                       tensor.shape.end()));
    }
    CHECK(found);
  }
}

Outcome Merge(Strings inputs, const Strings& more) {
  inputs.insert(inputs.begin(), "merge");
  inputs.insert(inputs.end(), more.begin(), more.end());
  return RunTool(inputs);
}

/// State trees of two ranks: a tensor in halves, an object and a leaf that are equal, others not.
void SaveRank(const std::string& path, int64_t rank, bool equal) {
  const float half[] = {static_cast<float>(2 * rank), static_cast<float>(2 * rank + 1)};
  const OwnedPiece piece{
      .logical_name = "model/w", .logical_shape = {4}, .box = {{2 * rank, 2 * rank + 2}}};
  const Piece view = piece.view();
  const std::string config = "{}", rng = equal ? "same" : "rank " + std::to_string(rank);
  const auto provider = MakeProvider([&](Description& d) {
    d.Begin(NodeKind::kDict, "model");
    const int64_t shape[] = {2};
    TensorSource source;
    source.data = half;
    source.dtype = DType::kF32;
    source.shape = shape;
    source.pieces = std::span(&view, 1);
    d.Tensor("w", source);
    d.Object("config", {.bytes = config.data(), .size = config.size()});
    d.End();
    d.Begin(NodeKind::kList, "list");
    d.Leaf(Key(), Value(int64_t{5}));
    d.Leaf(Key(), Value(int64_t{equal ? 0 : rank}));
    d.End();
    d.Object("rng", {.bytes = rng.data(), .size = rng.size()});
    d.Attribute("step", Value(int64_t{7}));
  });
  REQUIRE(SaveFile(path, *provider).ok());
}

}  // namespace

TEST_CASE("merge: one file, whatever the split") {
  for (uint64_t seed = 200; seed < 210; ++seed) {
    CAPTURE(seed);
    const Job job(seed);
    const TempDir dir;
    const Strings shards = WriteShards(job, static_cast<int64_t>(seed % 7 + 2), dir);
    const Outcome outcome = Merge(shards, {"-o", dir / "out", "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(Json::parse(outcome.out)["schema"] == "dsckpt.merge/1");
    CheckTensors(job, {dir / "out"});
    const Outcome verify = RunTool({"verify", "--decode", dir / "out"});
    CHECK(verify.code == 0);
  }
}

TEST_CASE("merge: other shards, dsckpt and Hugging Face") {
  const Job job(300);
  const TempDir dir;
  const Strings shards = WriteShards(job, 5, dir);
  SECTION("dsckpt") {
    const Outcome outcome = Merge(shards, {"-o", dir / "out", "--shards", "3"});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const auto merged = Checkpoint::Open(dir / "out");
    INFO(merged.status().ToString());
    REQUIRE(merged.ok());
    for (const job::Tensor& tensor : job.tensors) {
      std::vector<std::byte> out(tensor.bytes.size());
      CHECK(merged->Read({.name = tensor.name, .whole = true, .out = out}).ok());
      CHECK((out == tensor.bytes));
    }
    CHECK(!std::filesystem::exists(dir / "latest"));
    CHECK(RunTool({"verify", dir / "out"}).code == 0);
    const Outcome inspect = RunTool({"inspect", dir / "out", "--json"});
    CHECK(inspect.code == 0);
    CHECK(Json::parse(inspect.out)["complete"] == true);
    // Again needs --force, and then replaces.
    CHECK(Merge(shards, {"-o", dir / "out", "--shards", "2"}).code == 2);
    CHECK(Merge(shards, {"-o", dir / "out", "--shards", "2", "--force"}).code == 0);
    CHECK(Checkpoint::Open(dir / "out")->shard_count() <= 2);
  }
  SECTION("safetensors") {
    const Outcome outcome =
        Merge(shards, {"-o", dir / "out", "--max-shard-size", "100", "--format", "safetensors"});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const Json index = Json::parse(ReadWholeFile(dir / "out/model.safetensors.index.json"));
    Strings files;
    for (const auto& entry : std::filesystem::directory_iterator(dir / "out")) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
    }
    CHECK(files.size() > 1);
    CheckTensors(job, files);
    for (const job::Tensor& tensor : job.tensors) {
      const std::string file = index["weight_map"][tensor.name];
      CHECK(File::Open((dir / "out/") + file)->FindTensor(tensor.name).ok());
    }
  }
}

TEST_CASE("merge: trees, objects and attributes of the ranks") {
  const TempDir dir;
  const bool equal = GENERATE(true, false);
  SaveRank(dir / "a", 0, equal);
  SaveRank(dir / "b", 1, equal);
  const Outcome outcome = Merge({dir / "a", dir / "b"}, {"-o", dir / "out"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto file = File::Open(dir / "out");
  REQUIRE(file.ok());
  const auto w = file->View("model/w");
  REQUIRE(w.ok());
  CHECK((*w->As<float>())[3] == 3.0f);
  CHECK(file->Attribute("step").value() == Value(int64_t{7}));
  CHECK(file->FindObject("model/config").ok());
  CHECK(file->FindObject("ranks/1/rng").ok() == !equal);
  const auto list = file->tree()->Find("list");
  REQUIRE(list);
  CHECK(list->kind() == NodeKind::kList);
  CHECK(list->begin()->value() == Value(int64_t{5}));
  CHECK(file->tree()->Find("ranks").has_value() == !equal);
}

TEST_CASE("C45: merge never overwrites an input") {
  const Job job(400);
  const TempDir dir;
  const Strings shards = WriteShards(job, 2, dir);
  const std::string before = ReadWholeFile(shards[1]);
  std::filesystem::create_symlink(shards[1], dir / "link");
  std::filesystem::create_hard_link(shards[1], dir / "hard");
  CHECK(Merge(shards, {}).code == 2);  // What a glob makes of it: no output.
  CHECK(Merge(shards, {"-o", dir / "link", "--force"}).code == 2);
  CHECK(Merge(shards, {"-o", dir / "hard", "--force"}).code == 2);
  CHECK(Merge(shards, {"-o", dir.path(), "--force", "--shards", "2"}).code == 2);
  CHECK(ReadWholeFile(shards[1]) == before);
  WriteWholeFile(dir / "out", "something else");
  CHECK(Merge(shards, {"-o", dir / "out"}).code == 2);
  CHECK(ReadWholeFile(dir / "out") == "something else");
  CHECK(Merge(shards, {"-o", dir / "out", "--force"}).code == 0);
  CheckTensors(job, {dir / "out"});
}

TEST_CASE("C39: a missing or foreign shard is refused before any output") {
  const Job job(400);
  const TempDir dir;
  const Strings shards = WriteShards(job, 4, dir);
  REQUIRE(Merge(shards, {"-o", dir / "c", "--shards", "4"}).code == 0);
  const auto checkpoint = Checkpoint::Open(dir / "c");
  REQUIRE(checkpoint.ok());
  const std::string last =
      dir / ("c/" + std::string(checkpoint->shard(checkpoint->shard_count() - 1).name));
  std::string what;
  SECTION("missing") {
    std::filesystem::remove(last);
    what = last;
  }
  SECTION("renamed") {
    std::filesystem::rename(last, last + "x");
    what = last;
  }
  SECTION("another save's") {
    std::filesystem::copy_file(shards[0], last, std::filesystem::copy_options::overwrite_existing);
    what = "not the shard that the manifest describes";
  }
  SECTION("a link") {
    std::filesystem::rename(last, dir / "elsewhere");
    std::filesystem::create_symlink(dir / "elsewhere", last);
    what = "link";
  }
  for (const Strings& command : {Strings{"merge", dir / "c", "-o", dir / "out"},
                                 {"verify", dir / "c"},
                                 {"inspect", dir / "c"}}) {
    const Outcome outcome = RunTool(command);
    INFO(command[0] << outcome.out << outcome.err);
    CHECK(outcome.code == 1);
    CHECK(Contains(outcome.out + outcome.err, what));
  }
  CHECK(!std::filesystem::exists(dir / "out"));
}

TEST_CASE("merge: corrupt input is found while bytes pass") {
  const Job job(401);
  const TempDir dir;
  const Strings shards = WriteShards(job, 3, dir);
  const auto file = File::Open(shards[0]);
  std::string bytes = ReadWholeFile(shards[0]);
  for (uint32_t i = 0; i < file->tensor_count(); ++i) {
    if (file->tensor(i).raw_bytes > 0) bytes[file->tensor(i).offset] ^= 1;
  }
  WriteWholeFile(shards[0], bytes);
  CHECK(Merge(shards, {"-o", dir / "out"}).code == 1);
  CHECK(!std::filesystem::exists(dir / "out"));
}

TEST_CASE("merge --dry-run writes nothing") {
  const Job job(402);
  const TempDir dir;
  const Strings shards = WriteShards(job, 3, dir);
  const Outcome outcome = Merge(shards, {"-o", dir / "out", "--dry-run", "--shards", "2"});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(Contains(outcome.out, "nothing was written"));
  CHECK(!std::filesystem::exists(dir / "out"));
}

TEST_CASE("ls: a run's checkpoints and its strays") {
  const TempDir dir;
  const Job job(403);
  const Strings shards = WriteShards(job, 2, dir);
  std::filesystem::create_directory(dir / "run");
  CHECK(RunTool({"ls", dir / "run"}).code == 1);
  REQUIRE(Merge(shards, {"-o", dir / "run/first", "--shards", "2"}).code == 0);
  SaveRank(dir / "run/single", 0, true);
  std::filesystem::create_directory(dir / "run/step-5.incomplete-1234");
  WriteWholeFile(dir / "run/notes.txt", "notes");
  WriteWholeFile(dir / "run/latest", "single\n");
  const Outcome outcome = RunTool({"ls", dir / "run", "--json"});
  INFO(outcome.err << outcome.out);
  CHECK(outcome.code == 0);
  const Json run = Json::parse(outcome.out);
  CHECK(run["schema"] == "dsckpt.run/1");
  CHECK(run["latest"] == "single");
  CHECK(run["checkpoints"].size() == 2);
  CHECK(run["checkpoints"][1]["step"] == 7);
  CHECK(run["strays"].size() == 2);
  const auto directory = RunDirectory::Open(dir / "run");
  REQUIRE(directory.ok());
  CHECK(directory->Latest()->step() == 7);
  CHECK(directory->ByStep(8).status().code() == StatusCode::kNotFound);
  // A broken latest falls back to what is complete.
  WriteWholeFile(dir / "run/latest", "../../etc\n");
  CHECK(RunDirectory::Open(dir / "run")->Latest()->step() == 7);
}
