#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "bench/bench.h"
#include "bench/gpu.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {
namespace {

// A step of a model with 9 GB of state takes about this long.
constexpr double kStepSeconds = 0.2;

struct Loop {
  const Trainer& trainer;
  const GpuBuffer& buffer;
  const State& state;
  const std::vector<Placed>& tensors;
};

std::string StepPath(const ScratchFile& file, int step) {
  return file.path() + "." + std::to_string(step);
}

// Runs `steps` steps and saves after every `every` of them; 0: never. Returns seconds a step.
dsckpt::Result<double> RunSteps(const Loop& loop, Engine* engine, const std::string& path,
                                int steps, int every) {
  DSCKPT_RETURN_IF_ERROR(loop.trainer.Synchronize());
  const Timer timer;
  for (int step = 1; step <= steps; ++step) {
    DSCKPT_RETURN_IF_ERROR(loop.trainer.Compute(kStepSeconds));
    if (engine != nullptr) DSCKPT_RETURN_IF_ERROR(engine->FenceOnStream(loop.trainer.stream()));
    DSCKPT_RETURN_IF_ERROR(loop.trainer.Update(loop.buffer));
    if (every != 0 && step % every == 0) {
      DSCKPT_RETURN_IF_ERROR(engine->Save(path, loop.state).status());
    }
    // Loops that log their loss wait for the device each step.
    DSCKPT_RETURN_IF_ERROR(loop.trainer.Synchronize());
  }
  return timer.seconds() / steps;
}

// Whether the file holds exactly what the buffer holds after `step` updates.
dsckpt::Result<bool> Exact(const Loop& loop, const std::string& path, int step) {
  DSCKPT_RETURN_IF_ERROR(loop.buffer.Refill());
  for (int i = 0; i < step; ++i) DSCKPT_RETURN_IF_ERROR(loop.trainer.Update(loop.buffer));
  DSCKPT_RETURN_IF_ERROR(loop.trainer.Synchronize());
  DSCKPT_ASSIGN_OR_RETURN(const Buffer expected, Buffer::Allocate(loop.buffer.bytes(), false));
  DSCKPT_RETURN_IF_ERROR(Download(loop.buffer, expected.bytes().first(loop.buffer.bytes())));
  DSCKPT_ASSIGN_OR_RETURN(const Buffer found, Buffer::Allocate(loop.buffer.bytes(), false));
  DSCKPT_ASSIGN_OR_RETURN(const File file, File::Open(path));
  DSCKPT_RETURN_IF_ERROR(file.Load(LoadsOf(loop.tensors, found.bytes())));
  return std::all_of(loop.tensors.begin(), loop.tensors.end(), [&](const Placed& t) {
    return std::memcmp(expected.bytes().data() + t.offset, found.bytes().data() + t.offset,
                       t.bytes) == 0;
  });
}

std::string Explain(const Statistics& s, int saves) {
  const auto ms = [&](std::chrono::nanoseconds time) {
    return static_cast<double>(time.count()) / 1e6 / saves;
  };
  return fmt::format(
      "a save: fence {:.1f} ms, window stall {:.1f} ms, capture {:.1f} ms, durable "
      "{:.1f} ms; suggested pool {} MiB",
      ms(s.fence_blocked), ms(s.window_stall), ms(s.last_capture) * saves,
      ms(s.last_durable) * saves, s.suggested_pool_bytes / kMiB);
}

// Checkpoints as often as storage keeps up with, against none.
dsckpt::Result<Result> Periodic(const Loop& loop, const Options& options, const std::string& name,
                                uint64_t pool_bytes, uint64_t snapshot_bytes = 0) {
  const ScratchFile file(options.dir, name);
  DSCKPT_ASSIGN_OR_RETURN(const auto engine,
                          Engine::Create({.pool_bytes = pool_bytes,
                                          .register_pool_for = 0,
                                          .device_snapshot_bytes = snapshot_bytes}));
  DSCKPT_ASSIGN_OR_RETURN(const SaveHandle first, engine->Save(file.path(), loop.state));
  DSCKPT_RETURN_IF_ERROR(first.WaitDurable());
  const double flush =
      std::chrono::duration<double>(engine->statistics().suggested_interval()).count();
  const int every = static_cast<int>(std::ceil(flush * 1.1 / kStepSeconds));
  DSCKPT_ASSIGN_OR_RETURN(const double without, RunSteps(loop, nullptr, "", every, 0));
  const Statistics before = engine->statistics();
  constexpr int kSaves = 3;
  // The last save is followed by as many steps as the others.
  DSCKPT_ASSIGN_OR_RETURN(const double with, RunSteps(loop, engine.get(), file.path(),
                                                      (kSaves + 1) * every - 1, every));
  DSCKPT_RETURN_IF_ERROR(engine->WaitDurable());
  Statistics stats = engine->statistics();
  stats.fence_blocked -= before.fence_blocked;
  stats.window_stall -= before.window_stall;
  return Result{name,
                PayloadBytes(loop.tensors),
                loop.tensors.size(),
                with,
                without,
                0,
                fmt::format("every {} steps; ", every) + Explain(stats, kSaves)};
}

// A checkpoint a step through two windows: storage sets the pace, and every file is exact.
dsckpt::Result<Result> EveryStep(const Loop& loop, const Options& options, double* flush) {
  constexpr int kSteps = 3;
  const ScratchFile file(options.dir, "gpu-every");
  DSCKPT_RETURN_IF_ERROR(loop.buffer.Refill());
  DSCKPT_ASSIGN_OR_RETURN(
      const auto engine,
      Engine::Create({.pool_bytes = 32 * kMiB, .window_bytes = 16 * kMiB, .register_pool_for = 0}));
  {
    DSCKPT_ASSIGN_OR_RETURN(const SaveHandle save, engine->Save(file.path(), loop.state));
    DSCKPT_RETURN_IF_ERROR(save.WaitDurable());
    *flush = std::chrono::duration<double>(engine->statistics().last_durable).count();
  }
  file.Remove();
  const Timer timer;
  for (int step = 1; step <= kSteps; ++step) {
    DSCKPT_RETURN_IF_ERROR(engine->FenceOnStream(loop.trainer.stream()));
    DSCKPT_RETURN_IF_ERROR(loop.trainer.Update(loop.buffer));
    DSCKPT_RETURN_IF_ERROR(engine->Save(StepPath(file, step), loop.state).status());
  }
  DSCKPT_RETURN_IF_ERROR(engine->WaitDurable());
  const double seconds = timer.seconds() / kSteps;
  std::string note;
  for (int step = 1; step <= kSteps; ++step) {
    DSCKPT_ASSIGN_OR_RETURN(const bool exact, Exact(loop, StepPath(file, step), step));
    note += fmt::format("step {} {}; ", step, exact ? "exact" : "WRONG");
    std::remove(StepPath(file, step).c_str());
  }
  return Result{
      "gpu-train every", PayloadBytes(loop.tensors), loop.tensors.size(), seconds, *flush, 0, note};
}

}  // namespace

