// Engine: admission, fences, statistics.

#include "dsckpt/engine.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/path.h"
#include "writer/engine/scheduler.h"

namespace dsckpt {

namespace {

Status CheckOptions(const EngineOptions& options) {
  const auto bad = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (options.window_bytes % kPageBytes != 0) {
    return bad("EngineOptions::window_bytes is " + std::to_string(options.window_bytes) +
               ": give a multiple of 4096, or 0");
  }
  if (options.pool_bytes < 2 * kPageBytes) {
    return bad("EngineOptions::pool_bytes is " + std::to_string(options.pool_bytes) +
               ": give at least 8192, two windows of one page");
  }
  if (options.max_in_flight < 1) return bad("EngineOptions::max_in_flight must be at least 1");
  if (options.workers < 0) return bad("EngineOptions::workers must not be negative");
  return Status();
}

io::IoQueueOptions::Backend QueueBackend(IoBackend backend) {
  switch (backend) {
    case IoBackend::kUring:
      return io::IoQueueOptions::Backend::kUring;
    case IoBackend::kThreads:
      return io::IoQueueOptions::Backend::kThreads;
    case IoBackend::kAuto:
      break;
  }
  return io::IoQueueOptions::Backend::kAuto;
}

uint64_t WindowBytes(const EngineOptions& options) {
  const auto part = [&](uint64_t windows) {
    return options.pool_bytes / windows / kPageBytes * kPageBytes;
  };
  if (options.window_bytes != 0) return std::min(options.window_bytes, part(2));
  // Below 256 KiB a window costs more in requests than it gains in overlap.
  return std::clamp(part(16), std::min(256 * kKiB, part(2)), 16 * kMiB);
}

Result<std::unique_ptr<EngineResources>> CreateResources(EngineOptions options) {
  DSCKPT_RETURN_IF_ERROR(CheckOptions(options));
  options.window_bytes = WindowBytes(options);
  auto resources = std::make_unique<EngineResources>();
  resources->options = std::move(options);
  DSCKPT_ASSIGN_OR_RETURN(resources->pool, io::WindowPool::Create(resources->options.pool_bytes,
                                                                  resources->options.window_bytes));
  const auto warn = [resources = resources.get()](Status status) {
    resources->Emit(Event::Kind::kFallback, status);
  };
  DSCKPT_ASSIGN_OR_RETURN(resources->queue,
                          io::IoQueue::Create({.backend = QueueBackend(resources->options.io),
                                               .depth = kWritesInFlight,
                                               .buffers = resources->pool->windows()},
                                              warn));
  resources->workers =
      std::make_unique<io::Workers>(io::WorkerCount(resources->options.workers), "dsckpt-copy");
  resources->devices = std::make_unique<DeviceStreams>(
      *resources->pool, resources->options.device_snapshot_bytes, warn);
  if (const int device = resources->options.register_pool_for; device != kHostMemory) {
    DSCKPT_RETURN_IF_ERROR(resources->devices->Open(device).status());
    resources->devices->RegisterPool(device);
  }
  return resources;
}

}  // namespace

struct DSCKPT_HIDDEN Engine::Impl {
  explicit Impl(std::unique_ptr<EngineResources> resources_in)
      : resources(std::move(resources_in)), scheduler(std::make_unique<Scheduler>(*resources)) {}

  bool InChild() const { return getpid() != process; }

