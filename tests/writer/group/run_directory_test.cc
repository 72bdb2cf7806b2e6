// `latest`, retention, and what a start clears. One rank: the group has no part in these.

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "dsckpt/checkpoint.h"
#include "run/complete.h"
#include "run/manifest_file.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"
#include "writer/group/publish.h"
#include "writer/group/retention.h"

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
  REQUIRE(ApplyRetention(run.path, {.keep_last = 1}, "", "x").ok());
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

TEST_CASE("latest names what was saved last, whatever its step") {
  Run run;
  REQUIRE(run.Save(5).ok());
  REQUIRE(run.Save(3).ok());
  CHECK(Latest(run.path) == "step-0000000003\n");
  REQUIRE(run.Save(5, {.name = "again"}).ok());
  CHECK(Latest(run.path) == "again\n");
  fs::remove_all(run.path + "/again");
  REQUIRE(run.Save(4).ok());
  CHECK(Latest(run.path) == "step-0000000004\n");
  // Serials go on from the highest, also in the next job.
  run.writer.reset();
  run.writer = CheckpointWriter::Create(*run.engine, {.run_directory = run.path}).value();
  REQUIRE(run.Save(1).ok());
  CHECK(run::ReadComplete(run.path, "step-0000000005")->serial == 1);
  CHECK(run::ReadComplete(run.path, "step-0000000003")->serial == 2);
  CHECK(run::ReadComplete(run.path, "step-0000000004")->serial == 4);
  CHECK(run::ReadComplete(run.path, "step-0000000001")->serial == 5);
}

TEST_CASE("one rule for the text of latest") {
  struct Row {
    std::string text;
    std::optional<std::string> name;
  };
  const Row rows[] = {{"a\n", "a"},         {"a", "a"},
                      {"a\r\n", "a"},       {"a\n\n\n", "a"},
                      {" a \n", "a"},       {"\n a\t\n", "a"},
                      {"a b\n", "a b"},     {"", {}},
                      {"\n", {}},           {"../x\n", {}},
                      {"..\n", {}},         {".hidden\n", {}},
                      {"latest\n", {}},     {"a.removed-b\n", {}},
                      {"a.removed-\n", {}}, {std::string("a\0b", 3), {}}};
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1, {.name = "a"}).ok());
  for (const Row& row : rows) {
    INFO(row.text);
    WriteWholeFile(run.path + "/latest", row.text);
    CHECK(RunDirectory::Open(run.path)->latest_name() == row.name);
    CHECK(run::ReadLatest(run.path) == row.name);
  }
}

TEST_CASE("retention keeps what latest names, however its line ends") {
  for (const char* end : {"", "\r\n", "\n\n", " \n"}) {
    Run run;
    for (const int step : {1, 2, 3}) REQUIRE(run.Save(step).ok());
    WriteWholeFile(run.path + "/latest", std::string("step-0000000001") + end);
    REQUIRE(ApplyRetention(run.path, {.keep_last = 1}, "", "x").ok());
    CHECK(VisibleNames(run.path) == Steps({1, 3}));
  }
}

TEST_CASE("after a roll back: what was just saved stays and is latest, the branch ages") {
  struct Row {
    int keep_last;
    std::vector<std::string> left;  // After 100, 200, 300, back to 100, then 150, 200, 250.
  };
  for (const Row& row : {Row{0, Steps({100, 150, 200, 250, 300})}, Row{3, Steps({150, 200, 250})},
                         Row{1, Steps({250})}}) {
    const bool told = GENERATE(true, false);
    INFO(row.keep_last << " " << told);
    Run run({.keep_last = row.keep_last, .keep = {100}});
    for (const int step : {100, 200, 300}) REQUIRE(run.Save(step).ok());
    if (told) {
      REQUIRE(run.writer->RollBack(100).ok());
      CHECK(Latest(run.path) == "step-0000000100\n");
    }
    for (const int step : {150, 200, 250}) {
      const Status saved = run.Save(step);
      INFO(step << " " << saved.ToString());
      CHECK(saved.ok());
      CHECK(RunDirectory::Open(run.path)->Latest()->step() == step);
    }
    std::vector<std::string> left = row.left;
    if (row.keep_last != 0) left.insert(left.begin(), "step-0000000100");
    CHECK(VisibleNames(run.path) == left);
    CHECK(LeftOvers(run.path).empty());
    CHECK(run.events.empty());
  }
}

TEST_CASE(
    "a checkpoint that stands is refused at once, with what to do, an abandoned one gives way") {
  Run run;
  for (const int step : {1, 2, 3}) REQUIRE(run.Save(step).ok());
  const Part part(0, 1, 9, 4);
  const Status refused = run.writer->Save(3, part.state()).status();
  CHECK(refused.code() == StatusCode::kAlreadyExists);
  CHECK(refused.message().find("roll the run back") != std::string::npos);
  CHECK(refused.path() == run.path + "/step-0000000003");
  CHECK(run.writer->RollBack(7).code() == StatusCode::kNotFound);
  CHECK(run.writer->RollBack("../x").code() == StatusCode::kInvalidArgument);
  CHECK(run.writer->RollBack("nothing").code() == StatusCode::kNotFound);
  REQUIRE(run.writer->RollBack("step-0000000001").ok());
  const auto directory = RunDirectory::Open(run.path).value();
  std::vector<bool> abandoned;
  for (const RunEntry& entry : directory.checkpoints()) abandoned.push_back(entry.abandoned);
  CHECK(abandoned == std::vector<bool>{false, true, true});
  CHECK(run.Save(1).code() == StatusCode::kAlreadyExists);
  REQUIRE(run.writer->Save(2, part.state())->WaitDurable().ok());
  CHECK(ShardValues(run.path + "/step-0000000002") == std::vector<float>{9});
  CHECK(Latest(run.path) == "step-0000000002\n");
  // The third is of the branch that was left: its step is above, its save before.
  CHECK(RunDirectory::Open(run.path)->Latest()->step() == 2);
  // A save that is under way decides: nothing is refused before it has ended.
  REQUIRE(run.writer->RollBack(1).ok());
  const auto first = run.writer->Save(2, part.state());
  const auto second = run.writer->Save(3, part.state());
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->WaitDurable().ok());
}

