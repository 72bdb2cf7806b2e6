// Checkpoints of a group of dsckpt/c.h.

#include "dsckpt/checkpoint_writer.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "c/abi.h"
#include "dsckpt/c.h"
#include "dsckpt/coordinator.h"

struct dsckpt_checkpoint_writer {
  std::unique_ptr<dsckpt::CheckpointWriter> writer;
};

struct dsckpt_checkpoint_save {
  dsckpt::CheckpointHandle handle;
};

namespace dsckpt::c {
namespace {

std::chrono::milliseconds ToTimeout(int64_t nanoseconds, std::chrono::milliseconds normal) {
  if (nanoseconds == 0) return normal;
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(nanoseconds));
}

Result<std::shared_ptr<Coordinator>> Join(const dsckpt_checkpoint_writer_options& in) {
  if (in.shared_directory == nullptr) return std::shared_ptr<Coordinator>();
  SharedDirectoryOptions options;
  options.path = in.shared_directory;
  options.rank = in.rank;
  options.size = in.ranks;
  if (in.job != nullptr) options.job = in.job;
  options.timeout = ToTimeout(in.join_timeout_ns, options.timeout);
  return JoinSharedDirectory(options);
}

Status Create(dsckpt_engine* engine, const dsckpt_checkpoint_writer_options* options,
              dsckpt_checkpoint_writer** out) {
  DSCKPT_RETURN_IF_ERROR(NotNull(engine, "engine"));
  DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
  dsckpt_checkpoint_writer_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_checkpoint_writer_options"));
  DSCKPT_RETURN_IF_ERROR(NotNull(in.run_directory, "run_directory"));
  CheckpointWriterOptions writer_options;
  writer_options.run_directory = in.run_directory;
  writer_options.timeout = ToTimeout(in.timeout_ns, writer_options.timeout);
  writer_options.retention.keep_last = in.keep_last;
  writer_options.retention.keep_every = in.keep_every;
  writer_options.on_event = ToEventCallback(in.on_event, in.user);
  auto handle = std::make_unique<dsckpt_checkpoint_writer>();
  DSCKPT_ASSIGN_OR_RETURN(writer_options.coordinator, Join(in));
  DSCKPT_ASSIGN_OR_RETURN(handle->writer,
                          CheckpointWriter::Create(*engine->engine, std::move(writer_options)));
  *out = handle.release();
  return {};
}

Status Save(dsckpt_checkpoint_writer* writer, int64_t step, const dsckpt_state* state,
            const dsckpt_checkpoint_save_options* options, dsckpt_checkpoint_save** out) {
  DSCKPT_RETURN_IF_ERROR(NotNull(writer, "writer"));
  DSCKPT_RETURN_IF_ERROR(NotNull(state, "state"));
  dsckpt_checkpoint_save_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_checkpoint_save_options"));
  CheckpointSaveOptions save_options;
  if (in.name != nullptr) save_options.name = in.name;
  save_options.replace = in.replace != 0;
  DSCKPT_ASSIGN_OR_RETURN(save_options.file, ToSaveOptions(in.file));
  if (in.statistics != 0) save_options.file.statistics = true;
  // Allocated first: after the save has started, running out of memory could not undo it.
  std::unique_ptr<dsckpt_checkpoint_save> handle;
  if (out != nullptr) handle = std::make_unique<dsckpt_checkpoint_save>();
  DSCKPT_ASSIGN_OR_RETURN(const CheckpointHandle started,
                          writer->writer->Save(step, *state, save_options));
  if (out != nullptr) {
    handle->handle = started;
    *out = handle.release();
  }
  return {};
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::Status;
using dsckpt::c::Guard;
using dsckpt::c::NotNull;

extern "C" {

int dsckpt_checkpoint_writer_create(dsckpt_engine* engine,
                                    const dsckpt_checkpoint_writer_options* options,
                                    dsckpt_checkpoint_writer** out, dsckpt_error* error) {
  return Guard(error, [&] { return dsckpt::c::Create(engine, options, out); });
}

void dsckpt_checkpoint_writer_destroy(dsckpt_checkpoint_writer* writer) { delete writer; }

int dsckpt_checkpoint_writer_save(dsckpt_checkpoint_writer* writer, int64_t step,
                                  const dsckpt_state* state,
                                  const dsckpt_checkpoint_save_options* options,
                                  dsckpt_checkpoint_save** out, dsckpt_error* error) {
  return Guard(error, [&] { return dsckpt::c::Save(writer, step, state, options, out); });
}

int dsckpt_checkpoint_writer_wait_durable(dsckpt_checkpoint_writer* writer, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(writer, "writer"));
    return writer->writer->WaitDurable();
  });
}

void dsckpt_checkpoint_save_destroy(dsckpt_checkpoint_save* save) { delete save; }

int dsckpt_checkpoint_save_wait_captured(const dsckpt_checkpoint_save* save, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(save, "save"));
    return save->handle.WaitCaptured();
  });
}

int dsckpt_checkpoint_save_wait_durable(const dsckpt_checkpoint_save* save, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(save, "save"));
    return save->handle.WaitDurable();
  });
}

}  // extern "C"
