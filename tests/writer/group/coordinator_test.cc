// The shared directory: joining, and values. Real processes where ranks must be alive at once.

#include <signal.h>

#include <filesystem>

#include "io/lock_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"

using namespace dsckpt;
namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

std::vector<std::byte> Bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Status Failed(const std::string& what) { return Status(StatusCode::kInternal, what); }

/// Gathers each rank's number under `key` and broadcasts their sum.
Status Exchange(Coordinator& group, const std::string& key) {
  const auto deadline = Coordinator::Clock::now() + seconds(20);
  DSCKPT_ASSIGN_OR_RETURN(
      const auto all, group.Gather("sum/" + key, Bytes(std::to_string(group.rank())), deadline));
  if ((group.rank() == 0) != (all.size() == static_cast<size_t>(group.size()))) {
    return Failed("gathered " + std::to_string(all.size()));
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != Bytes(std::to_string(rank))) return Failed("wrong value");
  }
  const auto value = group.rank() == 0 ? Bytes("answer " + key) : std::vector<std::byte>();
  DSCKPT_ASSIGN_OR_RETURN(const auto answer, group.Broadcast("say/" + key, value, deadline));
  return answer == Bytes("answer " + key) ? Status() : Failed("wrong answer");
}

void CheckAll(Ranks& ranks, StatusCode code) {
  for (const Ended& ended : ranks.WaitAll()) {
    INFO(ended.message);
    CHECK_FALSE(ended.killed);
    CHECK(ended.code == code);
  }
}

}  // namespace

TEST_CASE("a group joins, exchanges values and leaves few files behind") {
  TempDir dir;
  Ranks ranks(5, [&](int rank) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(
        const auto group,
        JoinSharedDirectory({.path = dir / "deep/down", .rank = rank, .size = 5}));
    for (int i = 0; i < 100; ++i) DSCKPT_RETURN_IF_ERROR(Exchange(*group, std::to_string(i)));
    return Status();
  });
  CheckAll(ranks, StatusCode::kOk);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir / "deep/down")) {
    files += entry.is_regular_file();
  }
  // 64 answers, the newest values, the handshake: not 500.
  CHECK(files < 100);
}

TEST_CASE("groups one after another on one path have sessions of their own") {
  TempDir dir;
  std::string before;
  for (int round = 0; round < 3; ++round) {
    const auto group = JoinSharedDirectory({.path = dir.path(), .rank = 0, .size = 1}).value();
    CHECK(group->session() != before);
    CHECK(group->session().find_first_not_of("0123456789abcdef") == std::string::npos);
    before = group->session();
    CHECK(Exchange(*group, "k").ok());
  }
  const auto alone = SingleRank();
  CHECK(alone->size() == 1);
  CHECK(alone->session() != SingleRank()->session());
  CHECK(Exchange(*alone, "k").ok());
}

TEST_CASE("what a dead group left, hellos and session included, does no harm") {
  TempDir dir;
  // Ranks 1 and 2 of a group whose rank 0 never comes; killed while they wait.
  {
    Ranks dead(3, [&](int rank) -> Status {
      if (rank == 0) return Status();
      return JoinSharedDirectory({.path = dir.path(), .rank = rank, .size = 3}).status();
    });
    CHECK(dead.Wait(0).code == StatusCode::kOk);
    const auto hellos = [&] {
      size_t count = 0;
      for (const auto& entry : fs::directory_iterator(dir.path())) {
        count += entry.path().filename().string().starts_with("hello-");
      }
      return count;
    };
    while (hellos() < 2) usleep(1000);
  }
  for (const int size : {3, 2}) {
    Ranks ranks(size, [&](int rank) -> Status {
      DSCKPT_ASSIGN_OR_RETURN(
          const auto group, JoinSharedDirectory({.path = dir.path(), .rank = rank, .size = size}));
      return Exchange(*group, "x");
    });
    CheckAll(ranks, StatusCode::kOk);
  }
}

TEST_CASE("a rank that died while joining is replaced by a new one of its number") {
  TempDir dir;
  const auto join = [&](int rank) {
    return JoinSharedDirectory(
        {.path = dir.path(), .rank = rank, .size = 3, .timeout = seconds(20)});
  };
  auto dead = std::make_unique<Ranks>(2, [&](int rank) -> Status {
    if (rank == 0) return Status();
    return join(1).status();
  });
  Ranks living(1, [&](int) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto group, join(0));
    return Exchange(*group, "x");
  });
  // Rank 0 clears the directory when it comes; rank 1 says hello again. Then it dies.
  const auto hello = [&] {
    for (const auto& entry : fs::directory_iterator(dir.path())) {
      if (entry.path().filename().string().ends_with("-1")) return true;
    }
    return false;
  };
  while (!fs::exists(dir / "lock") || !hello()) usleep(1000);
  dead.reset();
  Ranks others(3, [&](int rank) -> Status {
    if (rank == 0) return Status();
    DSCKPT_ASSIGN_OR_RETURN(const auto group, join(rank));
    return Exchange(*group, "x");
  });
  CheckAll(others, StatusCode::kOk);
  CheckAll(living, StatusCode::kOk);
}

