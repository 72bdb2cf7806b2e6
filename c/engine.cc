// Engines and saves of dsckpt/c.h.

#include "dsckpt/engine.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c/abi.h"
#include "dsckpt/c.h"

struct dsckpt_save {
  dsckpt::SaveHandle handle;
};

namespace dsckpt::c {
namespace {

static_assert(DSCKPT_BUSY_REPLACE_QUEUED == static_cast<int>(WhenBusy::kReplaceQueued));
static_assert(DSCKPT_IO_THREADS == static_cast<int>(IoBackend::kThreads));
static_assert(DSCKPT_DEVICE_OF_POINTER == kDeviceOfPointer);
static_assert(DSCKPT_CONTAINER_SAFETENSORS == static_cast<int>(Container::kSafetensors));
static_assert(DSCKPT_EVENT_DURABILITY == static_cast<int>(Event::Kind::kDurability));
static_assert(DSCKPT_EVENT_NOT_FINITE == static_cast<int>(Event::Kind::kNotFinite));

Result<EngineOptions> ToEngineOptions(const dsckpt_engine_options* options) {
  dsckpt_engine_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_engine_options"));
  EngineOptions out;
  if (in.pool_bytes != 0) out.pool_bytes = in.pool_bytes;
  if (in.window_bytes != 0) out.window_bytes = in.window_bytes;
  out.workers = in.workers;
  if (in.max_in_flight != 0) out.max_in_flight = in.max_in_flight;
  DSCKPT_RETURN_IF_ERROR(CheckConstant("when_busy", in.when_busy, DSCKPT_BUSY_REPLACE_QUEUED));
  out.when_busy = static_cast<WhenBusy>(in.when_busy);
  DSCKPT_RETURN_IF_ERROR(CheckConstant("io", in.io, DSCKPT_IO_THREADS));
  out.io = static_cast<IoBackend>(in.io);
  out.direct_io = in.buffered_io == 0;
  DSCKPT_RETURN_IF_ERROR(CheckConstant("register_pool_for", in.register_pool_for, INT32_MAX));
  if (in.register_pool_for > 0) out.register_pool_for = in.register_pool_for - 1;
  out.device_snapshot_bytes = in.device_snapshot_bytes;
  out.on_event = ToEventCallback(in.on_event, in.user);
  return out;
}

Status Save(dsckpt_engine* engine, const char* path, const dsckpt_state* state,
            const dsckpt_save_options* options, dsckpt_save** out) {
  DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
  DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
  DSCKPT_RETURN_IF_ERROR(NotNull(state, "state"));
  DSCKPT_ASSIGN_OR_RETURN(const SaveOptions save_options, ToSaveOptions(options));
  // Allocated first: after the save has started, running out of memory could not undo it.
  std::unique_ptr<dsckpt_save> handle;
  if (out != nullptr) handle = std::make_unique<dsckpt_save>();
  DSCKPT_ASSIGN_OR_RETURN(const SaveHandle started,
                          engine->engine->Save(path, *state, save_options));
  if (out != nullptr) {
    handle->handle = started;
    *out = handle.release();
  }
  return {};
}

dsckpt_statistics ToC(const Statistics& in) {
  dsckpt_statistics out = {};
  out.saves_started = in.saves_started;
  out.saves_durable = in.saves_durable;
  out.saves_failed = in.saves_failed;
  out.captured_bytes = in.captured_bytes;
  out.flushed_bytes = in.flushed_bytes;
  out.at_save_bytes = in.at_save_bytes;
  out.write_calls = in.write_calls;
  out.pool_bytes = in.pool_bytes;
  out.window_bytes = in.window_bytes;
  out.layouts_reused = in.layouts_reused;
  out.save_blocked_ns = in.save_blocked.count();
  out.fence_blocked_ns = in.fence_blocked.count();
  out.window_stall_ns = in.window_stall.count();
  out.at_save_stall_ns = in.at_save_stall.count();
  out.copy_hash_busy_ns = in.copy_hash_busy.count();
  out.encode_busy_ns = in.encode_busy.count();
  out.write_busy_ns = in.write_busy.count();
  out.last_capture_ns = in.last_capture.count();
  out.last_durable_ns = in.last_durable.count();
  out.suggested_pool_bytes = in.suggested_pool_bytes;
  out.suggested_interval_ns = in.suggested_interval().count();
  return out;
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::Status;
using dsckpt::c::Guard;
using dsckpt::c::NotNull;

extern "C" {

int dsckpt_device_support(dsckpt_error* error) {
  return Guard(error, [] { return dsckpt::DeviceSupport(); });
}

int dsckpt_engine_create(const dsckpt_engine_options* options, dsckpt_engine** out,
                         dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(auto engine_options, dsckpt::c::ToEngineOptions(options));
    auto handle = std::make_unique<dsckpt_engine>();
    DSCKPT_ASSIGN_OR_RETURN(handle->engine, dsckpt::Engine::Create(std::move(engine_options)));
    *out = handle.release();
    return {};
  });
}

void dsckpt_engine_destroy(dsckpt_engine* engine) { delete engine; }

int dsckpt_engine_save(dsckpt_engine* engine, const char* path, const dsckpt_state* state,
                       const dsckpt_save_options* options, dsckpt_save** out, dsckpt_error* error) {
  return Guard(error, [&] { return dsckpt::c::Save(engine, path, state, options, out); });
}

int dsckpt_engine_fence(dsckpt_engine* engine, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
    return engine->engine->Fence();
  });
}

