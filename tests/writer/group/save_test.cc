// A group saves: what stands afterwards, and what every rank is told. Real processes.

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string_view>

#include "dsckpt/file.h"
#include "format/manifest/manifest.h"
#include "run/manifest_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"
#include "writer/group/publish.h"
#include "writer/group/retention.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

/// A run and a place to coordinate.
struct Place {
  TempDir dir;
  std::string run = dir / "run";
  std::string coordinate = dir / "coordinate";

  RankRun Rank(int rank, int size) const {
    return {.run = run, .coordinate = coordinate, .rank = rank, .size = size};
  }
};

/// All ranks start and run `body`.
std::vector<Ended> RunGroup(const Place& place, int size,
                            const std::function<Status(RankRun&)>& body,
                            std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  Ranks ranks(size, [&](int rank) -> Status {
    RankRun run = place.Rank(rank, size);
    run.timeout = timeout;
    DSCKPT_RETURN_IF_ERROR(run.Start());
    return body(run);
  });
  return ranks.WaitAll();
}

void CheckAll(const std::vector<Ended>& ended, StatusCode code, const std::string& part = "") {
  for (size_t rank = 0; rank < ended.size(); ++rank) {
    INFO("rank " << rank << ": " << ended[rank].message);
    CHECK_FALSE(ended[rank].killed);
    CHECK(ended[rank].code == code);
    CHECK(ended[rank].message.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a group saves one checkpoint, and then the next") {
  const Place place;
  CheckAll(RunGroup(place, 4,
                    [](RankRun& run) -> Status {
                      DSCKPT_RETURN_IF_ERROR(run.Save(7, 70.0F + static_cast<float>(run.rank)));
                      return run.Save(8, 80.0F + static_cast<float>(run.rank));
                    }),
           StatusCode::kOk);
  CHECK(VisibleNames(place.run) == std::vector<std::string>{"step-0000000007", "step-0000000008"});
  CHECK(LeftOvers(place.run).empty());
  CHECK(Latest(place.run) == "step-0000000008\n");
  for (const std::string& name : VisibleNames(place.run)) {
    CHECK(WhyIncomplete(place.run + "/" + name) == "");
  }
  CHECK(ShardValues(place.run + "/step-0000000008") == std::vector<float>{80, 81, 82, 83});
  const auto manifest = run::ReadManifest(place.run + "/step-0000000007").value();
  CHECK(manifest.view.step == 7);
  CHECK(manifest.view.ranks == 4);
  CHECK(manifest.view.attempt.ends_with("-0"));
  CHECK(manifest.view.shard_names[3] == "shard-00003.dsckpt");
  REQUIRE(manifest.view.pieces.logical_names.size() == 1);
  CHECK(manifest.view.pieces.logical_names[0] == "w");
  CHECK(manifest.view.pieces.size() == 4);
  const auto shape = manifest.view.pieces.logical_shape(0);
  CHECK(std::vector<int64_t>(shape.begin(), shape.end()) == std::vector<int64_t>{64, 16});
}

TEST_CASE("a rank alone needs no group") {
  TempDir dir;
  const auto engine = SmallEngine();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).value();
  const Part part(0, 1, 5);
  REQUIRE(writer->Save(1, part.state(), {.name = "mine"}).ok());
  CHECK(writer->WaitDurable().ok());
  CHECK(WhyIncomplete(dir / "run/mine") == "");
  CHECK(Latest(dir / "run") == "mine\n");
}

TEST_CASE("ranks with nothing to save and ranks with several shards") {
  const Place place;
  const auto ended = RunGroup(place, 3, [](RankRun& run) -> Status {
    const Part a(0, 2, 1), b(1, 2, 2);
    std::vector<ShardSource> shards;
    if (run.rank == 1) shards = {{"b.dsckpt", &b.state()}, {"a.dsckpt", &a.state()}};
    DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, shards));
    return handle.WaitDurable();
  });
  CheckAll(ended, StatusCode::kOk);
  const std::string directory = place.run + "/step-0000000001";
  CHECK(WhyIncomplete(directory) == "");
  CHECK(ShardValues(directory) == std::vector<float>{1, 2});
  const auto manifest = run::ReadManifest(directory).value();
  CHECK(manifest.view.ranks == 3);
  CHECK(manifest.view.shard_rank[0] == 1);
}

