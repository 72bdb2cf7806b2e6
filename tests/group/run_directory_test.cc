// `latest`, retention, and what a start clears. One rank: the group has no part in these.

#include <filesystem>

#include "tests/catch.h"
#include "tests/group/ranks.h"
#include "tests/io/fault_fs.h"
#include "tests/temp_dir.h"
#include "writer/checkpoint_publish.h"
#include "writer/checkpoint_run.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

struct Run {
  explicit Run(Retention retention = {})
      : engine(SmallEngine()),
        writer(CheckpointWriter::Create(
                   *engine,
                   {.run_directory = path,
                    .retention = std::move(retention),
                    .on_event = [this](const Event& event) { events.push_back(event.status); }})
                   .value()) {}

  Status Save(int64_t step, const CheckpointSaveOptions& options = {}) {
    const Part part(0, 1, static_cast<float>(step), 4);
    DSCKPT_ASSIGN_OR_RETURN(const auto handle, writer->Save(step, part.state(), options));
    const Status status = handle.WaitDurable();
    DSCKPT_RETURN_IF_ERROR(writer->WaitDurable());
    return status;
  }

  TempDir dir;
  const std::string path = dir / "run";
  std::vector<Status> events;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<CheckpointWriter> writer;
};

std::vector<std::string> Steps(std::initializer_list<int> steps) {
  std::vector<std::string> names;
  for (const int step : steps) {
    std::string digits = std::to_string(step);
    names.push_back("step-" + std::string(10 - digits.size(), '0') + digits);
  }
  return names;
}

}  // namespace

TEST_CASE("retention keeps the newest, multiples and listed steps") {
  struct Row {
    Retention retention;
    std::vector<std::string> left;  // Of steps 1 to 6.
  };
  const Row rows[] = {
      {{}, Steps({1, 2, 3, 4, 5, 6})},
      {{.keep_last = 1}, Steps({6})},
      {{.keep_last = 2}, Steps({5, 6})},
      {{.keep_last = 9}, Steps({1, 2, 3, 4, 5, 6})},
      {{.keep_last = 1, .keep_every = 2}, Steps({2, 4, 6})},
      {{.keep_last = 1, .keep_every = 4}, Steps({4, 6})},
      {{.keep_last = 1, .keep = {1, 3, 77}}, Steps({1, 3, 6})},
      {{.keep_last = 2, .keep_every = 3, .keep = {1}}, Steps({1, 3, 5, 6})},
      {{.keep_every = 3, .keep = {1}}, Steps({1, 2, 3, 4, 5, 6})},
  };
  for (const Row& row : rows) {
    Run run(row.retention);
    for (int step = 1; step <= 6; ++step) REQUIRE(run.Save(step).ok());
    INFO(row.retention.keep_last << " " << row.retention.keep_every);
    CHECK(VisibleNames(run.path) == row.left);
    CHECK(LeftOvers(run.path).empty());
    CHECK(Latest(run.path) == "step-0000000006\n");
    CHECK(run.events.empty());
  }
}

TEST_CASE("C52 a failed save removes nothing, and only complete checkpoints count") {
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1).ok());
  {
    FaultFs faults;
    faults.Fail("fsync", EIO);
    CHECK(run.Save(2).code() == StatusCode::kIoError);
  }
  CHECK(VisibleNames(run.path) == Steps({1}));
  // One whose shard is gone, one whose shard is cut, one without a manifest, one with a damaged
  // manifest: all newer, none counts and none is touched.
  REQUIRE(run.writer->WaitDurable().ok());
  run.writer.reset();
  {
    const auto all = CheckpointWriter::Create(*run.engine, {.run_directory = run.path}).value();
    for (const int step : {2, 3, 4, 5}) {
      const Part part(0, 1, 0, 4);
      REQUIRE(all->Save(step, part.state())->WaitDurable().ok());
    }
  }
  fs::remove(run.path + "/step-0000000002/shard-00000.dsckpt");
  fs::resize_file(run.path + "/step-0000000003/shard-00000.dsckpt", 4096);
  fs::remove(run.path + "/step-0000000004/dsckpt.manifest");
  fs::resize_file(run.path + "/step-0000000005/dsckpt.manifest", 100);
  REQUIRE(ApplyRetention(run.path, {.keep_last = 1}, "x").ok());
  CHECK(VisibleNames(run.path) == Steps({1, 2, 3, 4, 5}));
}

