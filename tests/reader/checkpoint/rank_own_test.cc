// What belongs to a rank: saved by some number of ranks, restored by others.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "dsckpt/state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

using Strings = std::vector<std::string>;

/// A rank's state: weights that all share, and a random state and a loader's place of its own.
struct Rank {
  std::array<float, 3> weights{};
  std::array<uint8_t, 5> torch{};
  int64_t python = 0, place = 0, shared = 0;
  State state;

  /// `owner`: as which rank it is described; -1: as nobody's own.
  explicit Rank(int owner) {
    state.AddTensor("model/w", std::span<float>(weights));
    state.AddTensor("rng/torch", std::span<uint8_t>(torch));
    state.AddBytes("rng/python", &python, sizeof python);
    state.AddBytes("loader", &place, sizeof place);
    state.AddBytes("config", &shared, sizeof shared);
    if (owner < 0) return;
    state.RankOwn("rng", static_cast<uint32_t>(owner));
    state.RankOwn("loader", static_cast<uint32_t>(owner));
  }
  void Fill(int rank) {
    weights = {1, 2, 3};
    torch.fill(static_cast<uint8_t>(10 + rank));
    python = 100 + rank;
    place = 1000 + rank;
    shared = 9;
  }
  void CheckOwn(int rank) const {
    std::array<uint8_t, 5> expected{};
    expected.fill(static_cast<uint8_t>(10 + rank));
    CHECK(torch == expected);
    CHECK(python == 100 + rank);
    CHECK(place == 1000 + rank);
  }
  void CheckShared() const {
    CHECK(weights == std::array<float, 3>{1, 2, 3});
    CHECK(shared == 9);
  }
};

Checkpoint SavedBy(const TempDir& dir, int ranks) {
  Strings paths;
  for (int i = 0; i < ranks; ++i) {
    Rank rank(i);
    rank.Fill(i);
    paths.push_back(dir / std::to_string(i));
    REQUIRE(SaveFile(paths.back(), rank.state, {}, {.pool_bytes = kMiB}).ToString() == "Ok");
  }
  return Checkpoint::OpenShards(paths).value();
}

}  // namespace

TEST_CASE("rank own: each rank gets its own, what is shared from anybody") {
  const TempDir dir;
  const Checkpoint checkpoint = SavedBy(dir, 3);
  CHECK(checkpoint.FindTensor("ranks/2/rng/torch")->piece_count == 1);
  CHECK(checkpoint.FindTensor("model/w")->piece_count == 3);
  CHECK_FALSE(checkpoint.FindTensor("rng/torch").ok());
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    CHECK(checkpoint.CheckCoverage(i).ok());
    CHECK(checkpoint.CompareCopies(i).ok());
  }
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    for (const int owner : {i, -1}) {  // A state need not say what the checkpoint says.
      Rank rank(owner);
      Strings without{"unset"};
      REQUIRE(checkpoint.Restore(rank.state, static_cast<uint32_t>(i), {.without_own = &without})
                  .ToString() == "Ok");
      CHECK(without.empty());
      rank.CheckOwn(i);
      rank.CheckShared();
    }
  }
}

TEST_CASE("rank own: a rank without any is told, and never gets another's") {
  const TempDir dir;
  const Checkpoint checkpoint = SavedBy(dir, 2);
  Rank rank(2);
  rank.Fill(50);
  rank.weights = {};
  const Status status = checkpoint.Restore(rank.state, 2);
  CHECK(status.code() == StatusCode::kNotFound);
  INFO(status.message());
  CHECK(status.message().find("rank 2 saved nothing of its own here: 'loader', 'rng'") !=
        std::string::npos);
  CHECK(status.message().find("ranks 0 to 1 have 'loader'") != std::string::npos);
  CHECK(status.message().find("RestoreOptions::without_own") != std::string::npos);
  rank.CheckOwn(50);
  CHECK(rank.weights == std::array<float, 3>{});

  Strings without;
  REQUIRE(checkpoint.Restore(rank.state, 2, {.without_own = &without}).ToString() == "Ok");
  CHECK(without == Strings{"loader", "rng"});
  rank.CheckOwn(50);
  rank.CheckShared();

  SECTION("nor where the state does not say that it is a rank's own") {
    Rank plain(-1);
    const Status missing = checkpoint.Restore(plain.state, 2);
    CHECK(missing.code() == StatusCode::kMismatch);
    CHECK(missing.message().find("'rng/torch', 'rng/python', 'loader'") != std::string::npos);
    plain.Fill(60);
    REQUIRE(checkpoint.Restore(plain.state, 2, {.partial = true}).ok());
    plain.CheckOwn(60);
  }
  SECTION("another's is there for who asks for that rank") {
    Rank first(0);
    REQUIRE(checkpoint.Restore(first.state, 0).ok());
    first.CheckOwn(0);
    const Status crossed = checkpoint.Restore(first.state, 1);
    CHECK(crossed.code() == StatusCode::kInvalidArgument);
    CHECK(crossed.message().find("rank 0's own, but rank 1 is restored") != std::string::npos);
  }
}

TEST_CASE("rank own: a subtree that is there in part does not fit") {
  const TempDir dir;
  const Checkpoint checkpoint = SavedBy(dir, 1);
  Rank rank(0);
  int64_t extra = 5;
  rank.state.AddBytes("rng/numpy", &extra, sizeof extra);
  const Status status = checkpoint.Restore(rank.state, 0);
  CHECK(status.code() == StatusCode::kMismatch);
  CHECK(status.message().find("not in the checkpoint: 'rng/numpy'") != std::string::npos);
  REQUIRE(checkpoint.Restore(rank.state, 0, {.partial = true}).ok());
  rank.CheckOwn(0);
  CHECK(extra == 5);
}

TEST_CASE("rank own: what no rank declared is nobody's") {
  const TempDir dir;
  Rank saved(-1);
  saved.Fill(0);
  REQUIRE(SaveFile(dir / "f", saved.state).ok());
  const Checkpoint checkpoint = Checkpoint::Open(dir / "f").value();
  Rank rank(0);
  const Status status = checkpoint.Restore(rank.state, 0);
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message().find("no rank has 'loader'") != std::string::npos);
}