  const pid_t process = getpid();
  std::unique_ptr<EngineResources> resources;
  std::unique_ptr<Scheduler> scheduler;
  Mutex save_mutex;  // Save() calls run one at a time: their order is that of the saves.
  std::shared_ptr<LaidOutState> cached DSCKPT_GUARDED_BY(save_mutex);
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  // A forked child has none of the threads and must not touch the pool that the parent's kernel
  // requests point into.
  if (impl_->InChild()) static_cast<void>(impl_.release());
}

Result<std::unique_ptr<Engine>> Engine::Create(EngineOptions options) {
  DSCKPT_ASSIGN_OR_RETURN(auto resources, CreateResources(std::move(options)));
  auto impl = std::make_unique<Impl>(std::move(resources));
  if (!impl->scheduler->running()) {
    return Status(StatusCode::kOutOfMemory, "cannot start the engine's threads");
  }
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Result<SaveHandle> Engine::Save(const std::string& path, const StateProvider& provider,
                                const SaveOptions& options) {
  if (impl_->InChild()) return InChildStatus();
  MutexLock lock(impl_->save_mutex);
  EngineResources& resources = *impl_->resources;
  const auto start = Clock::now();
  DSCKPT_ASSIGN_OR_RETURN(const std::string absolute, io::AbsolutePath(path));
  DSCKPT_ASSIGN_OR_RETURN(auto state, Describe(provider, options, impl_->cached.get()));
  if (impl_->cached && state->layout == impl_->cached->layout) ++resources.counters.layouts_reused;
  auto task = std::make_shared<SaveTask>(resources, absolute, options, state);
  DSCKPT_RETURN_IF_ERROR(task->MarkProducers());
  // Admission comes before at-save copies: a save that waits for its turn must not hold memory the
  // others need.
  if (!impl_->scheduler->Admit(task)) return SaveHandle(task);
  impl_->cached = std::move(state);
  uint64_t waited_ns = 0;
  task->MakeAtSaveCopies(&waited_ns);
  impl_->scheduler->Start(task);
  const auto wait_start = Clock::now();
  task->AwaitSaveMayReturn();
  resources.counters.at_save_stall_ns += waited_ns + NanosecondsSince(wait_start);
  resources.counters.save_blocked_ns += NanosecondsSince(start);
  return SaveHandle(std::move(task));
}

Status Engine::Fence(std::string_view prefix) {
  if (impl_->InChild()) return InChildStatus();
  return impl_->scheduler->Fence(prefix);
}

Status Engine::FenceOnStream(Stream stream, std::string_view prefix) {
  if (impl_->InChild()) return InChildStatus();
  return impl_->scheduler->FenceOnStream(stream, prefix);
}

Status Engine::WaitDurable() {
  if (impl_->InChild()) return InChildStatus();
  return impl_->scheduler->WaitDurable();
}

Statistics Engine::statistics() const {
  using std::chrono::nanoseconds;
  const EngineResources& resources = *impl_->resources;
  const auto& c = resources.counters;
  Statistics s;
  s.saves_started = c.saves_started;
  s.saves_durable = c.saves_durable;
  s.saves_failed = c.saves_failed;
  s.captured_bytes = c.captured_bytes;
  s.flushed_bytes = c.flushed_bytes;
  s.at_save_bytes = c.at_save_bytes;
  s.write_calls = resources.queue->requests();
  s.pool_bytes = static_cast<uint64_t>(resources.pool->count()) * resources.pool->window_bytes();
  s.window_bytes = resources.pool->window_bytes();
  s.layouts_reused = c.layouts_reused;
  s.save_blocked = nanoseconds(c.save_blocked_ns);
  s.fence_blocked = nanoseconds(c.fence_blocked_ns);
  s.window_stall = nanoseconds(c.window_stall_ns);
  s.at_save_stall = nanoseconds(c.at_save_stall_ns);
  s.copy_hash_busy = nanoseconds(c.copy_hash_ns);
  s.encode_busy = nanoseconds(c.encode_ns);
  s.write_busy = nanoseconds(resources.queue->busy_nanoseconds());
  s.last_capture = nanoseconds(c.last_capture_ns);
  s.last_durable = nanoseconds(c.last_durable_ns);
  s.suggested_pool_bytes = c.suggested_pool_bytes;
  return s;
}

Status SaveFile(const std::string& path, const StateProvider& provider, const SaveOptions& options,
                EngineOptions engine_options) {
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(std::move(engine_options)));
  DSCKPT_ASSIGN_OR_RETURN(const auto save, engine->Save(path, provider, options));
  return save.WaitDurable();
}

SaveHandle::SaveHandle() = default;
SaveHandle::~SaveHandle() = default;
SaveHandle::SaveHandle(const SaveHandle&) = default;
SaveHandle& SaveHandle::operator=(const SaveHandle&) = default;
SaveHandle::SaveHandle(std::shared_ptr<SaveTask> task) : task_(std::move(task)) {}

Status SaveHandle::WaitCaptured() const { return task_ ? task_->WaitCaptured() : Status(); }
Status SaveHandle::WaitDurable() const { return task_ ? task_->WaitDone() : Status(); }

void SaveHandle::Cancel() const {
  if (task_) task_->Cancel();
}

Progress SaveHandle::progress() const { return task_ ? task_->progress() : Progress(); }

}  // namespace dsckpt
