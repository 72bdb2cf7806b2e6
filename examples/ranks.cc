// Processes of one job save one checkpoint through a shared directory, each its rows of a matrix
// and some state of its own; another number of processes resumes from it.
//
//   ranks RUN_DIRECTORY 4     four processes train from the newest checkpoint, or from scratch
//   ranks RUN_DIRECTORY 3     three go on where they stopped
//   dsckpt inspect RUN_DIRECTORY/step-0000000004
//   dsckpt merge RUN_DIRECTORY/step-0000000004 -o whole.dsckpt

#include <dsckpt/dsckpt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRows = 100, kColumns = 8, kSteps = 4;

dsckpt::Status Train(const std::string& run, int rank, int ranks) {
  DSCKPT_ASSIGN_OR_RETURN(
      const auto group,
      dsckpt::JoinSharedDirectory({.path = run + "/.group", .rank = rank, .size = ranks}));
  DSCKPT_ASSIGN_OR_RETURN(const auto engine,
                          dsckpt::Engine::Create({.pool_bytes = 16 * dsckpt::kMiB}));
  DSCKPT_ASSIGN_OR_RETURN(
      const auto writer,
      dsckpt::CheckpointWriter::Create(
          *engine, {.run_directory = run, .coordinator = group, .retention = {.keep_last = 2}}));

  // This rank's rows of the weight, whatever the number of ranks.
  const int64_t shape[] = {kRows, kColumns};
  const auto box = dsckpt::SplitBox(shape, 0, rank, ranks);
  const int64_t rows = box[0].end - box[0].begin;
  std::vector<float> weight(static_cast<size_t>(rows * kColumns));
  const dsckpt::Piece piece{.logical_name = "weight", .logical_shape = shape, .box = box};
  int64_t step = 0;
  dsckpt::State state;
  state.AddTensor("weight", weight.data(), dsckpt::kF32, {rows, kColumns},
                  {.pieces = std::span(&piece, 1)});
  state.AddAttribute("step", &step);

  // What this rank has for itself: after n draws its generator is at its rank plus n times 1000.
  int64_t generator = rank;
  state.AddBytes("generator", &generator, sizeof generator);
  state.RankOwn("generator", static_cast<uint32_t>(rank));

  DSCKPT_ASSIGN_OR_RETURN(const auto directory, dsckpt::RunDirectory::Open(run));
  if (!directory.checkpoints().empty()) {
    DSCKPT_ASSIGN_OR_RETURN(const auto last, directory.Latest());
    // Where more ranks resume than saved, the new ones begin with a generator of their own.
    std::vector<std::string> without;
    DSCKPT_RETURN_IF_ERROR(
        last.Restore(state, static_cast<uint32_t>(rank), {.without_own = &without}));
    if (!without.empty()) generator = rank + 1000 * step;
    if (rank == 0) std::printf("resumed from step %lld\n", static_cast<long long>(step));
  }
  for (const int64_t until = step + kSteps; step < until;) {
    DSCKPT_RETURN_IF_ERROR(engine->Fence());
    for (float& w : weight) w += 1;  // The "update": after step n every element is n.
    generator += 1000;
    ++step;
    DSCKPT_RETURN_IF_ERROR(writer->Save(step, state).status());
  }
  DSCKPT_RETURN_IF_ERROR(writer->WaitDurable());
  for (const float w : weight) {
    if (w == static_cast<float>(step)) continue;
    return dsckpt::Status(dsckpt::StatusCode::kMismatch, "an element missed an update");
  }
  if (generator != rank + 1000 * step) {
    return dsckpt::Status(dsckpt::StatusCode::kMismatch, "the generator is another rank's");
  }
  if (rank == 0) {
    std::printf("%d ranks saved step %lld\n", ranks, static_cast<long long>(step));
  }
  return dsckpt::Status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ranks RUN_DIRECTORY RANKS\n");
    return 2;
  }
  const std::string run = argv[1];
  const int ranks = std::atoi(argv[2]);
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    const dsckpt::Status status = Train(run, rank, ranks);
    if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
    std::exit(status.ok() ? 0 : 1);
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed += status != 0;
  return failed == 0 ? 0 : 1;
}
