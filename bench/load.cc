#include <sys/stat.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {

dsckpt::Result<Results> RunLoad(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  const ScratchFile file(options.dir, "load");
  {
    DSCKPT_ASSIGN_OR_RETURN(const Buffer source, Buffer::Allocate(SpanBytes(tensors), true));
    DSCKPT_RETURN_IF_ERROR(SaveFile(file.path(), StateOf(tensors, source.bytes()), {},
                                    {.pool_bytes = options.pool_bytes}));
  }
  struct stat info = {};
  stat(file.path().c_str(), &info);
  const uint64_t file_bytes = static_cast<uint64_t>(info.st_size);
  DSCKPT_ASSIGN_OR_RETURN(const Buffer out,
                          Buffer::Allocate(std::max(file_bytes, SpanBytes(tensors)), false));
  const auto loads = LoadsOf(tensors, out.bytes());

  const PeakMemory peak;
  std::vector<double> seconds, limit;
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_RETURN_IF_ERROR(file.DropCache());
    {
      const Timer timer;
      DSCKPT_RETURN_IF_ERROR(BareRead(file.path(), out.bytes()));
      limit.push_back(timer.seconds());
    }
    DSCKPT_RETURN_IF_ERROR(file.DropCache());
    const Timer timer;
    DSCKPT_ASSIGN_OR_RETURN(const File open, File::Open(file.path()));
    DSCKPT_RETURN_IF_ERROR(open.Load(loads));
    seconds.push_back(timer.seconds());
  }
  return Results{{"load", PayloadBytes(tensors), tensors.size(), Median(seconds), Median(limit),
                  peak.extra_bytes()}};
}

}  // namespace dsckpt::bench