namespace {

/// Each rank saves "rng" of four bytes, all `value`, and "w" that is equal on all of them. `owner`:
/// whose own "rng" is declared to be; -1: nobody's.
Status SaveRng(RankRun& run, uint8_t value, int owner, int64_t elements = 4) {
  std::vector<uint8_t> rng(static_cast<size_t>(elements), value), w = {1, 2, 3};
  State state;
  state.AddTensor("rng", rng.data(), DType::kU8, {elements});
  state.AddTensor("w", w.data(), DType::kU8, {3});
  if (owner >= 0) state.RankOwn("rng", static_cast<uint32_t>(owner));
  DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, state));
  return handle.WaitDurable();
}

}  // namespace

TEST_CASE("undeclared tensors that differ between ranks: refused on every rank") {
  const Place place;
  const auto value = [](const RankRun& run) { return static_cast<uint8_t>(run.rank == 0 ? 5 : 6); };
  SECTION("in content") {
    CheckAll(RunGroup(place, 3, [&](RankRun& run) { return SaveRng(run, value(run), -1); }),
             StatusCode::kMismatch, "tensor 'rng' differs between rank 0 and rank 1. ");
  }
  SECTION("in shape") {
    CheckAll(RunGroup(place, 2, [&](RankRun& run) { return SaveRng(run, 5, -1, 4 + run.rank); }),
             StatusCode::kMismatch, "declare what belongs to each rank with RankOwn()");
  }
  CHECK(VisibleNames(place.run).empty());
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("tensors that are equal on all ranks, and those declared to be a rank's own, stand") {
  const Place place;
  SECTION("equal") {
    CheckAll(RunGroup(place, 2, [](RankRun& run) { return SaveRng(run, 5, -1); }), StatusCode::kOk);
  }
  SECTION("the rank's own") {
    CheckAll(RunGroup(place, 3,
                      [](RankRun& run) {
                        return SaveRng(run, static_cast<uint8_t>(run.rank), run.rank, 4 + run.rank);
                      }),
             StatusCode::kOk);
    const auto manifest = run::ReadManifest(place.run + "/step-0000000001").value();
    const auto& names = manifest.view.pieces.logical_names;
    std::vector<std::string> found;
    for (uint32_t i = 0; i < names.size(); ++i) found.emplace_back(names[i]);
    CHECK(found == std::vector<std::string>{"ranks/0/rng", "ranks/1/rng", "ranks/2/rng", "w"});
  }
  CHECK(WhyIncomplete(place.run + "/step-0000000001") == "");
}

TEST_CASE("what is declared to be another rank's own: refused on every rank") {
  const Place place;
  CheckAll(RunGroup(place, 2, [](RankRun& run) { return SaveRng(run, 5, 0); }),
           StatusCode::kInvalidArgument,
           "'ranks/0/rng' is declared to be another rank's own, but rank 1 saves it");
  CHECK(VisibleNames(place.run).empty());
}

TEST_CASE("nobody has a shard: refused on every rank") {
  const Place place;
  CheckAll(RunGroup(place, 2,
                    [](RankRun& run) -> Status {
                      DSCKPT_ASSIGN_OR_RETURN(const auto handle,
                                              run.writer->Save(1, std::span<const ShardSource>()));
                      return handle.WaitDurable();
                    }),
           StatusCode::kInvalidArgument, "no rank has a shard");
  CHECK(VisibleNames(place.run).empty());
}

TEST_CASE(
    "shard names that another system takes for something else are refused, and nothing is made") {
  const Place place;
  const auto save = [&](int ranks, const std::function<std::vector<std::string>(int)>& names) {
    return RunGroup(place, ranks, [&](RankRun& run) -> Status {
      float value = 1;
      State state;
      state.AddTensor("rank" + std::to_string(run.rank), &value, kF32, {1});
      std::vector<ShardSource> shards;
      for (const std::string& name : names(run.rank)) shards.push_back({name, &state});
      DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, shards));
      return handle.WaitDurable();
    });
  };
  using Names = std::vector<std::string>;
  CheckAll(save(1, [](int) { return Names{"a\\..\\x"}; }), StatusCode::kInvalidArgument,
           "backslash");
  CheckAll(save(1, [](int) { return Names{"nul.dsckpt"}; }), StatusCode::kInvalidArgument,
           "'nul.dsckpt' is that of a device");
  CheckAll(save(1, [](int) { return Names{"a", "A"}; }), StatusCode::kAlreadyExists, "'A'");
  CheckAll(save(2, [](int rank) { return Names{rank == 0 ? "a" : "A"}; }),
           StatusCode::kAlreadyExists, "'a' but for the case of letters");
  CHECK(VisibleNames(place.run).empty());
}

