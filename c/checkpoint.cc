// Checkpoints and runs of dsckpt/c.h.

#include "dsckpt/checkpoint.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/abi.h"
#include "dsckpt/c.h"

struct dsckpt_run {
  dsckpt::RunDirectory run;
};

namespace dsckpt::c {
namespace {

Result<CheckpointOptions> ToCheckpointOptions(const dsckpt_checkpoint_options* options) {
  dsckpt_checkpoint_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_checkpoint_options"));
  CheckpointOptions out;
  out.file.map = in.no_map == 0;
  out.file.threads = in.threads;
  out.file.ignore_header = in.ignore_header != 0;
  if (in.retry_ns < 0) out.retry = std::chrono::milliseconds(0);
  if (in.retry_ns > 0) {
    out.retry = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(in.retry_ns));
  }
  return out;
}

dsckpt_checkpoint_info InfoOf(const Checkpoint& checkpoint) {
  dsckpt_checkpoint_info out = {};
  out.path = ToText(checkpoint.path());
  out.step = checkpoint.step();
  out.serial = checkpoint.serial();
  out.parent = checkpoint.parent();
  out.ranks = checkpoint.ranks();
  out.shard_count = checkpoint.shard_count();
  out.tensor_count = checkpoint.tensor_count();
  out.has_manifest = checkpoint.has_manifest();
  if (const auto content = checkpoint.ContentDigest()) {
    out.content_low = content->low;
    out.content_high = content->high;
    out.has_content = 1;
  }
  out.manifest_parts = checkpoint.manifest_parts();
  return out;
}

dsckpt_logical_tensor_info InfoOf(const LogicalTensorInfo& in) {
  dsckpt_logical_tensor_info out = {};
  out.name = ToText(in.name);
  out.shape = in.shape.data();
  out.rank = in.shape.size();
  out.bytes = in.bytes;
  out.dtype = static_cast<int32_t>(in.dtype.code);
  out.ordinal = in.ordinal;
  out.piece_count = in.piece_count;
  return out;
}

dsckpt_run_entry InfoOf(const RunEntry& in) {
  dsckpt_run_entry out = {};
  out.name = ToText(in.name);
  out.step = in.step.value_or(kUnknownStep);
  out.bytes = in.bytes;
  out.serial = in.serial;
  out.parent = in.parent;
  out.shard_count = in.shards;
  out.abandoned = in.abandoned;
  return out;
}

Status HandOut(Result<Checkpoint> opened, dsckpt_checkpoint** out) {
  DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
  DSCKPT_ASSIGN_OR_RETURN(auto checkpoint, std::move(opened));
  *out = new dsckpt_checkpoint{std::move(checkpoint)};
  return {};
}

/// Runs `body` with what is open, for calls that need no more than that it is.
template <typename Body>
int WithCheckpoint(const dsckpt_checkpoint* handle, dsckpt_error* error, Body&& body) noexcept {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(handle, "checkpoint"));
    return body(handle->checkpoint);
  });
}

template <typename Body>
int WithTensor(const dsckpt_checkpoint* handle, const char* name, dsckpt_error* error,
               Body&& body) noexcept {
  return WithCheckpoint(handle, error, [&](const Checkpoint& checkpoint) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(name, "name"));
    return body(checkpoint);
  });
}

template <typename Body>
int WithRun(const dsckpt_run* handle, dsckpt_error* error, Body&& body) noexcept {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(handle, "run"));
    return body(handle->run);
  });
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::Checkpoint;
using dsckpt::RunDirectory;
using dsckpt::Status;
using dsckpt::c::CheckIndex;
using dsckpt::c::CopyOut;
using dsckpt::c::Guard;
using dsckpt::c::HandOut;
using dsckpt::c::InfoOf;
using dsckpt::c::NotNull;
using dsckpt::c::Room;
using dsckpt::c::ToCheckpointOptions;
using dsckpt::c::WithCheckpoint;
using dsckpt::c::WithRun;
using dsckpt::c::WithTensor;

extern "C" {

int dsckpt_checkpoint_open(const char* path, const dsckpt_checkpoint_options* options,
                           dsckpt_checkpoint** out, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
    DSCKPT_ASSIGN_OR_RETURN(const auto open_options, ToCheckpointOptions(options));
    return HandOut(Checkpoint::Open(path, open_options), out);
  });
}

void dsckpt_checkpoint_destroy(dsckpt_checkpoint* checkpoint) { delete checkpoint; }

int dsckpt_checkpoint_get_info(const dsckpt_checkpoint* checkpoint, dsckpt_checkpoint_info* out,
                               dsckpt_error* error) {
  return WithCheckpoint(checkpoint, error, [&](const Checkpoint& open) {
    return CopyOut(InfoOf(open), out, "dsckpt_checkpoint_info");
  });
}

int dsckpt_checkpoint_tensor(const dsckpt_checkpoint* checkpoint, uint32_t index,
                             dsckpt_logical_tensor_info* out, dsckpt_error* error) {
  return WithCheckpoint(checkpoint, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(CheckIndex(index, open.tensor_count(), "tensor", "checkpoint"));
    return CopyOut(InfoOf(open.tensor(index)), out, "dsckpt_logical_tensor_info");
  });
}