int dsckpt_engine_fence_prefix(dsckpt_engine* engine, const char* prefix, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
    DSCKPT_RETURN_IF_ERROR(NotNull(prefix, "prefix"));
    return engine->engine->Fence(prefix);
  });
}

int dsckpt_engine_fence_on_stream(dsckpt_engine* engine, void* stream, const char* prefix,
                                  dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
    return engine->engine->FenceOnStream(stream, prefix == nullptr ? "" : prefix);
  });
}

int dsckpt_engine_wait_durable(dsckpt_engine* engine, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
    return engine->engine->WaitDurable();
  });
}

int dsckpt_engine_statistics(const dsckpt_engine* engine, dsckpt_statistics* out,
                             dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
    return dsckpt::c::CopyOut(dsckpt::c::ToC(engine->engine->statistics()), out,
                              "dsckpt_statistics");
  });
}

void dsckpt_save_destroy(dsckpt_save* save) { delete save; }

int dsckpt_save_wait_captured(const dsckpt_save* save, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(save, "save"));
    return save->handle.WaitCaptured();
  });
}

int dsckpt_save_wait_durable(const dsckpt_save* save, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(save, "save"));
    return save->handle.WaitDurable();
  });
}

void dsckpt_save_cancel(const dsckpt_save* save) {
  Guard(nullptr, [&]() -> Status {
    if (save != nullptr) save->handle.Cancel();
    return {};
  });
}

int dsckpt_save_progress(const dsckpt_save* save, dsckpt_progress* out, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(save, "save"));
    const dsckpt::Progress progress = save->handle.progress();
    dsckpt_progress result = {};
    result.total_bytes = progress.total_bytes;
    result.captured_bytes = progress.captured_bytes;
    result.flushed_bytes = progress.flushed_bytes;
    result.captured = progress.captured;
    result.durable = progress.durable;
    return dsckpt::c::CopyOut(result, out, "dsckpt_progress");
  });
}

int dsckpt_save_file(const char* path, const dsckpt_state* state,
                     const dsckpt_save_options* options, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
    DSCKPT_RETURN_IF_ERROR(NotNull(state, "state"));
    DSCKPT_ASSIGN_OR_RETURN(const auto save_options, dsckpt::c::ToSaveOptions(options));
    return dsckpt::SaveFile(path, *state, save_options);
  });
}

}  // extern "C"
