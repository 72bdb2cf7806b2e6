#include <cstring>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/gpu.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/limits.h"

namespace dsckpt::bench {
namespace {

struct Samples {
  std::vector<double> save, fence, fence_later, capture, durable, bare_copy, bare_write;
};

// One save, its parts timed: Save() returning, a fence at once, and one when all copies are queued,
// as after a forward and backward pass.
Status Measure(Engine& engine, const std::string& path, const State& state, const Trainer& trainer,
               Samples& out) {
  const Timer timer;
  DSCKPT_ASSIGN_OR_RETURN(const SaveHandle save, engine.Save(path, state));
  out.save.push_back(timer.seconds());
  const Timer fence;
  DSCKPT_RETURN_IF_ERROR(engine.FenceOnStream(trainer.stream()));
  out.fence.push_back(fence.seconds());
  const Timer later;
  DSCKPT_RETURN_IF_ERROR(engine.FenceOnStream(trainer.stream()));
  out.fence_later.push_back(later.seconds());
  DSCKPT_RETURN_IF_ERROR(save.WaitCaptured());
  out.capture.push_back(timer.seconds());
  DSCKPT_RETURN_IF_ERROR(save.WaitDurable());
  out.durable.push_back(timer.seconds());
  return Status();
}

// 4 KiB tensors up to `small` of them, the rest of the bytes in large ones.
std::vector<Placed> ManySmall(uint32_t small, uint64_t large_bytes) {
  std::vector<Placed> tensors = MixedTensors(large_bytes, 40);
  uint64_t offset = SpanBytes(tensors);
  for (uint32_t i = 0; i < small; ++i) {
    // Like what an allocator with small granularity gives.
    offset = (offset + 64) / 64 * 64;
    tensors.push_back({"small." + std::to_string(i), kF32, 1024, offset, 4096});
    offset += 4096;
  }
  return tensors;
}

dsckpt::Result<Results> RunCase(const std::string& name, const std::vector<Placed>& tensors,
                                const Options& options, uint64_t pool_bytes,
                                uint64_t snapshot_bytes) {
  DSCKPT_ASSIGN_OR_RETURN(const GpuBuffer buffer, GpuBuffer::Allocate(SpanBytes(tensors)));
  DSCKPT_ASSIGN_OR_RETURN(const Trainer trainer, Trainer::Create());
  const State state = StateOf(tensors, buffer, trainer.stream());
  const ScratchFile ours(options.dir, name), bare(options.dir, name + "-bare");
  const uint64_t payload = PayloadBytes(tensors);

  const PeakMemory peak;
  DSCKPT_ASSIGN_OR_RETURN(const auto engine,
                          Engine::Create({.pool_bytes = pool_bytes,
                                          .register_pool_for = 0,
                                          .device_snapshot_bytes = snapshot_bytes}));
  DSCKPT_ASSIGN_OR_RETURN(const Buffer host, Buffer::Allocate(payload, true));
  Samples samples;
  for (int i = 0; i <= options.repeat; ++i) {
    Samples warm_up;
    DSCKPT_ASSIGN_OR_RETURN(const double copy, BarePinnedCopy(buffer, payload, Direction::kToHost));
    samples.bare_copy.push_back(copy);
    {
      const Timer timer;
      DSCKPT_RETURN_IF_ERROR(BareWrite(bare.path(), host.bytes()));
      samples.bare_write.push_back(timer.seconds());
    }
    bare.Remove();
    DSCKPT_RETURN_IF_ERROR(
        Measure(*engine, ours.path(), state, trainer, i == 0 ? warm_up : samples));
    ours.Remove();
  }
  const uint64_t count = tensors.size(), extra = peak.extra_bytes();
  const double copy = Median(samples.bare_copy), write = Median(samples.bare_write);
  return Results{{name + " return", payload, count, Median(samples.save), 0, extra},
                 {name + " fence at once", payload, count, Median(samples.fence), 0, extra},
                 {name + " fence", payload, count, Median(samples.fence_later), 0, extra},
                 {name + " capture", payload, count, Median(samples.capture), copy, extra},
                 {name + " durable", payload, count, Median(samples.durable), write, extra}};
}

}  // namespace

dsckpt::Result<Results> RunGpuSave(const Options& options) {
  Results all;
  const uint64_t fits = options.bytes + options.bytes / 16 + 64 * kMiB;
  const auto add = [&](const std::string& name, const std::vector<Placed>& tensors,
                       uint64_t pool_bytes, uint64_t snapshot_bytes = 0) -> Status {
    if (!options.only.empty() && options.only != name) return Status();
    DSCKPT_ASSIGN_OR_RETURN(const Results results,
                            RunCase(name, tensors, options, pool_bytes, snapshot_bytes));
    all.insert(all.end(), results.begin(), results.end());
    return Status();
  };
  const auto mixed = MixedTensors(options.bytes, options.tensors);
  DSCKPT_RETURN_IF_ERROR(add("gpu", mixed, fits));
  DSCKPT_RETURN_IF_ERROR(add("gpu-quarter", mixed, fits / 4));
  // The same, with room for the state on the GPU.
  DSCKPT_RETURN_IF_ERROR(add("gpu-snapshot", mixed, fits / 4, fits));
  DSCKPT_RETURN_IF_ERROR(add("gpu-small", ManySmall(20'000, 2 * kGiB), 2 * kGiB + 256 * kMiB));
  return all;
}

dsckpt::Result<Results> RunGpuLoad(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  DSCKPT_ASSIGN_OR_RETURN(const GpuBuffer buffer, GpuBuffer::Allocate(SpanBytes(tensors)));
  const ScratchFile file(options.dir, "gpu-load");
  DSCKPT_RETURN_IF_ERROR(
      SaveFile(file.path(), StateOf(tensors, buffer, nullptr), {}, {.pool_bytes = kGiB}));
  const auto loads = LoadsOf(tensors, buffer);
  const uint64_t payload = PayloadBytes(tensors);
  DSCKPT_ASSIGN_OR_RETURN(const Buffer room, Buffer::Allocate(64 * kMiB, false));

  const PeakMemory peak;
  const auto load = [&](std::vector<double>& seconds) {
    const Timer timer;
    DSCKPT_ASSIGN_OR_RETURN(const File open, File::Open(file.path()));
    DSCKPT_RETURN_IF_ERROR(open.Load(loads));
    seconds.push_back(timer.seconds());
    return Status();
  };
  const auto read_all = [&]() -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const File open, File::Open(file.path()));
    DSCKPT_ASSIGN_OR_RETURN(const Buffer all, Buffer::Allocate(SpanBytes(tensors), false));
    for (int pass = 0; pass < 2; ++pass) {
      // Views touch the mapped pages, which brings them into the page cache.
      for (const Placed& t : tensors) {
        DSCKPT_ASSIGN_OR_RETURN(const Tensor view, open.View(t.name));
        std::memcpy(all.bytes().data(), view.bytes().data(), view.bytes().size());
      }
    }
    return Status();
  };
  std::vector<double> cold, cold_limit, warm, warm_limit;
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_RETURN_IF_ERROR(file.DropCache());
    {
      const Timer timer;
      DSCKPT_RETURN_IF_ERROR(BareRead(file.path(), room.bytes()));
      cold_limit.push_back(timer.seconds());
    }
    DSCKPT_RETURN_IF_ERROR(file.DropCache());
    DSCKPT_RETURN_IF_ERROR(load(cold));
  }
  DSCKPT_RETURN_IF_ERROR(read_all());
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const double copy,
                            BarePinnedCopy(buffer, payload, Direction::kToDevice));
    warm_limit.push_back(copy);
    DSCKPT_RETURN_IF_ERROR(load(warm));
  }
  const uint64_t extra = peak.extra_bytes();
  return Results{
      {"gpu-load cold", payload, tensors.size(), Median(cold), Median(cold_limit), extra},
      {"gpu-load cached", payload, tensors.size(), Median(warm), Median(warm_limit), extra}};
}

}  // namespace dsckpt::bench
