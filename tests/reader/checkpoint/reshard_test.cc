#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using job::Job;
using job::Local;

namespace {

/// The shards that `ranks` ranks write of `job`.
std::vector<std::string> WriteShards(const Job& job, int64_t ranks, const TempDir& dir) {
  std::vector<std::string> paths;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<Local> locals = job.Of(rank, ranks);
    for (Local& local : locals) local.memory = local.expected;
    paths.push_back(dir / ("s" + std::to_string(rank)));
    const Status status = SaveFile(paths.back(), *job::Provider(locals), {},
                                   {.pool_bytes = kMiB, .workers = 1, .io = IoBackend::kThreads});
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  return paths;
}

}  // namespace

TEST_CASE("what N ranks wrote M ranks read, whatever the split") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Job job(seed);
    const auto writers = static_cast<int64_t>(seed % 9 + 1);
    const auto readers = static_cast<int64_t>(seed / 9 % 9 + 1);
    CAPTURE(seed, writers, readers);
    const TempDir dir;
    const auto checkpoint = Checkpoint::OpenShards(WriteShards(job, writers, dir));
    INFO(checkpoint.status().ToString());
    REQUIRE(checkpoint.ok());
    for (int64_t rank = 0; rank < readers; ++rank) {
      CAPTURE(rank);
      std::vector<Local> locals = job.Of(rank, readers);
      for (Local& local : locals) local.memory.assign(local.expected.size(), job::kPadding);
      // A rank whose part of the flat buffer is padding alone asks for a tensor nobody wrote.
      std::erase_if(locals, [](const Local& local) {
        return local.name.starts_with("zero/") && local.pieces.empty();
      });
      const Status status = checkpoint->Restore(*job::Provider(locals));
      INFO(status.ToString());
      REQUIRE(status.ok());
      for (const Local& local : locals) {
        CAPTURE(local.name);
        CHECK((local.memory == local.expected));
      }
    }
  }
}

TEST_CASE("any box of any logical tensor") {
  std::mt19937_64 random(5);
  for (uint64_t seed = 100; seed < 130; ++seed) {
    const Job job(seed);
    const auto ranks = static_cast<int64_t>(seed % 9 + 1);
    const TempDir dir;
    const auto checkpoint = Checkpoint::OpenShards(WriteShards(job, ranks, dir));
    REQUIRE(checkpoint.ok());
    for (const job::Tensor& tensor : job.tensors) {
      CAPTURE(seed, ranks, tensor.name, tensor.split, tensor.shape);
      std::vector<Range> box;
      for (const int64_t size : tensor.shape) {
        const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(size + 1));
        const auto end =
            begin + static_cast<int64_t>(random() % static_cast<uint64_t>(size - begin + 1));
        box.push_back({begin, end});
      }
      const auto expected = job::Elements(tensor, box);
      std::vector<std::byte> out(expected.size());
      const Status status = checkpoint->Read({.name = tensor.name, .box = box, .out = out});
      INFO(status.ToString());
      REQUIRE(status.ok());
      CHECK((out == expected));
      std::vector<std::byte> whole(tensor.bytes.size());
      REQUIRE(checkpoint->Read({.name = tensor.name, .whole = true, .out = whole}).ok());
      CHECK((whole == tensor.bytes));
    }
  }
}
