// Ranks of an MPI job save one checkpoint, each a slice of one tensor and some state of its own,
// and read back their slices.
//
//   mpirun -n 3 train_mpi RUN_DIRECTORY

#include <dsckpt/dsckpt.h>
#include <dsckpt/mpi.h>
#include <mpi.h>

#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRows = 100, kColumns = 8;

dsckpt::Status Train(const std::string& run) {
  DSCKPT_ASSIGN_OR_RETURN(const auto group, dsckpt::JoinMpi(MPI_COMM_WORLD));
  DSCKPT_ASSIGN_OR_RETURN(const auto engine,
                          dsckpt::Engine::Create({.pool_bytes = 16 * dsckpt::kMiB}));
  DSCKPT_ASSIGN_OR_RETURN(
      const auto writer,
      dsckpt::CheckpointWriter::Create(
          *engine, {.run_directory = run, .coordinator = group, .retention = {.keep_last = 2}}));

  // This rank's rows of the weight.
  const int64_t shape[] = {kRows, kColumns};
  const auto box = dsckpt::SplitBox(shape, 0, group->rank(), group->size());
  const int64_t rows = box[0].end - box[0].begin;
  std::vector<float> weight(static_cast<size_t>(rows * kColumns));
  std::iota(weight.begin(), weight.end(), static_cast<float>(box[0].begin * kColumns));
  const dsckpt::Piece piece{.logical_name = "weight", .logical_shape = shape, .box = box};
  int64_t step = 0;
  dsckpt::State state;
  state.AddTensor("weight", weight.data(), dsckpt::kF32, {rows, kColumns},
                  {.pieces = std::span(&piece, 1)});
  state.AddAttribute("step", &step);

  for (step = 1; step <= 3; ++step) {
    DSCKPT_RETURN_IF_ERROR(engine->Fence());
    for (float& w : weight) w += 1;
    DSCKPT_RETURN_IF_ERROR(writer->Save(step, state).status());
  }
  DSCKPT_RETURN_IF_ERROR(writer->WaitDurable());

  const auto expected = weight;
  weight.assign(weight.size(), 0);
  DSCKPT_ASSIGN_OR_RETURN(const auto last, dsckpt::Checkpoint::Open(run + "/step-0000000003"));
  DSCKPT_RETURN_IF_ERROR(last.Restore(state, static_cast<uint32_t>(group->rank())));
  if (weight != expected || step != 3) {
    return dsckpt::Status(dsckpt::StatusCode::kMismatch, "read back something else");
  }
  if (group->rank() == 0) {
    std::cout << group->size() << " ranks saved " << last.shard_count() << " shards\n";
  }
  return dsckpt::Status();
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  const dsckpt::Status status = Train(argc > 1 ? argv[1] : "run");
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
