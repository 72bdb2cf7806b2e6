#include <string>
#include <thread>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/coordinator.h"
#include "dsckpt/engine.h"
#include "dsckpt/state.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using job::Job;
using job::Local;

namespace {

const EngineOptions kSmallEngine{.pool_bytes = kMiB, .workers = 1, .io = IoBackend::kThreads};

/// What one rank of a trainer does: join, save two steps, leave.
Status RunRank(const Job& job, int rank, int ranks, const TempDir& dir) {
  DSCKPT_ASSIGN_OR_RETURN(const auto coordinator,
                          JoinSharedDirectory({.path = dir / "join", .rank = rank, .size = ranks}));
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(kSmallEngine));
  DSCKPT_ASSIGN_OR_RETURN(const auto writer,
                          CheckpointWriter::Create(
                              *engine, {.run_directory = dir / "run", .coordinator = coordinator}));
  std::vector<Local> locals = job.Of(rank, ranks);
  for (Local& local : locals) local.memory = local.expected;
  const auto provider = job::Provider(locals);
  for (const int64_t step : {10, 20}) {
    DSCKPT_ASSIGN_OR_RETURN(const CheckpointHandle save, writer->Save(step, *provider));
    DSCKPT_RETURN_IF_ERROR(save.WaitCaptured());
  }
  return writer->WaitDurable();
}

void WriteRun(const Job& job, int ranks, const TempDir& dir) {
  std::vector<Status> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back(
        [&, rank] { outcomes[static_cast<size_t>(rank)] = RunRank(job, rank, ranks, dir); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) {
    INFO(outcome.ToString());
    REQUIRE(outcome.ok());
  }
}

}  // namespace

TEST_CASE("a group's checkpoints, read by another number of ranks") {
  for (const auto& [writers, readers] :
       {std::pair{1, 4}, std::pair{2, 3}, std::pair{4, 1}, std::pair{5, 9}, std::pair{9, 2}}) {
    const Job job(static_cast<uint64_t>(500 + writers));
    CAPTURE(writers, readers);
    const TempDir dir;
    WriteRun(job, writers, dir);
    const auto run = RunDirectory::Open(dir / "run");
    REQUIRE(run.ok());
    CHECK(run->checkpoints().size() == 2);
    CHECK(run->ignored_entries().empty());
    CHECK(run->latest_name() == "step-0000000020");
    const auto checkpoint = run->Latest();
    INFO(checkpoint.status().ToString());
    REQUIRE(checkpoint.ok());
    CHECK(checkpoint->step() == 20);
    CHECK(checkpoint->ranks() == static_cast<uint32_t>(writers));
    CHECK(checkpoint->shard_count() == static_cast<uint32_t>(writers));
    for (int rank = 0; rank < readers; ++rank) {
      std::vector<Local> locals = job.Of(rank, readers);
      for (Local& local : locals) local.memory.assign(local.expected.size(), job::kPadding);
      std::erase_if(locals, [](const Local& local) {
        return local.name.starts_with("zero/") && local.pieces.empty();
      });
      const Status status =
          checkpoint->Restore(*job::Provider(locals), static_cast<uint32_t>(rank));
      INFO(status.ToString());
      REQUIRE(status.ok());
      for (const Local& local : locals) {
        CAPTURE(rank, local.name);
        CHECK((local.memory == local.expected));
      }
    }
  }
}

TEST_CASE("objects and attributes come from the rank's own shard, else from rank 0") {
  const TempDir dir;
  std::vector<std::thread> threads;
  std::vector<Status> outcomes(2);
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<size_t>(rank)] = [&]() -> Status {
        DSCKPT_ASSIGN_OR_RETURN(
            const auto coordinator,
            JoinSharedDirectory({.path = dir / "join", .rank = rank, .size = 2}));
        DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(kSmallEngine));
        DSCKPT_ASSIGN_OR_RETURN(const auto writer,
                                CheckpointWriter::Create(*engine, {.run_directory = dir / "run",
                                                                   .coordinator = coordinator}));
        int64_t rng = 100 + rank, config = 9, step = 7;
        State state;
        state.AddBytes("rng", &rng, sizeof rng);
        state.AddBytes("config", &config, sizeof config);
        state.AddAttribute("step", &step);
        DSCKPT_RETURN_IF_ERROR(writer->Save(7, state).status());
        return writer->WaitDurable();
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) {
    INFO(outcome.ToString());
    REQUIRE(outcome.ok());
  }
  const auto checkpoint = RunDirectory::Open(dir / "run")->Latest();
  REQUIRE(checkpoint.ok());
  for (const uint32_t rank : {0u, 1u, 2u}) {
    CAPTURE(rank);
    int64_t rng = 0, config = 0, step = 0;
    State state;
    state.AddBytes("rng", &rng, sizeof rng);
    state.AddBytes("config", &config, sizeof config);
    state.AddAttribute("step", &step);
    const Status restored = checkpoint->Restore(state, rank);
    if (rank < 2) {
      CHECK(restored.ToString() == "Ok");
      CHECK(rng == 100 + rank);
    } else {
      // Rank 2 wrote nothing. Rank 0's state of something that every rank has for itself, unmarked,
      // would be the wrong one without a word.
      CHECK(restored.code() == StatusCode::kNotFound);
      CHECK(restored.message().find("rank 2 saved nothing here, and 'rng' differs from rank to "
                                    "rank") != std::string::npos);
      CHECK((rng == 0 && config == 0 && step == 0));
      REQUIRE(checkpoint->Restore(state, rank, {.partial = true}).ToString() == "Ok");
      CHECK(rng == 0);
    }
    CHECK(config == 9);
    CHECK(step == 7);
  }
}

TEST_CASE("a merged checkpoint gives ranks their own objects, marked or not") {
  const TempDir dir;
  int64_t first = 100, second = 101, config = 9;
  State merged;
  merged.AddBytes("rng", &first, sizeof first);
  merged.AddBytes("ranks/1/rng", &second, sizeof second);
  merged.AddBytes("config", &config, sizeof config);
  REQUIRE(SaveFile(dir / "f", merged, {}, kSmallEngine).ToString() == "Ok");
  const auto checkpoint = Checkpoint::Open(dir / "f").value();
  for (const uint32_t rank : {0u, 1u, 2u}) {
    CAPTURE(rank);
    int64_t rng = 0, same = 0;
    State state;
    state.AddBytes("rng", &rng, sizeof rng);
    state.AddBytes("config", &same, sizeof same);
    const Status restored = checkpoint.Restore(state, rank);
    CHECK(restored.code() == (rank < 2 ? StatusCode::kOk : StatusCode::kNotFound));
    CHECK(rng == (rank < 2 ? 100 + rank : 0));
    CHECK(same == (rank < 2 ? 9 : 0));
  }
}