TEST_CASE("a roll back from outside waits for no live job and mends what a crash left") {
  Run run;
  for (const int step : {1, 2}) REQUIRE(run.Save(step).ok());
  CHECK(RollBack(run.path, 1).code() == StatusCode::kFailedPrecondition);
  run.writer.reset();
  // A replacement of 1 that stopped between its renames.
  fs::rename(run.path + "/step-0000000001", run.path + "/step-0000000001.replaced-0011-6");
  REQUIRE(RollBack(run.path, 1).ok());
  CHECK(Latest(run.path) == "step-0000000001\n");
  CHECK(VisibleNames(run.path) == Steps({1, 2}));
  CHECK(LeftOvers(run.path).empty());
  REQUIRE(RollBack(run.path, "step-0000000002").ok());
  CHECK(Latest(run.path) == "step-0000000002\n");
  CHECK(RollBack(run.path + "/none", 1).code() == StatusCode::kNotFound);
}

TEST_CASE("what came to the name since it was looked at is not replaced") {
  Run run;
  static std::string other;
  other = run.path + "/step-0000000001/theirs";
  SetCheckpointStepHook([](const char* step) {
    // As a merge beside the run would publish it.
    if (std::string(step) == "manifest") fs::create_directories(other);
  });
  const Status saved = run.Save(1);
  SetCheckpointStepHook(nullptr);
  CHECK(saved.code() == StatusCode::kAlreadyExists);
  CHECK(fs::exists(other));
  CHECK(LeftOvers(run.path).empty());
}

TEST_CASE("threads that wait beside saves that fail") {
  Run run;
  std::atomic<bool> stop = false;
  std::atomic<int> failures = 0;
  const auto wait = [&] {
    while (!stop) failures += !run.writer->WaitDurable().ok();
  };
  std::thread one(wait), two(wait);
  constexpr int kSaves = 30;
  for (int64_t step = 1; step <= kSaves; ++step) {
    FaultFs faults;
    faults.Fail("fsync", EIO);
    const Part part(0, 1, 1, 4);
    CHECK(run.writer->Save(step, part.state()).ok());
    failures += !run.writer->WaitDurable().ok();
  }
  stop = true;
  one.join();
  two.join();
  // Each failure is shown once, to whichever thread asks first.
  CHECK(failures == kSaves);
}

TEST_CASE("retention never removes what latest names") {
  Run run;
  for (const int step : {1, 2, 3}) REQUIRE(run.Save(step).ok());
  WriteWholeFile(run.path + "/latest", "step-0000000001\n");
  REQUIRE(ApplyRetention(run.path, {.keep_last = 1}, "", "x").ok());
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
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1).ok());
  FaultFs faults;
  // Directory syncs: of the attempt by the shard and by the manifest, then of the run directory.
  faults.Fail("fsync_dir", EIO, 2, 1);
  const Status status = run.Save(2);
  CHECK(status.code() == StatusCode::kDurabilityUnknown);
  CHECK(status.error_number() == EIO);
  CHECK(WhyIncomplete(run.path + "/step-0000000002") == "");
  CHECK(Latest(run.path) == "step-0000000002\n");
  // A power cut may still undo it: what it would fall back to stays.
  CHECK(WhyIncomplete(run.path + "/step-0000000001") == "");
}

TEST_CASE("a latest that cannot be moved: published, and said that a resume may take another") {
  // The temporary's rename; the sync of the directory behind it.
  const auto [call, skip] = GENERATE(std::pair{"rename", 2}, std::pair{"fsync_dir", 3});
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1).ok());
  Status status;
  {
    FaultFs faults;
    faults.Fail(call, EIO, skip, 1);
    status = run.Save(2);
  }
  CHECK(status.code() == StatusCode::kDurabilityUnknown);
  CHECK(status.error_number() == EIO);
  CHECK(status.message().find("'latest' may still name") != std::string::npos);
  CHECK(VisibleNames(run.path) == Steps({1, 2}));
  if (std::string(call) == "rename") {
    CHECK(Latest(run.path) == "step-0000000001\n");
    // What latest does not name was left behind: it can be saved again.
    CHECK(run.Save(2).ok());
    CHECK(Latest(run.path) == "step-0000000002\n");
  }
}

TEST_CASE("a shard whose directory cannot be synced has failed: nothing is published") {
  Run run({.keep_last = 1});
  REQUIRE(run.Save(1).ok());
  Status status;
  {
    FaultFs faults;
    faults.Fail("fsync_dir", EIO, 0, 1);
    status = run.Save(2);
  }
  CHECK(status.code() == StatusCode::kIoError);
  CHECK(status.error_number() == EIO);
  CHECK(VisibleNames(run.path) == Steps({1}));
  CHECK(LeftOvers(run.path).empty());
  CHECK(Latest(run.path) == "step-0000000001\n");
  CHECK(run.Save(2).ok());
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
  faults.Fail("exchange", EINVAL);
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
