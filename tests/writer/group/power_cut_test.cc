// What a power cut leaves of a run, at any moment. One rank.

#include <filesystem>
#include <mutex>
#include <random>

#include "dsckpt/checkpoint.h"
#include "dsckpt/limits.h"
#include "tests/support/catch.h"
#include "tests/support/power_cut_fs.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"
#include "writer/group/publish.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

/// A run below a directory that stands, saved to by one rank; the power is cut at the `when`th of
/// the steps and syncs that it makes.
struct Scene {
  TempDir dir = {};
  std::string root = dir / "disk";
  std::string after = dir / "after";  // What the cut leaves of `root`.
  int when = 0;
  unsigned kept = 0;
  std::mt19937 random;
  int tensors = 1;

  std::mutex mutex = {};  // Of all that follows, and `when`: commits go on behind the answer.
  // What is known at the moment of the cut.
  std::vector<int64_t> durable = {};  // The steps saved with OK, or rolled back to, in order.
  int64_t under_way = -1;
  bool cut = false;
  std::vector<int64_t> durable_at_cut = {};
  int64_t under_way_at_cut = -1;
};

Scene* scene = nullptr;
PowerCutFs* disk = nullptr;

void Moment() {
  std::lock_guard lock(scene->mutex);
  if (scene->cut || scene->when-- > 0) return;
  scene->cut = true;
  scene->durable_at_cut = scene->durable;
  scene->under_way_at_cut = scene->under_way;
  disk->CutTo(scene->after, scene->random, scene->kept);
}

struct Act {
  enum class Kind { kSave, kReplace, kInPlace, kRollBack };
  Kind kind = Kind::kSave;
  int64_t step = 0;
};

void Perform(CheckpointWriter& writer, const Act& act) {
  {
    std::lock_guard lock(scene->mutex);
    scene->under_way = act.step;
  }
  Status status;
  if (act.kind == Act::Kind::kRollBack) {
    status = writer.RollBack(act.step);
  } else {
    const Part part(0, 1, static_cast<float>(act.step), 4, scene->tensors);
    CheckpointSaveOptions options{.replace = act.kind == Act::Kind::kReplace};
    options.in_place = act.kind == Act::Kind::kInPlace;
    const auto handle = writer.Save(act.step, part.state(), options);
    status = handle.ok() ? handle->WaitDurable() : handle.status();
  }
  INFO("step " << act.step << ": " << status.ToString());
  CHECK(status.ok());
  {
    std::lock_guard lock(scene->mutex);
    scene->durable.push_back(act.step);
    scene->under_way = -1;
  }
  CHECK(writer.WaitDurable().ok());
}

/// The step that a resume takes; -1: there is none. What it takes is whole.
int64_t Resumed(const std::string& run) {
  const auto directory = RunDirectory::Open(run);
  if (!directory.ok()) return -1;
  const auto latest = directory->Latest({.retry = std::chrono::milliseconds(0)});
  if (!latest.ok()) return -1;
  CHECK(WhyIncomplete(latest->path()) == "");
  CHECK(ShardValues(latest->path()) == std::vector<float>{static_cast<float>(latest->step())});
  return latest->step();
}

void CheckCut(const std::string& run) {
  const auto may_be = [&](int64_t step) {
    const int64_t last = scene->durable_at_cut.empty() ? -1 : scene->durable_at_cut.back();
    return step == last || step == scene->under_way_at_cut;
  };
  INFO("durable: " << scene->durable_at_cut.size() << ", last "
                   << (scene->durable_at_cut.empty() ? -1 : scene->durable_at_cut.back())
                   << ", under way " << scene->under_way_at_cut);
  const int64_t found = Resumed(run);
  INFO("found " << found);
  CHECK(may_be(found));
  // The next job mends the rest, takes the same, and goes on.
  const auto engine = SmallEngine();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = run});
  REQUIRE(writer.ok());
  const int64_t mended = Resumed(run);
  CHECK(may_be(mended));
  CHECK(LeftOvers(run).empty());
  const Part part(0, 1, 1000, 4);
  const auto saved = writer.value()->Save(1000, part.state());
  REQUIRE(saved.ok());
  CHECK(saved->WaitDurable().ok());
  CHECK(Resumed(run) == 1000);
}

