#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"

namespace dsckpt::bench {

dsckpt::Result<Results> RunSave(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(SpanBytes(tensors), true));
  const State state = StateOf(tensors, buffer.bytes());
  const ScratchFile ours(options.dir, "save"), bare(options.dir, "bare");

  const PeakMemory peak;
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create({.pool_bytes = options.pool_bytes}));
  std::vector<double> seconds, limit;
  for (int i = 0; i < options.repeat; ++i) {
    {
      const Timer timer;
      DSCKPT_RETURN_IF_ERROR(BareWrite(bare.path(), buffer.bytes()));
      limit.push_back(timer.seconds());
    }
    bare.Remove();
    const Timer timer;
    DSCKPT_ASSIGN_OR_RETURN(const SaveHandle save, engine->Save(ours.path(), state));
    DSCKPT_RETURN_IF_ERROR(save.WaitDurable());
    seconds.push_back(timer.seconds());
    ours.Remove();
  }
  return Results{{"save", PayloadBytes(tensors), tensors.size(), Median(seconds), Median(limit),
                  peak.extra_bytes()}};
}

}  // namespace dsckpt::bench