dsckpt::Result<Results> RunGpuTrain(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  DSCKPT_ASSIGN_OR_RETURN(const GpuBuffer buffer, GpuBuffer::Allocate(SpanBytes(tensors)));
  DSCKPT_ASSIGN_OR_RETURN(const Trainer trainer, Trainer::Create());
  const State state = StateOf(tensors, buffer, trainer.stream());
  const Loop loop{trainer, buffer, state, tensors};
  const uint64_t fits = options.bytes + options.bytes / 16 + 64 * kMiB;
  Results results;
  DSCKPT_ASSIGN_OR_RETURN(auto large, Periodic(loop, options, "gpu-train", fits));
  results.push_back(std::move(large));
  DSCKPT_ASSIGN_OR_RETURN(auto quarter, Periodic(loop, options, "gpu-train quarter", fits / 4));
  results.push_back(std::move(quarter));
  DSCKPT_ASSIGN_OR_RETURN(auto snapshot,
                          Periodic(loop, options, "gpu-train snapshot", fits / 4, fits));
  results.push_back(std::move(snapshot));
  double flush = 0;
  DSCKPT_ASSIGN_OR_RETURN(auto every, EveryStep(loop, options, &flush));
  results.push_back(std::move(every));
  return results;
}

}  // namespace dsckpt::bench