TEST_CASE("a checkpoint that stands is refused on every rank, or replaced") {
  const Place place;
  CheckAll(RunGroup(place, 2,
                    [](RankRun& run) -> Status {
                      DSCKPT_RETURN_IF_ERROR(run.Save(1, 1));
                      return run.Save(1, 2);
                    }),
           StatusCode::kAlreadyExists, "stands already");
  const std::string directory = place.run + "/step-0000000001";
  CHECK(ShardValues(directory) == std::vector<float>{1, 1});
  CheckAll(RunGroup(place, 2, [](RankRun& run) { return run.Save(1, 3, {.replace = true}); }),
           StatusCode::kOk);
  CHECK(ShardValues(directory) == std::vector<float>{3, 3});
  CHECK(WhyIncomplete(directory) == "");
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("what is no checkpoint is never replaced") {
  const Place place;
  fs::create_directories(place.run + "/data");
  WriteWholeFile(place.run + "/data/precious", "x");
  CheckAll(RunGroup(place, 2,
                    [](RankRun& run) { return run.Save(1, 1, {.name = "data", .replace = true}); }),
           StatusCode::kAlreadyExists, "no checkpoint");
  CHECK(ReadWholeFile(place.run + "/data/precious") == "x");
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("in place: other files of the directory stay") {
  const Place place;
  const std::string directory = place.run + "/global_step1";
  fs::create_directories(directory);
  WriteWholeFile(directory + "/mp_rank_00.pt", "theirs");
  const CheckpointSaveOptions options{.name = "global_step1", .in_place = true};
  CheckAll(RunGroup(place, 3, [&](RankRun& run) { return run.Save(1, 1, options); }),
           StatusCode::kOk);
  CHECK(WhyIncomplete(directory) == "");
  CHECK(ReadWholeFile(directory + "/mp_rank_00.pt") == "theirs");
  CHECK(LeftOvers(place.run).empty());
  CHECK(Latest(place.run) == "global_step1\n");

  CheckAll(RunGroup(place, 2, [&](RankRun& run) { return run.Save(1, 2, options); }),
           StatusCode::kAlreadyExists);
  CHECK(ShardValues(directory) == std::vector<float>{1, 1, 1});

  auto replacing = options;
  replacing.replace = true;
  CheckAll(RunGroup(place, 2, [&](RankRun& run) { return run.Save(1, 2, replacing); }),
           StatusCode::kOk);
  CHECK(ShardValues(directory) == std::vector<float>{2, 2});
  CHECK_FALSE(fs::exists(directory + "/shard-00002.dsckpt"));
  CHECK(ReadWholeFile(directory + "/mp_rank_00.pt") == "theirs");
}

TEST_CASE("ranks that save different checkpoints at once are told so") {
  const Place place;
  CheckAll(RunGroup(place, 3, [](RankRun& run) { return run.Save(run.rank == 2 ? 6 : 5, 1); }),
           StatusCode::kMismatch, "rank 2 saved another checkpoint than rank 0");
  CHECK(VisibleNames(place.run).empty());
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("C41 one logical tensor with two dtypes or two shapes is refused, naming both shards") {
  const Place place;
  const auto save = [&](bool dtype) {
    return RunGroup(place, 2, [&](RankRun& run) -> Status {
      std::vector<float> elements(64);
      const bool other = run.rank == 1;
      State state;
      const int64_t columns = !dtype && other ? 5 : 4;
      state.AddTensor("w", elements.data(), dtype && other ? kBF16 : kF32, {4, columns});
      DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, state));
      return handle.WaitDurable();
    });
  };
  for (const bool dtype : {true, false}) {
    const auto ended = save(dtype);
    CheckAll(ended, StatusCode::kMismatch, "shard-00000.dsckpt");
    CheckAll(ended, StatusCode::kMismatch, "shard-00001.dsckpt");
  }
  CHECK(VisibleNames(place.run).empty());
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("two shards of one name are refused") {
  const Place place;
  CheckAll(RunGroup(place, 2,
                    [](RankRun& run) -> Status {
                      const Part part(run.rank, 2, 1);
                      const ShardSource shard{"same.dsckpt", &part.state()};
                      DSCKPT_ASSIGN_OR_RETURN(const auto handle,
                                              run.writer->Save(1, std::span(&shard, 1)));
                      return handle.WaitDurable();
                    }),
           StatusCode::kAlreadyExists, "same.dsckpt");
  CHECK(VisibleNames(place.run).empty());
}

TEST_CASE("a rank that cannot save fails the checkpoint on all, at once, the next one works") {
  const Place place;
  const auto failing = [](RankRun& run) -> Status {
    if (run.rank == 1) {
      // The disk of this rank is full.
      const rlimit small{4096, 4096};
      signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &small);
    }
    return run.Save(1, 1);
  };
  const auto ended = RunGroup(place, 3, failing);
  CheckAll(ended, StatusCode::kNoSpace, "rank 1: ");
  CHECK(VisibleNames(place.run).empty());
  CHECK(LeftOvers(place.run).empty());
  CheckAll(RunGroup(place, 3, [](RankRun& run) { return run.Save(1, 1); }), StatusCode::kOk);
}

TEST_CASE("a checkpoint that any rank cancels fails on all, the next one works") {
  const Place place;
  const int canceller = GENERATE(0, 1);
  const auto body = [canceller](RankRun& run) -> Status {
    const Part part(run.rank, run.size, 1);
    // The shard of the rank that cancels is not published before it has.
    std::promise<void> cancelled;
    CheckpointSaveOptions options;
    if (run.rank == canceller) {
      options.file.before_publish = [&cancelled] {
        cancelled.get_future().wait();
        return Status();
      };
    }
    DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, part.state(), options));
    if (run.rank == canceller) {
      handle.Cancel();
      cancelled.set_value();
    }
    const Status status = handle.WaitDurable();
    if (handle.progress().durable) return Status(StatusCode::kInternal, "durable");
    handle.Cancel();
    DSCKPT_RETURN_IF_ERROR(run.Save(2, 2));
    return status;
  };
  CheckAll(RunGroup(place, 3, body), StatusCode::kCancelled,
           "rank " + std::to_string(canceller) + ": checkpoint '" + place.run +
               "/step-0000000001' was cancelled");
  CHECK(VisibleNames(place.run) == std::vector<std::string>{"step-0000000002"});
  CHECK(LeftOvers(place.run).empty());
  CHECK(WhyIncomplete(place.run + "/step-0000000002") == "");
}