TEST_CASE("C15 latest and the predecessor stay until the new checkpoint is durable") {
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1).ok());
  static std::string path;
  static std::vector<std::string> seen;
  path = run.path;
  seen.clear();
  SetCheckpointStepHook([](const char* step) {
    std::string line = step;
    for (const std::string& name : VisibleNames(path)) line += " " + name.substr(14);
    seen.push_back(line + " latest=" + Latest(path).substr(14, 1));
  });
  REQUIRE(run.Save(2).ok());
  SetCheckpointStepHook(nullptr);
  CHECK(seen == std::vector<std::string>{"directory 1 latest=1", "saving 1 latest=1",
                                         "durable 1 latest=1", "gathered 1 latest=1",
                                         "manifest 1 latest=1", "renamed 1 2 latest=1",
                                         "synced 1 2 latest=1", "latest 1 2 latest=2",
                                         "answered 1 2 latest=2", "cleared 2 latest=2"});
}

TEST_CASE("latest never moves back, but away from what is gone") {
  Run run;
  REQUIRE(run.Save(5).ok());
  REQUIRE(run.Save(3).ok());
  CHECK(Latest(run.path) == "step-0000000005\n");
  REQUIRE(run.Save(5, {.name = "again"}).ok());
  CHECK(Latest(run.path) == "again\n");
  fs::remove_all(run.path + "/again");
  REQUIRE(run.Save(4).ok());
  CHECK(Latest(run.path) == "step-0000000004\n");
  for (const char* text : {"", "../x\n", "nothing\n"}) {
    WriteWholeFile(run.path + "/latest", text);
    CHECK(MoveLatest(run.path, "step-0000000003", 3).ok());
    CHECK(Latest(run.path) == "step-0000000003\n");
  }
}

TEST_CASE("retention never removes what latest names") {
  Run run;
  for (const int step : {1, 2, 3}) REQUIRE(run.Save(step).ok());
  WriteWholeFile(run.path + "/latest", "step-0000000001\n");
  REQUIRE(ApplyRetention(run.path, {.keep_last = 1}, "x").ok());
  CHECK(VisibleNames(run.path) == Steps({1, 3}));
}

TEST_CASE("retention leaves the files of others in a shared directory") {
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1, {.name = "tag", .in_place = true}).ok());
  WriteWholeFile(run.path + "/tag/other.pt", "x");
  REQUIRE(run.Save(2).ok());
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(run.path + "/tag")) {
    left.push_back(entry.path().filename());
  }
  CHECK(left == std::vector<std::string>{"other.pt"});
}

TEST_CASE("a sync that fails after the rename: published, durability unknown, and said so") {
  Run run;
  FaultFs faults;
  // Directory syncs: of the attempt by the shard and by the manifest, then of the run directory.
  faults.Fail("fsync_dir", EIO, 2, 1);
  const Status status = run.Save(1);
  CHECK(status.code() == StatusCode::kDurabilityUnknown);
  CHECK(status.error_number() == EIO);
  CHECK(WhyIncomplete(run.path + "/step-0000000001") == "");
  CHECK(Latest(run.path) == "step-0000000001\n");
}

TEST_CASE("a rename that fails publishes nothing") {
  Run run;
  FaultFs faults;
  faults.Fail("rename_new", EIO, 0, 1);
  CHECK(run.Save(1).code() == StatusCode::kIoError);
  CHECK(VisibleNames(run.path).empty());
  CHECK(LeftOvers(run.path).empty());
  CHECK(run.Save(1).ok());
}

TEST_CASE("without renameat2 publishing looks first") {
  Run run;
  FaultFs faults;
  faults.Fail("rename_new", EINVAL);
  CHECK(run.Save(1).ok());
  CHECK(run.Save(1).code() == StatusCode::kAlreadyExists);
  CHECK(run.Save(1, {.replace = true}).ok());
  CHECK(WhyIncomplete(run.path + "/step-0000000001") == "");
  CHECK(LeftOvers(run.path).empty());
}

TEST_CASE("a start clears what dead groups left and nothing else") {
  Run run;
  REQUIRE(run.Save(1).ok());
  run.writer.reset();
  for (const char* name :
       {"a.incomplete-0011-3", "b.removed-0011-4", "step-0000000001/.incomplete-9-9",
        "step-0000000001/.removed-9-9", "c.replaced-0011-5", "theirs"}) {
    fs::create_directories(run.path + "/" + name);
    WriteWholeFile(run.path + "/" + name + "/file", "x");
  }
  // Replaced long ago, its successor stands.
  fs::copy(run.path + "/step-0000000001", run.path + "/step-0000000001.replaced-0011-6");
  REQUIRE(CheckpointWriter::Create(*run.engine, {.run_directory = run.path}).ok());
  // Without a manifest it is nothing that a commit put aside.
  CHECK(LeftOvers(run.path) == std::vector<std::string>{"c.replaced-0011-5"});
  CHECK(VisibleNames(run.path) == std::vector<std::string>{"step-0000000001", "theirs"});
  CHECK(WhyIncomplete(run.path + "/step-0000000001") == "");
  CHECK(fs::exists(run.path + "/theirs/file"));
}
