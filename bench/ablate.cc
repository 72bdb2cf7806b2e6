#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <memory>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/gpu.h"
#include "bench/measure.h"
#include "bench/switches.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/limits.h"

// What each idea is worth: saves with one of them turned off beside saves with all of them.

namespace dsckpt::bench {
namespace {

// A sixteenth of the bytes is one object, made by a serializer about as fast as those of scripting
// languages.
constexpr uint64_t kObjectShare = 16;
constexpr uint64_t kBlockBytes = kMiB;

// The next block of a serialized object.
void Serialize(uint64_t& x, std::span<std::byte> out) {
  for (size_t i = 0; i + 8 <= out.size(); i += 8) {
    for (int round = 0; round < 8; ++round) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    std::memcpy(out.data() + i, &x, 8);
  }
}

// An object that an engine thread makes, behind the tensors.
ObjectSource Behind(uint64_t bytes) {
  ObjectSource source;
  source.write = [bytes](Sink& sink) -> Status {
    std::vector<std::byte> block(kBlockBytes);
    uint64_t x = 1;
    for (uint64_t done = 0; done < bytes; done += block.size()) {
      Serialize(x, block);
      DSCKPT_RETURN_IF_ERROR(sink.Write(block));
    }
    return Status();
  };
  return source;
}

/// One way to save. Its engine is made once: registration and first touch are not what is measured.
struct Way {
  std::string without;  // The idea that is off; empty: none.
  const State* state;
  std::unique_ptr<Engine> engine;
  std::function<void()> before = {};  // On the caller's thread.
  std::vector<double> blocked = {}, captured = {}, durable = {};
};

Status SaveOnce(Way& way, const std::string& path, const Trainer* trainer) {
  const Timer timer;
  if (way.before) way.before();
  DSCKPT_ASSIGN_OR_RETURN(const SaveHandle save, way.engine->Save(path, *way.state));
  if (trainer != nullptr) DSCKPT_RETURN_IF_ERROR(way.engine->FenceOnStream(trainer->stream()));
  way.blocked.push_back(timer.seconds());
  DSCKPT_RETURN_IF_ERROR(save.WaitCaptured());
  way.captured.push_back(timer.seconds());
  DSCKPT_RETURN_IF_ERROR(save.WaitDurable());
  way.durable.push_back(timer.seconds());
  return Status();
}

/// Saves all ways in turn, `repeat` times after one round that does not count. The first way has
/// all ideas; the others' rows have its times as limits.
dsckpt::Result<Results> Compare(const std::string& where, std::vector<Way>& ways,
                                const std::vector<Placed>& tensors, const Options& options,
                                const Trainer* trainer) {
  const ScratchFile file(options.dir, "ablate");
  for (int i = 0; i <= options.repeat; ++i) {
    for (Way& way : ways) {
      if (i == 1) way.blocked = way.captured = way.durable = {};
      DSCKPT_RETURN_IF_ERROR(SaveOnce(way, file.path(), trainer));
      file.Remove();
    }
  }
  Results rows;
  for (const Way& way : ways) {
    const std::string name = where + (way.without.empty() ? "all ideas" : "without " + way.without);
    const auto add = [&](const char* what, std::vector<double> Way::*samples) {
      const double limit = way.without.empty() ? 0 : Median(ways.front().*samples);
      rows.push_back({fmt::format("{}: {}", name, what), PayloadBytes(tensors), tensors.size(),
                      Median(way.*samples), limit, 0});
    };
    add("blocked", &Way::blocked);
    add("captured", &Way::captured);
    add("durable", &Way::durable);
  }
  return rows;
}

/// Adds a way with an engine of its own.
Status AddWay(std::vector<Way>& ways, std::string without, const State& state,
              const EngineOptions& options, std::function<void()> before = {}) {
  DSCKPT_ASSIGN_OR_RETURN(auto engine, Engine::Create(options));
  ways.push_back({std::move(without), &state, std::move(engine), std::move(before)});
  return Status();
}

// Ideas of the way to storage: the same wherever tensors lie.
Status AddStorageWays(std::vector<Way>& ways, const State& state, const EngineOptions& options) {
  EngineOptions threads = options, buffered = options;
  threads.io = IoBackend::kThreads;
  buffered.direct_io = false;
  DSCKPT_RETURN_IF_ERROR(AddWay(ways, "io_uring", state, threads));
  {
    const WithoutRegisteredBuffers off;
    DSCKPT_RETURN_IF_ERROR(AddWay(ways, "registered buffers", state, options));
  }
  return AddWay(ways, "O_DIRECT", state, buffered);
}

// Writes alone, without the library: 16 MiB each against one a tensor.
dsckpt::Result<Result> Coalescing(const std::vector<Placed>& tensors, const Buffer& buffer,
                                  const Options& options) {
  const ScratchFile file(options.dir, "ablate-bare");
  std::vector<double> together, each;
  const auto time = [&](std::vector<double>& samples, auto write) -> Status {
    const Timer timer;
    DSCKPT_RETURN_IF_ERROR(write());
    samples.push_back(timer.seconds());
    file.Remove();
    return Status();
  };
  std::vector<std::span<const std::byte>> pieces;
  for (const Placed& t : tensors) {
    if (t.bytes == 0) continue;
    const uint64_t begin = t.offset / kPageBytes * kPageBytes;
    const uint64_t end = (t.offset + t.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    pieces.push_back(buffer.bytes().subspan(begin, end - begin));
  }
  for (int i = 0; i < options.repeat; ++i) {
    DSCKPT_RETURN_IF_ERROR(time(together, [&] { return BareWrite(file.path(), buffer.bytes()); }));
    DSCKPT_RETURN_IF_ERROR(time(each, [&] { return BareWriteEach(file.path(), pieces); }));
  }
  return Result{"without windows: bare writes",
                PayloadBytes(tensors),
                tensors.size(),
                Median(each),
                Median(together),
                0};
}

dsckpt::Result<Results> AblateHost(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  DSCKPT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::Allocate(SpanBytes(tensors), true));
  const uint64_t object_bytes = options.bytes / kObjectShare / kBlockBytes * kBlockBytes;
  DSCKPT_ASSIGN_OR_RETURN(const Buffer object, Buffer::Allocate(object_bytes, false));

  State all = StateOf(tensors, buffer.bytes());
  all.AddObject("object", Behind(object_bytes));
  State at_save = StateOf(tensors, buffer.bytes(), Capture::kAtSave);
  at_save.AddObject("object", Behind(object_bytes));
  State objects_first = StateOf(tensors, buffer.bytes());
  objects_first.AddBytes("object", object.bytes().data(), object_bytes);

  const EngineOptions engine = {.pool_bytes = options.pool_bytes};
  std::vector<Way> ways;
  DSCKPT_RETURN_IF_ERROR(AddWay(ways, "", all, engine));
  DSCKPT_RETURN_IF_ERROR(AddWay(ways, "lazy capture", at_save, engine));
  DSCKPT_RETURN_IF_ERROR(AddStorageWays(ways, all, engine));
  DSCKPT_RETURN_IF_ERROR(AddWay(ways, "objects behind tensors", objects_first, engine, [&] {
    uint64_t x = 1;
    for (uint64_t done = 0; done < object_bytes; done += kBlockBytes) {
      Serialize(x, object.bytes().subspan(done, kBlockBytes));
    }
  }));
  DSCKPT_ASSIGN_OR_RETURN(Results rows, Compare("", ways, tensors, options, nullptr));
  DSCKPT_ASSIGN_OR_RETURN(auto coalescing, Coalescing(tensors, buffer, options));
  rows.push_back(std::move(coalescing));
  return rows;
}

// With pools that hold the state (twice, where all of it is captured at save). Each of the seven
// ways has its own.
dsckpt::Result<Results> AblateGpu(const Options& options) {
  const auto tensors = MixedTensors(options.bytes, options.tensors);
  DSCKPT_ASSIGN_OR_RETURN(const GpuBuffer buffer, GpuBuffer::Allocate(SpanBytes(tensors)));
  DSCKPT_ASSIGN_OR_RETURN(const Trainer trainer, Trainer::Create());
  const State all = StateOf(tensors, buffer, trainer.stream());
  const State at_save = StateOf(tensors, buffer, trainer.stream(), Capture::kAtSave);
  const EngineOptions engine = {.pool_bytes = options.bytes + options.bytes / 16 + 64 * kMiB,
                                .register_pool_for = 0};
  EngineOptions twice = engine;
  twice.pool_bytes *= 2;
  DSCKPT_ASSIGN_OR_RETURN(const LimitedDevices no_gather,
                          LimitedDevices::Create({.gather = false}));
  DSCKPT_ASSIGN_OR_RETURN(const LimitedDevices no_pinned,
                          LimitedDevices::Create({.pinned = false}));
  std::vector<Way> ways;
  DSCKPT_RETURN_IF_ERROR(AddWay(ways, "", all, engine));
  DSCKPT_RETURN_IF_ERROR(AddWay(ways, "lazy capture", at_save, twice));
  no_gather.Use();
  Status status = AddWay(ways, "gathering", all, engine);
  no_pinned.Use();
  if (status.ok()) status = AddWay(ways, "pinned pool", all, engine);
  LimitedDevices::Restore();
  DSCKPT_RETURN_IF_ERROR(std::move(status));
  DSCKPT_RETURN_IF_ERROR(AddStorageWays(ways, all, engine));
  return Compare("gpu ", ways, tensors, options, &trainer);
}

}  // namespace

dsckpt::Result<Results> RunAblate(const Options& options) {
  DSCKPT_ASSIGN_OR_RETURN(Results rows, AblateHost(options));
  if (!DeviceSupport().ok()) {
    fmt::print(stderr, "dsckpt_bench: no rows for GPUs: {}\n", DeviceSupport().ToString());
    return rows;
  }
  DSCKPT_ASSIGN_OR_RETURN(const Results gpu, AblateGpu(options));
  rows.insert(rows.end(), gpu.begin(), gpu.end());
  return rows;
}

}  // namespace dsckpt::bench
