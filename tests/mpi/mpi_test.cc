// The MPI coordinator, run by mpiexec with three ranks. Exit status 0: all ranks saw what they
// should.

#include "dsckpt/mpi.h"

#include <mpi.h>

#include <iostream>
#include <string>
#include <thread>

using namespace dsckpt;

namespace {

int failures = 0;

void Check(bool holds, const std::string& what) {
  if (holds) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::cerr << "rank " << rank << ": " << what << "\n";
  ++failures;
}

std::vector<std::byte> Bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Coordinator::Clock::time_point In(int milliseconds) {
  return Coordinator::Clock::now() + std::chrono::milliseconds(milliseconds);
}

void Exchange(Coordinator& group, const std::string& key, size_t bytes) {
  // Large values go another way inside MPI than small ones.
  const std::string mine(bytes, static_cast<char>('a' + group.rank()));
  const auto all = group.Gather("done/" + key, Bytes(mine), In(20'000));
  Check(all.ok(), "gather: " + all.status().ToString());
  if (group.rank() == 0 && all.ok()) {
    Check(all->size() == static_cast<size_t>(group.size()), "size of what was gathered");
    for (size_t rank = 0; rank < all->size(); ++rank) {
      Check((*all)[rank] == Bytes(std::string(bytes, static_cast<char>('a' + rank))), "value");
    }
  }
  const auto said =
      group.Broadcast("commit/" + key, Bytes(group.rank() == 0 ? "yes " + key : ""), In(20'000));
  Check(said.ok() && *said == Bytes("yes " + key), "broadcast: " + said.status().ToString());
}

/// Rank 2 comes late: a time-out that names it, and its values do not disturb what follows.
void Late(Coordinator& group) {
  if (group.rank() == 0) {
    const auto all = group.Gather("done/late", {}, In(100));
    Check(all.status().code() == StatusCode::kTimedOut, "time-out");
    Check(all.status().message().starts_with("rank 2 did not"), all.status().message());
    Check(group.Broadcast("commit/late", Bytes("no"), In(100)).ok(), "answer");
    return;
  }
  if (group.rank() == 1) Check(group.Gather("done/late", {}, In(100)).ok(), "rank 1");
  const auto said = group.Broadcast("commit/late", {}, In(20'000));
  Check(said.ok() && *said == Bytes("no"), "the answer to the late one");
  if (group.rank() == 2) Check(group.Gather("done/late", Bytes("x"), In(100)).ok(), "rank 2");
  const auto never = group.Broadcast("never", {}, In(50));
  Check(never.status().code() == StatusCode::kTimedOut, "an answer that never comes");
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  {
    const auto group = JoinMpi(MPI_COMM_WORLD);
    const auto other = JoinMpi(MPI_COMM_WORLD);
    Check(group.ok() && other.ok(), group.status().ToString());
    if (group.ok() && other.ok()) {
      Check(group.value()->size() == 3, "run me with three ranks");
      Check(group.value()->session() != other.value()->session(), "sessions differ");
      Exchange(**group, "small", 10);
      Exchange(**group, "large", 3'000'000);
      Late(**group);
      Exchange(**group, "after", 10);
      // Commits of another writer at the same time.
      std::thread thread([&] { Exchange(**other, "one", 100); });
      Exchange(**group, "two", 100);
      thread.join();
    }
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
