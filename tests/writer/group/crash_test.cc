// Ranks that are killed or stopped at each step of the protocol. Real processes.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "run/complete.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"
#include "writer/group/retention.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kShort{500};
constexpr std::chrono::milliseconds kLong{30'000};

struct Place {
  TempDir dir;
  std::string run = dir / "run";
  std::string coordinate = dir / "coordinate";
};

struct Fault {
  int rank = 0;
  std::string step = {};
  int count = 0;
};

/// A group of which one rank is killed at a step of its save; all save step 1.
std::vector<Ended> SaveAndKill(const Place& place, int size, const Fault& fault,
                               const CheckpointSaveOptions& options, float value) {
  Ranks ranks(size, [&](int rank) -> Status {
    // Only where a replacement takes two renames it can stop between them.
    FaultFs faults;
    if (fault.step == "replaced") faults.Fail("exchange", EINVAL);
    RankRun run{.run = place.run, .coordinate = place.coordinate, .rank = rank, .size = size};
    // The handshake has time; the save has little, because the others wait for all of it.
    run.timeout = kLong;
    if (fault.step == "joined" && rank == fault.rank) KillAt("joined");
    DSCKPT_RETURN_IF_ERROR(run.Start());
    run.writer.reset();
    DSCKPT_ASSIGN_OR_RETURN(run.writer,
                            CheckpointWriter::Create(*run.engine, {.run_directory = run.run,
                                                                   .coordinator = run.coordinator,
                                                                   .timeout = kShort}));
    if (rank == fault.rank) KillAt(fault.step, fault.count);
    return run.Save(1, value, options);
  });
  return ranks.WaitAll();
}

void CheckNextSave(const Place& place, int size, const CheckpointSaveOptions& options,
                   float value) {
  Ranks ranks(size, [&](int rank) -> Status {
    RankRun run{.run = place.run, .coordinate = place.coordinate, .rank = rank, .size = size};
    run.timeout = kLong;
    DSCKPT_RETURN_IF_ERROR(run.Start());
    return run.Save(1, value, options);
  });
  for (const Ended& ended : ranks.WaitAll()) {
    INFO(ended.message);
    CHECK(ended.code == StatusCode::kOk);
  }
  CHECK(LeftOvers(place.run).empty());
  const std::string directory = place.run + "/" + VisibleNames(place.run).at(0);
  CHECK(WhyIncomplete(directory) == "");
  CHECK(ShardValues(directory) == std::vector<float>(static_cast<size_t>(size), value));
}

/// What must hold after any crash: survivors agree, and what stands is whole.
void CheckAfterCrash(const Place& place, const std::vector<Ended>& ended, const Fault& fault,
                     const std::string& name_saved, bool in_place) {
  int published = 0, failed = 0;
  for (size_t rank = 0; rank < ended.size(); ++rank) {
    if (ended[rank].killed) {
      CHECK(static_cast<int>(rank) == fault.rank);
      continue;
    }
    INFO("rank " << rank << ": " << ended[rank].message);
    switch (ended[rank].code) {
      case StatusCode::kDurabilityUnknown:
        // Published, and rank 0 died before it moved `latest`.
        CHECK(Latest(place.run) != name_saved + "\n");
        [[fallthrough]];
      case StatusCode::kOk:
        ++published;
        break;
      default:
        CHECK(ended[rank].code == StatusCode::kTimedOut);
        ++failed;
    }
  }
  CHECK((published == 0 || failed == 0));
  for (const std::string& name : VisibleNames(place.run)) {
    const bool has_manifest = fs::exists(place.run + "/" + name + "/dsckpt.manifest");
    // In place the directory shows early: without a manifest it is no checkpoint.
    if (!in_place || has_manifest) {
      CHECK(WhyIncomplete(place.run + "/" + name) == "");
    }
    if (failed > 0) {
      const bool ours = has_manifest && run::ReadComplete(place.run, name).ok() &&
                        ShardValues(place.run + "/" + name)[0] == 1;
      CHECK_FALSE(ours);
    }
  }
  if (published > 0) {
    CHECK(VisibleNames(place.run).size() == 1);
  }
}

void RunFault(const Fault& fault, int size, const CheckpointSaveOptions& options, bool old) {
  INFO("rank " << fault.rank << " of " << size << " killed at '" << fault.step << "', time "
               << fault.count << ", replace " << options.replace << ", in place "
               << options.in_place << ", over an old one " << old);
  const Place place;
  if (old) {
    CheckNextSave(place, size, {.name = options.name, .in_place = options.in_place}, 0);
  }
  CheckAfterCrash(place, SaveAndKill(place, size, fault, options, 1), fault, options.name,
                  options.in_place);
  auto again = options;
  again.replace = true;
  CheckNextSave(place, size, again, 2);
}

const char* const kLeaderSteps[] = {"joined",   "directory", "saving",  "durable",
                                    "gathered", "manifest",  "renamed", "synced",
                                    "latest",   "answered",  "cleared"};
const char* const kMemberSteps[] = {"joined",  "directory", "saving",
                                    "durable", "reported",  "heard"};

Fault RandomFault(std::mt19937& random, int size) {
  Fault fault;
  const auto pick = [&](auto& steps) { return steps[random() % std::size(steps)]; };
  // Most of what can go wrong does so on rank 0.
  fault.rank = random() % 2 == 0 ? 0 : 1 + static_cast<int>(random() % (size - 1));
  fault.step = fault.rank == 0 ? pick(kLeaderSteps) : pick(kMemberSteps);
  return fault;
}

void RunRandomFaults(int runs, uint32_t seed) {
  std::mt19937 random(seed);
  constexpr int kSize = 8;
  for (int i = 0; i < runs; ++i) {
    Fault fault = RandomFault(random, kSize);
    CheckpointSaveOptions options{.name = "save"};
    options.in_place = random() % 4 == 0;
    const bool old = random() % 4 == 0;
    options.replace = old;
    if (fault.rank == 0 && options.in_place && random() % 2 == 0) {
      fault.step = "moved";
      fault.count = static_cast<int>(random() % kSize);
    }
    if (fault.rank == 0 && old && random() % 3 == 0) {
      fault.step = "replaced";
      fault.count = 0;
    }
    RunFault(fault, kSize, options, old);
  }
}

}  // namespace