/// Whether the cut came before the end.
bool CutAt(int when, unsigned kept, uint32_t seed, const std::vector<Act>& acts, int tensors = 1) {
  Scene here{.when = when, .kept = kept, .random = std::mt19937(seed), .tensors = tensors};
  fs::create_directory(here.root);
  scene = &here;
  {
    PowerCutFs cutter(here.root);
    disk = &cutter;
    cutter.OnSync(Moment);
    SetCheckpointStepHook([](const char*) { Moment(); });
    const auto engine = SmallEngine();
    const auto writer = CheckpointWriter::Create(
        *engine, {.run_directory = here.root + "/runs/a", .retention = {.keep_last = 2}});
    REQUIRE(writer.ok());
    for (const Act& act : acts) {
      Perform(*writer.value(), act);
      // Also between two acts, when nothing is under way.
      Moment();
    }
    SetCheckpointStepHook(nullptr);
  }
  disk = nullptr;
  INFO("cut at moment " << when << ", of a hundred unsynced " << kept << " kept, seed " << seed);
  if (here.cut) CheckCut(here.after + "/runs/a");
  scene = nullptr;
  return here.cut;
}

using K = Act::Kind;
const std::vector<Act> kActs = {{K::kSave, 1},     {K::kSave, 2},     {K::kReplace, 2},
                                {K::kSave, 3},     {K::kRollBack, 2}, {K::kSave, 3},
                                {K::kRollBack, 2}, {K::kSave, 2 + 1}};

}  // namespace

TEST_CASE(
    "a power cut at any moment: what was durable is there, complete, and what a resume takes") {
  for (const unsigned kept : {0u, 50u}) {
    for (int when = 0; CutAt(when, kept, static_cast<uint32_t>(when), kActs); when += 17) {
    }
  }
}

TEST_CASE("a power cut at every moment, many outcomes of each", "[.slow]") {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const unsigned kept = seed == 0 ? 0 : seed == 1 ? 100 : 10 * (seed - 1);
    for (int when = 0; CutAt(when, kept, seed * 1000 + static_cast<uint32_t>(when), kActs);
         ++when) {
    }
  }
}

TEST_CASE("the first checkpoint of a run that did not exist survives a power cut") {
  for (const unsigned kept : {0u, 30u, 60u}) {
    for (int when = 0; CutAt(when, kept, 7, {{K::kSave, 1}}); when += 2) {
    }
  }
}

TEST_CASE("in place, what was durable survives a power cut") {
  for (const unsigned kept : {0u, 50u}) {
    for (int when = 0; CutAt(when, kept, 5, {{K::kInPlace, 1}, {K::kInPlace, 2}, {K::kInPlace, 3}});
         when += 9) {
    }
  }
}

TEST_CASE("a manifest in parts survives a power cut as any other") {
  // Of a shard with nine tensors: five parts.
  constexpr int kTensors = 9;
  SetManifestLimit(1700);
  {
    const TempDir dir;
    const auto engine = SmallEngine();
    const auto writer = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).value();
    const Part part(0, 1, 1, 4, kTensors);
    REQUIRE(writer->Save(1, part.state())->WaitDurable().ok());
    CHECK(Checkpoint::Open(dir / "run/step-0000000001")->manifest_parts() == 5);
  }
  const std::vector<Act> in_place = {{K::kInPlace, 1}, {K::kInPlace, 2}};
  for (const unsigned kept : {0u, 50u}) {
    for (int when = 0; CutAt(when, kept, 11, kActs, kTensors); when += 23) {
    }
    for (int when = 0; CutAt(when, kept, 12, in_place, kTensors); when += 5) {
    }
  }
  SetManifestLimit(kMaxManifestBytes);
}