TEST_CASE("two jobs on one path: with ids the one that lives goes on, the other is refused") {
  TempDir dir;
  Ranks ranks(4, [&](int process) -> Status {
    const int rank = process % 2;
    const bool first = process < 2;
    if (!first) {
      // The first job has begun, or is about to.
      while (!fs::exists(dir / "lock")) usleep(1000);
    }
    DSCKPT_ASSIGN_OR_RETURN(const auto group, JoinSharedDirectory({.path = dir.path(),
                                                                   .rank = rank,
                                                                   .size = 2,
                                                                   .job = first ? "a" : "b",
                                                                   .timeout = seconds(15)}));
    if (rank == 0) {
      // Alive until the other job has tried.
      while (!fs::exists(dir / "tried")) usleep(1000);
    }
    return Exchange(*group, "x");
  });
  for (const int process : {2, 3}) {
    const Ended ended = ranks.Wait(process);
    INFO(ended.message);
    CHECK(ended.code == StatusCode::kFailedPrecondition);
  }
  WriteWholeFile(dir / "tried", "");
  for (const int process : {0, 1}) {
    const Ended ended = ranks.Wait(process);
    INFO(ended.message);
    CHECK(ended.code == StatusCode::kOk);
  }
}

TEST_CASE("two jobs without ids that start on one path at once: errors, no hang, one group") {
  TempDir dir;
  Ranks ranks(6, [&](int process) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(
        const auto group,
        JoinSharedDirectory(
            {.path = dir.path(), .rank = process % 3, .size = 3, .timeout = seconds(4)}));
    const Status exchanged = Exchange(*group, "x");
    // The group lives until all have seen it: later the other job may have the path.
    while (group->rank() == 0 && !fs::exists(dir / "over")) usleep(1000);
    return exchanged;
  });
  int failed = 0;
  for (const int process : {1, 2, 4, 5, 0, 3}) {
    if (process == 0) WriteWholeFile(dir / "over", "");
    const Ended ended = ranks.Wait(process);
    INFO("process " << process << ": " << ended.message);
    CHECK_FALSE(ended.killed);
    CHECK((ended.code == StatusCode::kOk || ended.code == StatusCode::kFailedPrecondition ||
           ended.code == StatusCode::kTimedOut));
    failed += ended.code != StatusCode::kOk;
  }
  // At most one of each rank can be in a group.
  CHECK(failed >= 3);
}

TEST_CASE(
    "two processes that say to be the same rank: both and rank 0 are told, before any time-out") {
  TempDir dir;
  const auto join = [&](int rank) {
    return JoinSharedDirectory(
               {.path = dir.path(), .rank = rank, .size = 3, .timeout = std::chrono::minutes(10)})
        .status();
  };
  Ranks first(2, join);
  const auto hello = [&] {
    for (const auto& entry : fs::directory_iterator(dir.path())) {
      if (entry.path().filename().string().ends_with("-1")) return true;
    }
    return false;
  };
  while (!fs::exists(dir / "lock") || !hello()) usleep(1000);
  Ranks second(1, [&](int) { return join(1); });
  CheckAll(second, StatusCode::kFailedPrecondition);
  CheckAll(first, StatusCode::kFailedPrecondition);
}

TEST_CASE("a second live rank 0 is refused") {
  TempDir dir;
  const auto first = JoinSharedDirectory({.path = dir.path(), .rank = 0, .size = 1});
  REQUIRE(first.ok());
  const auto second = JoinSharedDirectory({.path = dir.path(), .rank = 0, .size = 1});
  CHECK(second.status().code() == StatusCode::kFailedPrecondition);
  CHECK(second.status().message().find("two jobs use") != std::string::npos);
}

TEST_CASE("joining ends at the time-out and names who is missing") {
  TempDir dir;
  const auto lead =
      JoinSharedDirectory({.path = dir.path(), .rank = 0, .size = 3, .timeout = milliseconds(50)});
  CHECK(lead.status().code() == StatusCode::kTimedOut);
  CHECK(lead.status().message().find("ranks 1, 2") != std::string::npos);
  const auto follow =
      JoinSharedDirectory({.path = dir.path(), .rank = 1, .size = 3, .timeout = milliseconds(50)});
  CHECK(follow.status().code() == StatusCode::kTimedOut);
  for (const auto& [rank, size] : {std::pair{-1, 2}, {2, 2}, {0, 0}}) {
    CHECK(JoinSharedDirectory({.path = dir.path(), .rank = rank, .size = size}).status().code() ==
          StatusCode::kInvalidArgument);
  }
  CHECK(JoinSharedDirectory({.path = ""}).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("ranks that were told of groups of different sizes") {
  TempDir dir;
  Ranks ranks(2, [&](int rank) -> Status {
    return JoinSharedDirectory({.path = dir.path(),
                                .rank = rank,
                                .size = rank == 0 ? 2 : 4,
                                .timeout = seconds(20)})
        .status();
  });
  CheckAll(ranks, StatusCode::kFailedPrecondition);
}

TEST_CASE("values that do not come end in a time-out that names the ranks") {
  TempDir dir;
  Ranks ranks(3, [&](int rank) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto group,
                            JoinSharedDirectory({.path = dir.path(), .rank = rank, .size = 3}));
    const auto deadline = Coordinator::Clock::now() + milliseconds(300);
    if (rank == 0) {
      const auto all = group->Gather("k", {}, deadline);
      const bool named = all.status().message().find("rank 2 did not report") != std::string::npos;
      return named ? all.status() : Failed(all.status().message());
    }
    if (rank == 1) DSCKPT_RETURN_IF_ERROR(group->Gather("k", {}, deadline).status());
    return group->Broadcast("never", {}, deadline).status();
  });
  CheckAll(ranks, StatusCode::kTimedOut);
}