TEST_CASE("one of eight ranks is killed at any step") { RunRandomFaults(24, 1); }

TEST_CASE("one of eight ranks is killed at any step, 200 times", "[.slow]") {
  RunRandomFaults(200, 2);
}

TEST_CASE("rank 0 is killed at each of its steps") {
  for (const char* step : kLeaderSteps) RunFault({0, step}, 2, {.name = "save"}, false);
}

TEST_CASE("rank 1 is killed at each of its steps") {
  for (const char* step : kMemberSteps) RunFault({1, step}, 2, {.name = "save"}, false);
}

TEST_CASE("a replacement that stops between its renames is finished or undone") {
  const Place place;
  CheckNextSave(place, 1, {.name = "save"}, 0);
  const std::string final_path = place.run + "/save";
  const auto recover = [&] {
    const auto engine = SmallEngine();
    REQUIRE(CheckpointWriter::Create(*engine, {.run_directory = place.run}).ok());
    CHECK(LeftOvers(place.run).empty());
    CHECK(WhyIncomplete(final_path) == "");
  };
  // A rank alone: nobody gives the attempt up.
  const auto stop = [&] {
    const auto ended = SaveAndKill(place, 1, {0, "replaced"}, {.name = "save", .replace = true}, 1);
    CHECK(ended[0].killed);
    CHECK_FALSE(fs::exists(final_path));
    CHECK(LeftOvers(place.run).size() == 2);
  };
  stop();
  recover();
  CHECK(ShardValues(final_path) == std::vector<float>{1});

  CheckNextSave(place, 1, {.name = "save", .replace = true}, 0);
  stop();
  // The new one is not whole: the old one comes back.
  for (const std::string& name : LeftOvers(place.run)) {
    if (name.find(".incomplete-") != std::string::npos) {
      fs::remove(place.run + "/" + name + "/shard-00000.dsckpt");
    }
  }
  recover();
  CHECK(ShardValues(final_path) == std::vector<float>{0});

  // Stopped after the one rename that does it where the system can.
  CHECK(SaveAndKill(place, 1, {0, "renamed"}, {.name = "save", .replace = true}, 1)[0].killed);
  recover();
  CHECK(ShardValues(final_path) == std::vector<float>{1});
}

