// Standalone writers and output directories: what they leave when they are killed, and who clears
// it.

#include <cerrno>
#include <filesystem>

#include "dsckpt/checkpoint.h"
#include "dsckpt/output_directory.h"
#include "run/run_lock.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> Entries(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Status SaveBeside(const std::string& run, float value, bool replace) {
  const auto engine = SmallEngine();
  DSCKPT_ASSIGN_OR_RETURN(
      const auto writer,
      CheckpointWriter::Create(*engine, {.run_directory = run, .standalone = true}));
  const Part part(0, 1, value, 4);
  DSCKPT_ASSIGN_OR_RETURN(const auto handle,
                          writer->Save(1, part.state(), {.name = "out", .replace = replace}));
  return handle.WaitDurable();
}

void KillBeside(const std::string& run, const std::string& step, bool replace) {
  Ranks ranks(1, [&](int) {
    FaultFs faults;
    if (step == "replaced") faults.Fail("exchange", EINVAL);
    KillAt(step);
    return SaveBeside(run, 2, replace);
  });
  CHECK(ranks.Wait(0).killed);
}

}  // namespace

TEST_CASE("what killed standalone writers left is cleared by the next of the same name") {
  TempDir dir;
  for (const char* step : {"directory", "saving", "durable", "manifest"}) {
    KillBeside(dir.path(), step, false);
    KillBeside(dir.path(), step, false);
    // Each has cleared what the one before it left.
    CHECK(LeftOvers(dir.path()).size() == 1);
  }
  // Of other names, and of those who are alive, nothing is touched.
  fs::create_directory(dir / "other.incomplete-0011-2");
  REQUIRE(SaveBeside(dir.path(), 1, false).ok());
  CHECK(Entries(dir.path()) == std::vector<std::string>{"other.incomplete-0011-2", "out"});
  const auto entry = RunDirectory::Open(dir.path())->checkpoints().at(0);
  CHECK(entry.serial == 0);
  CHECK_FALSE(entry.abandoned);
}

TEST_CASE("a replacement by a standalone writer that was killed: old or new, whole, or mended") {
  TempDir dir;
  REQUIRE(SaveBeside(dir.path(), 1, false).ok());
  for (const char* step : {"manifest", "replaced", "renamed", "synced"}) {
    INFO(step);
    KillBeside(dir.path(), step, true);
    if (std::string(step) != "replaced") CHECK(WhyIncomplete(dir / "out") == "");
    REQUIRE(SaveBeside(dir.path(), 3, true).ok());
    CHECK(ShardValues(dir / "out") == std::vector<float>{3});
    CHECK(Entries(dir.path()) == std::vector<std::string>{"out"});
  }
}

TEST_CASE("two cannot write one name at a time, and the rank 0 of a run leaves the other alone") {
  TempDir dir;
  fs::create_directory(dir / "out.incomplete-0011-2");
  {
    const auto held = run::LockEntry(dir.path(), "out");
    REQUIRE(held.ok());
    const Status refused = SaveBeside(dir.path(), 1, false);
    CHECK(refused.code() == StatusCode::kFailedPrecondition);
    CHECK(refused.message().find("another process is writing") != std::string::npos);
    CHECK(OutputDirectory::Create(dir / "out").status().code() == StatusCode::kFailedPrecondition);
    const auto engine = SmallEngine();
    REQUIRE(CheckpointWriter::Create(*engine, {.run_directory = dir.path()}).ok());
    CHECK(fs::exists(dir / "out.incomplete-0011-2"));
  }
  const auto engine = SmallEngine();
  const auto owner = CheckpointWriter::Create(*engine, {.run_directory = dir.path()});
  REQUIRE(owner.ok());
  CHECK_FALSE(fs::exists(dir / "out.incomplete-0011-2"));
  // Its own attempts are not cleared by one who writes beside it.
  fs::create_directory(dir / "out.incomplete-0011-3");
  CHECK(SaveBeside(dir.path(), 1, false).ok());
  CHECK(fs::exists(dir / "out.incomplete-0011-3"));
}

TEST_CASE("an output directory appears whole, replaces in one step, and clears what died") {
  TempDir dir;
  const std::string path = dir / "model";
  const auto make = [&](const char* text) {
    auto output = OutputDirectory::Create(path).value();
    WriteWholeFile(output.path() + "/file", text);
    CHECK(fs::path(output.path()).parent_path() == dir.path());
    return output;
  };
  { const auto dropped = make("dropped"); }
  CHECK(Entries(dir.path()).empty());
  CHECK(make("first").Publish(false).ok());
  CHECK(Entries(dir.path()) == std::vector<std::string>{"model"});
  CHECK(make("second").Publish(false).code() == StatusCode::kAlreadyExists);
  CHECK(ReadWholeFile(path + "/file") == "first");
  const bool one_step = GENERATE(true, false);
  {
    FaultFs faults;
    if (!one_step) faults.Fail("exchange", ENOSYS);
    CHECK(make("third").Publish(true).ok());
  }
  CHECK(ReadWholeFile(path + "/file") == "third");
  CHECK(Entries(dir.path()) == std::vector<std::string>{"model"});
  {
    FaultFs faults;
    faults.Fail("fsync_dir", EIO, 2);  // Of the directory above, to mend; of what was made; then.
    auto output = make("fourth");
    CHECK(output.Publish(true).code() == StatusCode::kDurabilityUnknown);
  }
  CHECK(ReadWholeFile(path + "/file") == "fourth");
  // Killed between two renames, twice.
  fs::remove_all(dir / "model.incomplete-files-1-1");
  fs::rename(path, dir / "model.replaced-files-1-1");
  fs::create_directory(dir / "model.incomplete-files-1-1");
  { const auto mended = make("fifth"); }
  CHECK(ReadWholeFile(path + "/file") == "fourth");
  CHECK(Entries(dir.path()) == std::vector<std::string>{"model"});
}
