#include "dsckpt/verify.h"

#include <algorithm>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {

dsckpt::Result<Results> RunVerify(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  const ScratchFile file(options.dir, "verify");
  DSCKPT_ASSIGN_OR_RETURN(const Buffer source, Buffer::Allocate(SpanBytes(tensors), true));
  DSCKPT_RETURN_IF_ERROR(SaveFile(file.path(), StateOf(tensors, source.bytes()), {},
                                  {.pool_bytes = options.pool_bytes}));
  DSCKPT_ASSIGN_OR_RETURN(const Buffer ring, Buffer::Allocate(64 * kMiB, false));

  const PeakMemory peak;
  std::vector<double> seconds, read_limit, hash_limit;
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_RETURN_IF_ERROR(file.DropCache());
    {
      const Timer timer;
      DSCKPT_RETURN_IF_ERROR(BareRead(file.path(), ring.bytes()));
      read_limit.push_back(timer.seconds());
    }
    hash_limit.push_back(BareHash(source.bytes()));
    DSCKPT_RETURN_IF_ERROR(file.DropCache());
    const Timer timer;
    DSCKPT_ASSIGN_OR_RETURN(const VerifyReport report, Verify(file.path()));
    seconds.push_back(timer.seconds());
    if (!report.ok) return Status(StatusCode::kCorrupt, "the file just saved does not verify");
  }
  return Results{{"verify", PayloadBytes(tensors), tensors.size(), Median(seconds),
                  std::max(Median(read_limit), Median(hash_limit)), peak.extra_bytes()}};
}

}  // namespace dsckpt::bench