TEST_CASE("in place: what a crash stopped is finished once its manifest was written") {
  for (const int moved : {0, 1}) {
    const Place place;

    Ranks ranks(1, [&](int) -> Status {
      RankRun run{.run = place.run, .coordinate = {}};
      DSCKPT_RETURN_IF_ERROR(run.Start());
      KillAt("moved", moved);
      const Part a(0, 2, 1), b(1, 2, 2);
      const ShardSource shards[] = {{"a", &a.state()}, {"b", &b.state()}};
      DSCKPT_ASSIGN_OR_RETURN(const auto handle,
                              run.writer->Save(1, shards, {.name = "tag", .in_place = true}));
      return handle.WaitDurable();
    });
    CHECK(ranks.Wait(0).killed);
    CHECK_FALSE(fs::exists(place.run + "/tag/dsckpt.manifest"));
    const auto engine = SmallEngine();
    REQUIRE(CheckpointWriter::Create(*engine, {.run_directory = place.run}).ok());
    CHECK(LeftOvers(place.run).empty());
    CHECK(WhyIncomplete(place.run + "/tag") == "");
    CHECK(ShardValues(place.run + "/tag") == std::vector<float>{1, 2});
  }
}

TEST_CASE("a left-over attempt of the same step and size takes no part in the next") {
  const Place place;
  CHECK(SaveAndKill(place, 1, {0, "manifest"}, {.name = "save"}, 1)[0].killed);
  const auto left = LeftOvers(place.run);
  REQUIRE(left.size() == 1);
  const auto old_size = fs::file_size(place.run + "/" + left[0] + "/shard-00000.dsckpt");
  CheckNextSave(place, 1, {.name = "save"}, 2);
  CHECK(fs::file_size(place.run + "/save/shard-00000.dsckpt") == old_size);
}

TEST_CASE("a rank that was paused while the others went on publishes nothing and disturbs nobody") {
  const auto step = GENERATE(as<std::string>{}, "directory", "durable", "reported");
  INFO(step);
  const Place place;
  Ranks ranks(3, [&](int rank) -> Status {
    RankRun run{.run = place.run, .coordinate = place.coordinate, .rank = rank, .size = 3};
    run.timeout = std::chrono::seconds(2);
    if (rank == 2) StopAt(step);
    DSCKPT_RETURN_IF_ERROR(run.Start());
    return run.Save(1, 1, {.name = "save"});
  });
  ranks.AwaitStopped(2);
  const bool reported = step == "reported";
  for (const int rank : {0, 1}) {
    const Ended ended = ranks.Wait(rank);
    INFO(ended.message);
    CHECK(ended.code == (reported ? StatusCode::kOk : StatusCode::kTimedOut));
  }
  CHECK(VisibleNames(place.run) ==
        (reported ? std::vector<std::string>{"save"} : std::vector<std::string>{}));
  // The others go ahead as a group of two, under the same name.
  Place next;
  next.run = place.run;
  CheckNextSave(next, 2, {.name = "save", .replace = true}, 5);
  ranks.Signal(2, SIGCONT);
  const Ended late = ranks.Wait(2);
  INFO(late.message);
  CHECK(late.code == (reported ? StatusCode::kOk : StatusCode::kTimedOut));
  CHECK(WhyIncomplete(place.run + "/save") == "");
  CHECK(ShardValues(place.run + "/save") == std::vector<float>{5, 5});
}

TEST_CASE("rank 0 paused before it publishes finds its checkpoint given up") {
  const Place place;
  Ranks ranks(2, [&](int rank) -> Status {
    RankRun run{.run = place.run, .coordinate = place.coordinate, .rank = rank, .size = 2};
    run.timeout = std::chrono::seconds(2);
    if (rank == 0) StopAt("manifest");
    DSCKPT_RETURN_IF_ERROR(run.Start());
    return run.Save(1, 1);
  });
  ranks.AwaitStopped(0);
  CHECK(ranks.Wait(1).code == StatusCode::kTimedOut);
  ranks.Signal(0, SIGCONT);
  const Ended late = ranks.Wait(0);
  INFO(late.message);
  CHECK(late.code == StatusCode::kTimedOut);
  CHECK(VisibleNames(place.run).empty());
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("rank 0 paused after it published: the others see it") {
  const Place place;
  Ranks ranks(2, [&](int rank) -> Status {
    RankRun run{.run = place.run, .coordinate = place.coordinate, .rank = rank, .size = 2};
    run.timeout = std::chrono::seconds(2);
    if (rank == 0) StopAt("renamed");
    DSCKPT_RETURN_IF_ERROR(run.Start());
    return run.Save(1, 1);
  });
  ranks.AwaitStopped(0);
  // Whether `latest` will name it is rank 0's to say.
  const Ended other = ranks.Wait(1);
  CHECK(other.code == StatusCode::kDurabilityUnknown);
  CHECK(other.message.find("'latest' may still name") != std::string::npos);
  ranks.Signal(0, SIGCONT);
  CHECK(ranks.Wait(0).code == StatusCode::kOk);
  CHECK(Latest(place.run) == "step-0000000001\n");
  CHECK(VisibleNames(place.run).size() == 1);
}
