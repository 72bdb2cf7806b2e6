#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {
namespace {

// Above the size up to which host tensors are copied inside Save().
constexpr uint64_t kLazyBytes = 256 * kKiB + 64;

// Time for Save() to return; the save is called off, because nothing here is about storage.
dsckpt::Result<double> TimeReturn(Engine& engine, const std::string& path, const State& state) {
  const Timer timer;
  DSCKPT_ASSIGN_OR_RETURN(const SaveHandle save, engine.Save(path, state));
  const double seconds = timer.seconds();
  save.Cancel();
  const Status end = save.WaitDurable();
  if (!end.ok() && end.code() != StatusCode::kCancelled) return end;
  return seconds;
}

}  // namespace

dsckpt::Result<Results> RunReturn(const Options& options) {
  // Overlapping views of one buffer: as many distinct tensors as wanted in little memory.
  std::vector<Placed> tensors = MixedTensors(0, options.tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = {tensors[i].name, kF32, kLazyBytes / 4, 64 * i, kLazyBytes};
  }
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(SpanBytes(tensors), true));
  const State state = StateOf(tensors, buffer.bytes());
  const ScratchFile file(options.dir, "return");

  const PeakMemory peak;
  std::vector<double> first, again;
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create({.pool_bytes = options.pool_bytes}));
    DSCKPT_ASSIGN_OR_RETURN(const double cold, TimeReturn(*engine, file.path(), state));
    DSCKPT_ASSIGN_OR_RETURN(const double warm, TimeReturn(*engine, file.path(), state));
    first.push_back(cold);
    again.push_back(warm);
  }
  const uint64_t bytes = PayloadBytes(tensors), extra = peak.extra_bytes();
  return Results{{"return", bytes, tensors.size(), Median(first), 0, extra},
                 {"return-again", bytes, tensors.size(), Median(again), 0, extra}};
}

}  // namespace dsckpt::bench