namespace {

std::promise<CheckpointHandle> to_cancel;

}  // namespace

TEST_CASE("rank 0 cancels a checkpoint whose parts are all there") {
  const Place place;
  const auto body = [](RankRun& run) -> Status {
    if (run.rank == 0) {
      SetCheckpointStepHook([](const char* step) {
        if (std::string_view(step) == "gathered") to_cancel.get_future().get().Cancel();
      });
    }
    const Part part(run.rank, run.size, 1);
    DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, part.state()));
    if (run.rank == 0) to_cancel.set_value(handle);
    return handle.WaitDurable();
  };
  CheckAll(RunGroup(place, 2, body), StatusCode::kCancelled, "was cancelled");
  CHECK(VisibleNames(place.run).empty());
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("what was cancelled here is no failure that anybody else hears of") {
  TempDir dir;
  const auto engine = SmallEngine();
  std::vector<StatusCode> heard;
  const auto writer =
      CheckpointWriter::Create(
          *engine, {.run_directory = dir / "run",
                    .on_event = [&](const Event& e) { heard.push_back(e.status.code()); }})
          .value();
  const Part part(0, 1, 1);
  std::promise<void> cancelled;
  CheckpointSaveOptions options;
  options.file.before_publish = [&cancelled] {
    cancelled.get_future().wait();
    return Status();
  };
  const auto handle = writer->Save(1, part.state(), options).value();
  handle.Cancel();
  cancelled.set_value();
  CHECK(handle.WaitDurable().code() == StatusCode::kCancelled);
  CHECK(writer->WaitDurable().ok());
  CHECK(heard.empty());
}

