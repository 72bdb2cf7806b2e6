#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/file.h"

namespace dsckpt::bench {

dsckpt::Result<Results> RunOpen(const Options& options) {
  // Open does not depend on the size of the data, so that stays small: 8 bytes a tensor.
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer,
                          Buffer::Allocate(uint64_t{8} * options.tensors, true));
  std::vector<Placed> tensors = MixedTensors(0, options.tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = {tensors[i].name, kI64, 1, 8 * i, 8};
  }
  const ScratchFile file(options.dir, "open");
  DSCKPT_RETURN_IF_ERROR(SaveFile(file.path(), StateOf(tensors, buffer.bytes()), {},
                                  {.pool_bytes = options.pool_bytes}));
  DSCKPT_RETURN_IF_ERROR(File::Open(file.path()).status());  // warms the page cache

  const PeakMemory peak;
  std::vector<double> seconds;
  for (int i = 0; i < options.repeat; ++i) {
    const Timer timer;
    DSCKPT_ASSIGN_OR_RETURN(const File open, File::Open(file.path()));
    seconds.push_back(timer.seconds());
    if (open.tensor_count() != options.tensors) {
      return Status(StatusCode::kInternal, "tensors are missing");
    }
  }
  return Results{
      {"open", PayloadBytes(tensors), tensors.size(), Median(seconds), 0, peak.extra_bytes()}};
}

}  // namespace dsckpt::bench