int dsckpt_checkpoint_find_tensor(const dsckpt_checkpoint* checkpoint, const char* name,
                                  dsckpt_logical_tensor_info* out, dsckpt_error* error) {
  return WithTensor(checkpoint, name, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto info, open.FindTensor(name));
    return CopyOut(InfoOf(info), out, "dsckpt_logical_tensor_info");
  });
}

int dsckpt_checkpoint_tensor_statistics(const dsckpt_checkpoint* checkpoint, const char* name,
                                        dsckpt_tensor_statistics* out, dsckpt_error* error) {
  return WithTensor(checkpoint, name, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto info, open.FindTensor(name));
    DSCKPT_ASSIGN_OR_RETURN(const auto statistics, open.Statistics(info.ordinal));
    if (statistics) return dsckpt::c::CopyOut(*statistics, out);
    return Status(dsckpt::StatusCode::kNotFound,
                  "no file that holds tensor '" + std::string(name) +
                      "' whole has statistics of it: save it with `statistics`; packed dtypes and "
                      "tensors in parts have none")
        .WithPath(open.path());
  });
}

int dsckpt_checkpoint_shard_rank(const dsckpt_checkpoint* checkpoint, uint32_t shard,
                                 uint32_t* rank, dsckpt_error* error) {
  return WithCheckpoint(checkpoint, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(rank, "rank"));
    DSCKPT_RETURN_IF_ERROR(CheckIndex(shard, open.shard_count(), "shard", "checkpoint"));
    *rank = open.shard(shard).rank;
    return {};
  });
}

int dsckpt_checkpoint_open_shard(const dsckpt_checkpoint* checkpoint, uint32_t shard,
                                 dsckpt_file** out, dsckpt_error* error) {
  return WithCheckpoint(checkpoint, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_RETURN_IF_ERROR(CheckIndex(shard, open.shard_count(), "shard", "checkpoint"));
    DSCKPT_ASSIGN_OR_RETURN(auto file, open.OpenShard(shard));
    *out = new dsckpt_file{std::move(file)};
    return {};
  });
}

int dsckpt_checkpoint_read(const dsckpt_checkpoint* checkpoint, const char* name, void* out,
                           uint64_t bytes, dsckpt_error* error) {
  return WithTensor(checkpoint, name, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto room, Room(out, bytes));
    return open.Read({.name = name, .whole = true, .out = room});
  });
}

int dsckpt_checkpoint_read_box(const dsckpt_checkpoint* checkpoint, const char* name,
                               const int64_t* begin, const int64_t* end, size_t rank, void* out,
                               uint64_t bytes, dsckpt_error* error) {
  return WithTensor(checkpoint, name, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto room, Room(out, bytes));
    if (rank > 0) {
      DSCKPT_RETURN_IF_ERROR(NotNull(begin, "begin"));
      DSCKPT_RETURN_IF_ERROR(NotNull(end, "end"));
    }
    std::vector<dsckpt::Range> box;
    for (size_t i = 0; i < rank; ++i) box.push_back({begin[i], end[i]});
    return open.Read({.name = name, .box = box, .out = room});
  });
}

int dsckpt_checkpoint_restore(const dsckpt_checkpoint* checkpoint, const dsckpt_state* state,
                              uint32_t rank, const dsckpt_restore_options* options,
                              dsckpt_error* error) {
  return WithCheckpoint(checkpoint, error, [&](const Checkpoint& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(state, "state"));
    DSCKPT_ASSIGN_OR_RETURN(const auto restore_options, dsckpt::c::ToRestoreOptions(options));
    return open.Restore(*state, rank, restore_options);
  });
}

int dsckpt_run_open(const char* path, dsckpt_run** out, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(auto run, RunDirectory::Open(path));
    *out = new dsckpt_run{std::move(run)};
    return {};
  });
}

void dsckpt_run_destroy(dsckpt_run* run) { delete run; }

size_t dsckpt_run_checkpoint_count(const dsckpt_run* run) {
  return run == nullptr ? 0 : run->run.checkpoints().size();
}

int dsckpt_run_checkpoint(const dsckpt_run* run, size_t index, dsckpt_run_entry* out,
                          dsckpt_error* error) {
  return WithRun(run, error, [&](const RunDirectory& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(CheckIndex(index, open.checkpoints().size(), "checkpoint", "run"));
    return CopyOut(InfoOf(open.checkpoints()[index]), out, "dsckpt_run_entry");
  });
}

int dsckpt_run_open_latest(const dsckpt_run* run, const dsckpt_checkpoint_options* options,
                           dsckpt_checkpoint** out, dsckpt_error* error) {
  return WithRun(run, error, [&](const RunDirectory& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto open_options, ToCheckpointOptions(options));
    return HandOut(open.Latest(open_options), out);
  });
}

int dsckpt_run_open_step(const dsckpt_run* run, int64_t step,
                         const dsckpt_checkpoint_options* options, dsckpt_checkpoint** out,
                         dsckpt_error* error) {
  return WithRun(run, error, [&](const RunDirectory& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto open_options, ToCheckpointOptions(options));
    return HandOut(open.ByStep(step, open_options), out);
  });
}

}  // extern "C"