TEST_CASE("progress of a checkpoint is that of this rank's shards, what is published stays") {
  TempDir dir;
  const auto engine = SmallEngine();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).value();
  const Part one(0, 2, 1), two(1, 2, 2);
  const ShardSource shards[] = {{"a.dsckpt", &one.state()}, {"b.dsckpt", &two.state()}};
  const auto handle = writer->Save(1, shards).value();
  REQUIRE(handle.WaitDurable().ok());
  handle.Cancel();
  CHECK(handle.WaitDurable().ok());
  const Progress progress = handle.progress();
  const std::string saved = dir / "run/step-0000000001";
  CHECK(progress.total_bytes ==
        fs::file_size(saved + "/a.dsckpt") + fs::file_size(saved + "/b.dsckpt"));
  CHECK(progress.captured_bytes == 64 * 16 * sizeof(float));
  CHECK(progress.flushed_bytes >= progress.total_bytes);
  CHECK(progress.captured);
  CHECK(progress.durable);
  CHECK(WhyIncomplete(saved) == "");
  CHECK_FALSE(CheckpointHandle().progress().captured);
  CheckpointHandle().Cancel();
}

TEST_CASE("a refused Save() reaches the other ranks") {
  const Place place;
  const auto ended = RunGroup(place, 2, [](RankRun& run) -> Status {
    State bad;
    float x = 0;
    bad.AddTensor("w", &x, kF32, {-1});
    const Part part(0, 1, 1);
    DSCKPT_ASSIGN_OR_RETURN(const auto handle,
                            run.writer->Save(1, run.rank == 1 ? bad : part.state()));
    return handle.WaitDurable();
  });
  CheckAll(ended, StatusCode::kInvalidArgument);
  CHECK(ended[0].message.starts_with("rank 1: "));
  CHECK(LeftOvers(place.run).empty());
}

TEST_CASE("names that leave the directory or mean something else are refused") {
  TempDir dir;
  const auto engine = SmallEngine();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).value();
  const Part part(0, 1, 1);
  for (const char* name : {"..", ".", "../x", "a/b", "/tmp/x", ".hidden", "latest", "\xff",
                           "a.incomplete-b", "a.replaced-b", "a.removed-b", "a.incomplete-",
                           "a.replaced-", "a.removed-", "a.removed-.b"}) {
    INFO(name);
    CHECK(writer->Save(1, part.state(), {.name = name}).status().code() ==
          StatusCode::kInvalidArgument);
    const ShardSource shard{name, &part.state()};
    if (std::string(name) == "latest") continue;
    CHECK(writer->Save(1, std::span(&shard, 1)).status().code() == StatusCode::kInvalidArgument);
  }
  for (const std::string& name : {std::string("a\0b", 3), std::string(250, 'x')}) {
    CHECK(writer->Save(1, part.state(), {.name = name}).status().code() ==
          StatusCode::kInvalidArgument);
  }
  const ShardSource manifest{"dsckpt.manifest", &part.state()};
  CHECK_FALSE(writer->Save(1, std::span(&manifest, 1)).ok());
  CHECK_FALSE(writer->Save(-1, part.state()).ok());
  CHECK_FALSE(writer->Save(1, part.state(), {.file = {.container = Container::kSafetensors}}).ok());
  CHECK(writer->WaitDurable().ok());
  CHECK(VisibleNames(dir / "run").empty());
  CHECK(LeftOvers(dir / "run").empty());
}

TEST_CASE("a failure that no handle has shown is raised once") {
  TempDir dir;
  const auto engine = SmallEngine();
  std::vector<Event::Kind> events;
  const auto writer = CheckpointWriter::Create(
                          *engine, {.run_directory = dir / "run",
                                    .on_event = [&](const Event& e) { events.push_back(e.kind); }})
                          .value();
  const Part part(0, 1, 1);
  REQUIRE(writer->Save(1, part.state()).ok());
  REQUIRE(writer->Save(1, part.state()).ok());
  CHECK(writer->WaitDurable().code() == StatusCode::kAlreadyExists);
  CHECK(writer->WaitDurable().ok());
  CHECK(events == std::vector<Event::Kind>{Event::Kind::kSaveFailed});
  // With nothing under way it is known at once.
  CHECK(writer->Save(1, part.state()).status().code() == StatusCode::kAlreadyExists);
  CHECK(writer->WaitDurable().ok());
  CHECK(engine->WaitDurable().ok());
}

TEST_CASE("two writers on one run directory: the second is refused while the first lives") {
  TempDir dir;
  const auto engine = SmallEngine();
  auto first = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"});
  REQUIRE(first.ok());
  const auto second = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"});
  CHECK(second.status().code() == StatusCode::kFailedPrecondition);
  first.value().reset();
  CHECK(CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).ok());
}
