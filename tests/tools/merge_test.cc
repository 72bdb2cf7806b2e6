#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/dsckpt.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using namespace dsckpt;
using job::Job;
using job::Local;
using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

namespace {

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

TEST_CASE("merge --ignore-header saves what a damaged JSON header left") {
  const TempDir dir;
  const Strings shards = WriteShards(Job(408), 1, dir);
  std::filesystem::create_directory(dir / "run");
  std::filesystem::copy(shards[0], dir / "run/a");
  std::string bytes = ReadWholeFile(dir / "run/a");
  bytes[bytes.find("\"data_offsets\"") + 2] ^= 1;
  WriteWholeFile(dir / "run/a", bytes);

  const Outcome refused = Merge({dir / "run/a"}, {"-o", dir / "out"});
  CHECK(refused.code == 1);
  CHECK(Contains(refused.err, "--ignore-header"));
  CHECK(!std::filesystem::exists(dir / "out"));
  CHECK(RunTool({"inspect", dir / "run/a"}).code != 0);
  // A verification looks at it all the same, also where a run does not count it.
  for (const std::string& path : {dir / "run/a", dir / "run"}) {
    const Json report = Json::parse(RunTool({"verify", path, "--json"}).out);
    CHECK(report["ok"] == false);
    CHECK(report["files"][0]["problems"][0]["kind"] == "checksum");
    CHECK(report["files"][0]["problems"][0]["item"] == "header");
    CHECK(report["files"][0]["problems"].size() == 1);
  }

  const Outcome outcome = Merge({dir / "run/a"}, {"-o", dir / "out", "--ignore-header"});
  CHECK(outcome.code == 0);
  CHECK(Contains(outcome.err, "left out: metadata that cannot be read"));
  REQUIRE(Merge(shards, {"-o", dir / "whole"}).code == 0);
  CHECK(ReadWholeFile(dir / "out") == ReadWholeFile(dir / "whole"));
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

TEST_CASE("ls: a run's checkpoints, and what is ignored there") {
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
  CHECK(run["checkpoints"][0]["step"] == 7);
  CHECK(run["checkpoints"][0]["step_source"] == "attribute");
  // Its shards said no step.
  CHECK(run["checkpoints"][1]["step"].is_null());
  CHECK(run["ignored_entries"].size() == 2);
  const auto directory = RunDirectory::Open(dir / "run");
  REQUIRE(directory.ok());
  CHECK(directory->Latest()->step() == 7);
  CHECK(directory->ByStep(8).status().code() == StatusCode::kNotFound);
  // A broken latest falls back to what is complete.
  WriteWholeFile(dir / "run/latest", "../../etc\n");
  CHECK(RunDirectory::Open(dir / "run")->Latest()->step() == 7);
}

TEST_CASE("ls: files that were imported have the step that they or their names say, or none") {
  const TempDir dir;
  const std::string run = dir / "run";
  std::filesystem::create_directory(run);
  const auto write = [&](const std::string& name, const std::string& metadata) {
    std::string header =
        "{" + metadata + R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::string length = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
    WriteWholeFile(dir / name, length + header + "abcd");
  };
  write("plain.safetensors", "");
  write("meta.safetensors", R"("__metadata__":{"step":"64"},)");
  for (const auto& [from, to] : {std::pair{"plain", "step1000.dsckpt"},
                                 {"plain", "checkpoint-500.dsckpt"},
                                 {"plain", "final.dsckpt"},
                                 {"meta", "step9.dsckpt"}}) {
    const Outcome made =
        RunTool({"import", dir / (std::string(from) + ".safetensors"), "-o", run + "/" + to});
    INFO(made.err);
    REQUIRE(made.code == 0);
  }
  const Outcome outcome = RunTool({"ls", run, "--json"});
  INFO(outcome.out);
  const Json all = Json::parse(outcome.out)["checkpoints"];
  REQUIRE(all.size() == 4);
  const auto row = [&](size_t i) {
    return Json{all[i]["name"], all[i]["step"], all[i]["step_source"]};
  };
  CHECK(row(0) == Json{"step9.dsckpt", 64, "attribute"});
  CHECK(row(1) == Json{"checkpoint-500.dsckpt", 500, "name"});
  CHECK(row(2) == Json{"step1000.dsckpt", 1000, "name"});
  CHECK(row(3) == Json{"final.dsckpt", nullptr, nullptr});
  CHECK(all[0]["serial"] == 0);
  CHECK(all[0]["abandoned"] == false);
  CHECK(Contains(RunTool({"ls", run}).out, "unknown"));
  CHECK(RunDirectory::Open(run)->Latest()->step() == 1000);
  CHECK(RunDirectory::Open(run)->ByStep(500).ok());
  CHECK(RunDirectory::Open(run)->ByStep(0).status().code() == StatusCode::kNotFound);
  // A checkpoint of one of them says no step that nobody said.
  const Outcome named =
      RunTool({"merge", run + "/final.dsckpt", "-o", run + "/step-0000002000", "--shards", "1"});
  const Outcome unnamed =
      RunTool({"merge", run + "/final.dsckpt", "-o", run + "/other", "--shards", "1"});
  INFO(named.err << unnamed.err);
  REQUIRE(named.code == 0);
  REQUIRE(unnamed.code == 0);
  CHECK(RunDirectory::Open(run)->ByStep(2000)->path() == run + "/step-0000002000");
  const Outcome text = RunTool({"inspect", run + "/other"});
  CHECK(Contains(text.out, "checkpoint of unknown step"));
  CHECK(Json::parse(RunTool({"inspect", run + "/other", "--json"}).out)["step"].is_null());
}

TEST_CASE("merge clears what killed ones of the same output left") {
  const TempDir dir;
  const Job job(404);
  const Strings shards = WriteShards(job, 2, dir);
  const std::string format = GENERATE(as<std::string>{}, "dsckpt", "safetensors");
  const std::string id = format == "dsckpt" ? "0011aabb-0" : "files-1-2";
  const std::string out = dir / "out";
  for (const char* mark : {".incomplete-", ".removed-"}) {
    std::filesystem::create_directory(out + mark + id);
    WriteWholeFile(out + mark + id + "/file", "x");
  }
  const Strings more = {"-o", out, "--shards", "2", "--format", format};
  const Outcome first = Merge(shards, more);
  INFO(first.err);
  REQUIRE(first.code == 0);
  const auto left = [&] {
    Strings names;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
      const std::string name = entry.path().filename().string();
      if (name.find("out") != std::string::npos) names.push_back(name);
    }
    return names;
  };
  CHECK(left() == Strings{"out"});
  Strings force = more;
  force.push_back("--force");
  CHECK(Merge(shards, force).code == 0);
  CHECK(left() == Strings{"out"});
}

namespace {

/// Commands started while it lives have so many descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{std::min(most, before_.rlim_max), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

void SaveTree(const std::string& path, const std::function<void(Description&)>& describe) {
  const Status status = SaveFile(path, *MakeProvider(describe), {}, {.pool_bytes = kMiB});
  INFO(status.ToString());
  REQUIRE(status.ok());
}

void AddFloats(Description& d, const Key& key, const float* data, int64_t count,
               std::span<const Piece> pieces = {}) {
  const int64_t shape[] = {count};
  TensorSource source;
  source.data = data;
  source.dtype = DType::kF32;
  source.shape = shape;
  source.capture = Capture::kUntilFence;
  source.pieces = pieces;
  d.Tensor(key, source);
}

}  // namespace

TEST_CASE("C45: an input is safe as a manifest, deep inside the output, and through a link") {
  const Job job(404);
  const TempDir dir;
  const Strings shards = WriteShards(job, 2, dir);
  REQUIRE(Merge(shards, {"-o", dir / "c", "--shards", "2"}).code == 0);
  const std::string manifest = ReadWholeFile(dir / "c/dsckpt.manifest");
  CHECK(Merge({dir / "c"}, {"-o", dir / "c/dsckpt.manifest", "--force"}).code == 2);
  CHECK(ReadWholeFile(dir / "c/dsckpt.manifest") == manifest);

  const std::string shard = std::string(Checkpoint::Open(dir / "c")->shard(0).name);
  std::filesystem::create_symlink(dir / ("c/" + shard), dir / "link");
  CHECK(Merge({dir / "link"}, {"-o", dir / "c", "--shards", "1", "--force"}).code == 2);
  std::filesystem::create_directories(dir / "c/deep/er");
  std::filesystem::copy_file(shards[0], dir / "c/deep/er/s");
  CHECK(Merge({dir / "c/deep/er/s"}, {"-o", dir / "c", "--shards", "1", "--force"}).code == 2);
  CHECK(std::filesystem::exists(dir / "c/deep/er/s"));
  CHECK(ReadWholeFile(dir / "c/dsckpt.manifest") == manifest);
}

TEST_CASE("merge --force does not take along what no merge wrote") {
  const Job job(405);
  const TempDir dir;
  const Strings shards = WriteShards(job, 2, dir);
  const bool safetensors = GENERATE(false, true);
  const Strings how{"-o",
                    dir / "out",
                    "--shards",
                    "2",
                    "--force",
                    "--format",
                    safetensors ? "safetensors" : "dsckpt"};
  REQUIRE(Merge(shards, how).code == 0);
  REQUIRE(Merge(shards, how).code == 0);
  WriteWholeFile(dir / "out/config.json", "{}");
  const Outcome outcome = Merge(shards, how);
  CHECK(outcome.code == 2);
  CHECK(Contains(outcome.err, "config.json"));
  CHECK(std::filesystem::exists(dir / "out/config.json"));
}

TEST_CASE("merge: a slash behind the output's name changes nothing, its parent must stand") {
  const Job job(406);
  const TempDir dir;
  const Strings shards = WriteShards(job, 2, dir);
  CHECK(Merge(shards, {"-o", dir / "out/", "--shards", "2"}).code == 0);
  CHECK(std::filesystem::exists(dir / "out/dsckpt.manifest"));
  CHECK(Merge(shards, {"-o", dir / "hf/", "--shards", "2", "--format", "safetensors"}).code == 0);
  CHECK(std::filesystem::exists(dir / "hf/model.safetensors.index.json"));
  CHECK(Merge(shards, {"-o", dir / "no/out", "--shards", "2"}).code == 2);
  CHECK(!std::filesystem::exists(dir / "no"));
}

TEST_CASE("merge: tied names and NaN leaves of several ranks are the same on all") {
  const TempDir dir;
  const float w[] = {1, 2, 3, 4};
  for (const char* name : {"a", "b"}) {
    SaveTree(dir / name, [&](Description& d) {
      AddFloats(d, "wte", w, 4);
      AddFloats(d, "lm_head", w, 4);
      d.Leaf("loss", Value(std::nan("")));
    });
  }
  const Outcome outcome = Merge({dir / "a", dir / "b"}, {"-o", dir / "out", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(Json::parse(outcome.out)["rank_specific"] == 0);
  CHECK(!File::Open(dir / "out")->tree()->Find("ranks"));
}

TEST_CASE("merge: a leaf called ranks does not swallow what ranks hold differently") {
  const TempDir dir;
  for (const int64_t rank : {0, 1}) {
    SaveTree(dir / std::to_string(rank), [&](Description& d) {
      d.Leaf("ranks", Value(int64_t{2}));
      d.Leaf("seed", Value(rank));
    });
  }
  const Outcome outcome = Merge({dir / "0", dir / "1"}, {"-o", dir / "out"});
  CHECK(outcome.code == 2);
  CHECK(Contains(outcome.err, "'ranks'"));
  CHECK(!std::filesystem::exists(dir / "out"));
}

TEST_CASE("merge: logical tensors of a flat buffer find their containers") {
  const TempDir dir;
  const float flat[] = {0, 1, 2, 3};
  const OwnedPiece pieces[] = {
      {.logical_name = "0th/w", .logical_shape = {2}, .form = Piece::Form::kFlat, .flat = {0, 2}},
      {.logical_name = "list/foo",
       .logical_shape = {2},
       .form = Piece::Form::kFlat,
       .flat = {0, 2},
       .element_offset = 2}};
  const Piece views[] = {pieces[0].view(), pieces[1].view()};
  SaveTree(dir / "a", [&](Description& d) {
    d.Begin(NodeKind::kDict, "0th");
    d.Leaf("n", Value(int64_t{5}));
    d.End();
    d.Begin(NodeKind::kList, "list");
    d.End();
    AddFloats(d, "flat", flat, 4, views);
  });
  REQUIRE(Merge({dir / "a"}, {"-o", dir / "out"}).code == 0);
  const auto file = File::Open(dir / "out");
  REQUIRE(file.ok());
  CHECK(file->FindTensor("0th/w").ok());
  CHECK(file->FindTensor("list/foo").ok());
  const auto container = file->tree()->Find("0th");
  REQUIRE(container);
  CHECK(container->Find("n").has_value());
  CHECK(container->Find("w").has_value());
}

TEST_CASE("merge: objects of 300 ranks with 128 descriptors") {
  const TempDir dir;
  Strings shards;
  for (int rank = 0; rank < 300; ++rank) {
    shards.push_back(dir / std::to_string(rank));
    const std::string rng = "rank " + std::to_string(rank);
    SaveTree(shards.back(),
             [&](Description& d) { d.Object("rng", {.bytes = rng.data(), .size = rng.size()}); });
  }
  const FewDescriptors few(128);
  const Outcome outcome = Merge(shards, {"-o", dir / "out"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(File::Open(dir / "out")->FindObject("ranks/299/rng").ok());
}

TEST_CASE("C50: 100,000 small tensors in a few shards, with 256 descriptors") {
  const TempDir dir;
  constexpr int kTensors = 100000, kShards = 4;
  std::vector<uint16_t> memory(size_t{kTensors} * 4);
  std::iota(memory.begin(), memory.end(), uint16_t{0});
  const int64_t shape[] = {4};
  std::vector<std::unique_ptr<StateProvider>> providers;
  std::vector<ShardSource> sources;
  for (int shard = 0; shard < kShards; ++shard) {
    providers.push_back(MakeProvider([&, shard](Description& d) {
      for (int i = shard; i < kTensors; i += kShards) {
        TensorSource source;
        source.data = memory.data() + size_t{4} * static_cast<size_t>(i);
        source.dtype = DType::kBF16;
        source.shape = shape;
        source.capture = Capture::kUntilFence;
        d.Tensor("t" + std::to_string(i), source);
      }
    }));
    sources.push_back({"s" + std::to_string(shard), providers.back().get()});
  }
  const FewDescriptors few(256);
  {
    const auto engine = Engine::Create({.pool_bytes = 8 * kMiB});
    REQUIRE(engine.ok());
    const auto writer = CheckpointWriter::Create(**engine, {.run_directory = dir.path()});
    REQUIRE(writer.ok());
    const auto handle = (*writer)->Save(1, sources, {.name = "c"});
    REQUIRE(handle.ok());
    REQUIRE(handle->WaitDurable().ok());
  }
  const Outcome inspect = RunTool({"inspect", dir / "c", "--json"});
  CHECK(inspect.code == 0);
  CHECK(Json::parse(inspect.out)["tensors"].size() == kTensors);
  CHECK(RunTool({"verify", dir / "c"}).code == 0);
  REQUIRE(Merge({dir / "c"}, {"-o", dir / "one"}).code == 0);
  REQUIRE(Merge({dir / "c"}, {"-o", dir / "three", "--shards", "3"}).code == 0);
  const auto one = File::Open(dir / "one");
  REQUIRE(one.ok());
  CHECK(one->tensor_count() == kTensors);
  for (const int i : {0, 12345, kTensors - 1}) {
    const auto view = one->View("t" + std::to_string(i));
    REQUIRE(view.ok());
    CHECK(std::memcmp(view->bytes().data(), memory.data() + size_t{4} * static_cast<size_t>(i),
                      8) == 0);
  }
}

TEST_CASE("verify: bad checkpoints of a run count, though the run does not list them") {
  const TempDir dir;
  const Job job(407);
  const Strings shards = WriteShards(job, 2, dir);
  std::filesystem::create_directory(dir / "run");
  REQUIRE(Merge(shards, {"-o", dir / "run/good", "--shards", "2"}).code == 0);
  WriteWholeFile(dir / "run/notes.txt", "notes");
  std::filesystem::copy(dir / "run/good", dir / "run/bad.incomplete-1");
  std::filesystem::remove(dir / ("run/bad.incomplete-1/" +
                                 std::string(Checkpoint::Open(dir / "run/good")->shard(0).name)));
  REQUIRE(RunTool({"verify", dir / "run"}).code == 0);
  std::string what;
  SECTION("a missing shard") {
    std::filesystem::rename(dir / "run/bad.incomplete-1", dir / "run/bad");
    what = "is missing";
  }
  SECTION("a broken manifest") {
    std::filesystem::create_directory(dir / "run/bad");
    std::string bytes = ReadWholeFile(dir / "run/good/dsckpt.manifest");
    bytes[bytes.size() / 2] ^= 1;
    WriteWholeFile(dir / "run/bad/dsckpt.manifest", bytes);
    what = "checksum";
  }
  const Outcome outcome = RunTool({"verify", dir / "run", "--json"});
  CHECK(outcome.code == 1);
  const Json report = Json::parse(outcome.out);
  CHECK(report["ok"] == false);
  REQUIRE(report["checkpoint_problems"].size() == 1);
  CHECK(Contains(report["checkpoint_problems"][0]["message"], what));
}

TEST_CASE("verify: a truncated single-file checkpoint of a run counts") {
  const TempDir dir;
  SaveRank(dir / "good", 0, true);
  REQUIRE(RunTool({"verify", dir.path()}).code == 0);
  WriteWholeFile(dir / "cut", ReadWholeFile(dir / "good").substr(0, 5000));
  CHECK(RunTool({"verify", dir.path()}).code == 1);
}

namespace {

/// A rank's state with what is its own: a tensor, an object, a value, an element of a list.
void SaveOwn(const std::string& path, uint32_t rank, bool tree = true) {
  const float weights[] = {1, 2};
  const uint8_t rng[] = {static_cast<uint8_t>(10 + rank), 7};
  const std::string loader = "batch " + std::to_string(rank), same = "same";
  const auto provider = MakeProvider([&](Description& d) {
    const int64_t shape[] = {2};
    if (!tree) d.Flat();
    const auto object = [&](Key key, const std::string& text) {
      d.Object(key, {.bytes = text.data(), .size = text.size()});
    };
    d.Tensor("w", {.data = weights, .dtype = kF32, .shape = shape});
    object("shared", same);
    const auto before = d.SetRankOwn(rank);
    if (!tree) {
      d.Tensor("rng/torch", {.data = rng, .dtype = DType::kU8, .shape = shape});
      return object("loader", loader);
    }
    d.Begin(NodeKind::kDict, "rng");
    d.Tensor("torch", {.data = rng, .dtype = DType::kU8, .shape = shape});
    object("same", same);
    d.Leaf("seed", int64_t{3});
    d.End();
    object("loader", loader);
    (void)d.SetRankOwn(before);
    d.Begin(NodeKind::kList, "list");
    d.Leaf({}, int64_t{4});
    (void)d.SetRankOwn(rank);
    d.Leaf({}, int64_t{5});
    (void)d.SetRankOwn(before);
    d.End();
  });
  REQUIRE(SaveFile(path, *provider).ToString() == "Ok");
}

std::string ObjectText(const File& file, const std::string& name) {
  const auto bytes = file.ReadObject(name);
  INFO(bytes.status().ToString());
  REQUIRE(bytes.ok());
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

}  // namespace

TEST_CASE("merge: tags stay where they fit, and lists of other lengths are other lists") {
  const TempDir dir;
  Strings shards;
  const int64_t shape[] = {2};
  const std::vector<uint8_t> bytes = {1, 2};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    shards.push_back(dir / std::to_string(rank));
    const auto provider = MakeProvider([&](Description& d) {
      d.Tensor("narrow", {.data = bytes.data(), .dtype = DType::kU8, .shape = shape},
               "torch:uint4");
      d.Object("o", {.bytes = bytes.data(), .size = bytes.size()}, "made.by");
      d.Begin(NodeKind::kDict, "pair", "py.namedtuple:NT");
      d.Tensor("a", {.data = bytes.data(), .dtype = DType::kU8, .shape = shape});
      d.Leaf("b", int64_t{1});
      d.End();
      d.Begin(NodeKind::kList, "ones");
      for (uint32_t i = 0; i <= rank; ++i) d.Leaf({}, int64_t{1});
      d.End();
    });
    REQUIRE(SaveFile(shards.back(), *provider).ToString() == "Ok");
  }
  REQUIRE(Merge(shards, {"-o", dir / "out"}).code == 0);
  const File file = File::Open(dir / "out").value();
  const Node tree = file.tree().value();
  CHECK(tree.Find("narrow")->tag() == "torch:uint4");
  CHECK(tree.Find("o")->tag() == "made.by");
  CHECK(tree.Find("pair")->tag() == "py.namedtuple:NT");
  CHECK(tree.Find("ones")->size() == 1);
  CHECK(tree.Find("ranks")->Find(Key(int64_t{1}))->Find("ones")->size() == 2);
  // Of a part, the tag of the whole would be wrong.
  REQUIRE(Merge(shards, {"-o", dir / "part", "--filter", "pair/*"}).code == 0);
  CHECK(File::Open(dir / "part")->tree()->Find("pair")->tag() == "");
}

TEST_CASE("merge: what is a rank's own goes below ranks, equal or not, of one rank or of many") {
  for (const uint32_t ranks : {1u, 2u, 3u}) {
    CAPTURE(ranks);
    const TempDir dir;
    Strings shards;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      shards.push_back(dir / std::to_string(rank));
      SaveOwn(shards.back(), rank);
    }
    const Outcome outcome = Merge(shards, {"-o", dir / "out", "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(Json::parse(outcome.out)["rank_own"] == 3 * ranks);
    CHECK(Json::parse(outcome.out)["rank_specific"] == 0);
    const File file = File::Open(dir / "out").value();
    CHECK(file.RankOwnNames().empty());
    const Node tree = file.tree().value();
    CHECK_FALSE(tree.Find("rng").has_value());
    CHECK_FALSE(tree.Find("loader").has_value());
    REQUIRE(tree.Find("list")->size() == 2);  // Nothing moves up.
    CHECK(tree.Find("list")->kind() == NodeKind::kList);
    CHECK((*++tree.Find("list")->begin()).kind() == NodeKind::kNull);
    CHECK(ObjectText(file, "shared") == "same");
    CHECK(tree.Find("ranks")->size() == ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const std::string under = "ranks/" + std::to_string(rank) + "/";
      CHECK(ObjectText(file, under + "loader") == "batch " + std::to_string(rank));
      CHECK(ObjectText(file, under + "rng/same") == "same");
      const auto rng = file.View(under + "rng/torch");
      REQUIRE(rng.ok());
      CHECK(std::to_integer<uint32_t>(rng->bytes()[0]) == 10 + rank);
      const Node own = *tree.Find("ranks")->Find(Key(int64_t{rank}));
      CHECK(own.Find("rng")->Find("seed")->value() == Value(int64_t{3}));
      CHECK(own.Find("list")->Find(Key(int64_t{1}))->value() == Value(int64_t{5}));
    }
    CHECK(RunTool({"verify", dir / "out"}).code == 0);

    // The merged file restores as the shards did: each rank its own, and no further one.
    const auto checkpoint = Checkpoint::Open(dir / "out").value();
    for (uint32_t rank = 0; rank <= ranks; ++rank) {
      uint8_t torch[2] = {};
      char loader[7] = {};
      State state;
      state.AddTensor("rng/torch", torch, DType::kU8, {2});
      state.AddBytes("loader", loader, sizeof loader);
      state.RankOwn("rng", rank);
      state.RankOwn("loader", rank);
      const Status status = checkpoint.Restore(state, rank);
      INFO(status.ToString());
      CHECK(status.code() == (rank < ranks ? StatusCode::kOk : StatusCode::kNotFound));
      CHECK(torch[0] == (rank < ranks ? 10 + rank : 0));
      CHECK(std::string(loader, rank < ranks ? 7 : 0) ==
            (rank < ranks ? "batch " + std::to_string(rank) : ""));
    }
  }
}

TEST_CASE("merge: a rank's own without a tree, and as safetensors") {
  const TempDir dir;
  const Strings shards = {dir / "0", dir / "1"};
  for (const uint32_t rank : {0u, 1u}) SaveOwn(shards[rank], rank, false);
  REQUIRE(Merge(shards, {"-o", dir / "out"}).code == 0);
  const File file = File::Open(dir / "out").value();
  CHECK(ObjectText(file, "ranks/1/loader") == "batch 1");
  CHECK(file.object_count() == 3);
  CHECK(file.FindTensor("ranks/0/rng/torch").ok());
  const Outcome outcome = Merge(shards, {"-o", dir / "out.safetensors", "--format", "safetensors"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const File plain = File::Open(dir / "out.safetensors").value();
  CHECK(plain.tensor_count() == 3);
  CHECK(std::to_integer<int>(plain.View("ranks/1/rng/torch")->bytes()[0]) == 11);
}

TEST_CASE("inspect shows what is the rank's own") {
  const TempDir dir;
  SaveOwn(dir / "f", 2);
  const Outcome json = RunTool({"inspect", "--json", dir / "f"});
  CHECK(Json::parse(json.out)["rank_own"] == Json({"list/1", "loader", "rng"}));
  const Outcome text = RunTool({"inspect", dir / "f"});
  CHECK(Contains(text.out, "rank's own  list/1, loader, rng\n"));
}

TEST_CASE("merge: a logical name that no key leads to stays the name that it is") {
  const TempDir dir;
  const auto merge = [&](const std::string& name) {
    static const float data = 1;
    static const int64_t shape[] = {1};
    static const Range box[] = {{0, 1}};
    Piece piece;
    piece.logical_name = name;
    piece.logical_shape = shape;
    piece.box = box;
    const auto provider = MakeProvider([&](Description& d) {
      TensorSource source;
      source.data = &data;
      source.dtype = kF32;
      source.shape = shape;
      source.pieces = std::span(&piece, 1);
      d.Tensor("local", source);
    });
    REQUIRE(SaveFile(dir / "in", *provider).ok());
    REQUIRE(Merge({dir / "in"}, {"-o", dir / "out", "--force"}).code == 0);
    return *File::Open(dir / "out");
  };
  for (const std::string name : {"~sx", "~s01", "a/~2", "~", "a/~s~s1"}) {
    const File file = merge(name);
    CAPTURE(name);
    CHECK(file.tensor(0).name == name);
    CHECK_FALSE(file.tree().has_value());
  }
  // All others are paths.
  const File file = merge("a~1b/~s5/7");
  CHECK(file.tensor(0).name == "a~1b/~s5/7");
  REQUIRE(file.tree().has_value());
  CHECK(file.tree()->size() == 1);
}
