// dsckpt/c_trajectory.h.

#include "dsckpt/trajectory.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/abi.h"
#include "dsckpt/c_trajectory.h"
#include "dsckpt/trajectory_events.h"

struct dsckpt_trajectory {
  dsckpt::Trajectory trajectory;
};

namespace dsckpt::c {
namespace {

static_assert(DSCKPT_STEP_NAME == static_cast<int>(StepSource::kName));
static_assert(DSCKPT_TRAJECTORY_JUMP == static_cast<int>(TrajectoryEventKind::kJump));
static_assert(DSCKPT_TRAJECTORY_RESHAPED == static_cast<int>(TrajectoryEventKind::kReshaped));
static_assert(DSCKPT_TRAJECTORY_COARSE == static_cast<int>(TrajectoryEventKind::kCoarse));
static_assert(DSCKPT_TRAJECTORY_MISSING_STEP ==
              static_cast<int>(TrajectoryEventKind::kMissingStep));

Result<Trajectory> OpenTrajectory(const char* const* paths, size_t path_count,
                                  const dsckpt_trajectory_options* options) {
  dsckpt_trajectory_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_trajectory_options"));
  DSCKPT_ASSIGN_OR_RETURN(const auto operands, ToTexts(paths, path_count, "paths"));
  TrajectoryOptions out;
  if (in.step_from != nullptr) out.step_from = in.step_from;
  if (in.max_open_files != 0) out.max_open_files = in.max_open_files;
  out.threads = in.threads;
  if (in.steps == nullptr) return Trajectory::Open(operands, out);
  return Trajectory::Open(operands, std::span(in.steps, path_count), out);
}

dsckpt_trajectory_checkpoint_info CheckpointInfoOf(const Trajectory& run, uint32_t t) {
  dsckpt_trajectory_checkpoint_info out = {};
  out.path = ToText(run.path(t));
  out.operand = ToText(run.operand(t));
  out.step = run.step(t).value_or(0);
  out.has_step = run.step(t).has_value();
  out.step_source = static_cast<int32_t>(run.step_source(t));
  if (const auto tree = run.TreeDigest(t)) {
    out.tree_low = tree->low;
    out.tree_high = tree->high;
    out.has_tree = 1;
  }
  return out;
}

dsckpt_trajectory_tensor_info TensorInfoOf(const Trajectory& run, uint32_t i) {
  const TrajectoryTensor in = run.tensor(i);
  dsckpt_trajectory_tensor_info out = {};
  out.name = ToText(in.name);
  out.shape = in.shape.data();
  out.rank = in.shape.size();
  out.first = in.first;
  out.last = in.last;
  out.checkpoints = in.checkpoints;
  out.forms = in.forms;
  out.dtype = static_cast<int32_t>(in.dtype.code);
  return out;
}

dsckpt_trajectory_form FormOf(const Trajectory& run, uint32_t t, uint32_t i,
                              const TrajectoryForm& in) {
  dsckpt_trajectory_form out = {};
  out.shape = in.shape.data();
  out.rank = in.shape.size();
  out.bytes = in.bytes;
  out.dtype = static_cast<int32_t>(in.dtype.code);
  if (const auto digest = run.Digest(t, i)) {
    out.digest_low = digest->low;
    out.digest_high = digest->high;
    out.has_digest = 1;
  }
  if (const auto content = run.Content(t, i)) {
    out.content_low = content->low;
    out.content_high = content->high;
    out.has_content = 1;
  }
  return out;
}

dsckpt_trajectory_event EventOf(const TrajectoryEvent& in) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto position = [](const std::optional<uint32_t>& at) {
    return at ? static_cast<int64_t>(*at) : -1;
  };
  dsckpt_trajectory_event out = {};
  out.kind = static_cast<int32_t>(in.kind);
  out.checkpoint = in.checkpoint;
  out.other = position(in.other);
  out.tensor = position(in.tensor);
  out.step = in.step.value_or(0);
  out.value = in.value.value_or(kNone);
  out.threshold = in.threshold.value_or(kNone);
  out.has_step = in.step.has_value();
  return out;
}

template <typename Body>
int WithTrajectory(const dsckpt_trajectory* handle, dsckpt_error* error, Body&& body) noexcept {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(handle, "trajectory"));
    return body(handle->trajectory);
  });
}

template <typename Body>
int WithMember(const dsckpt_trajectory* handle, uint32_t checkpoint, dsckpt_error* error,
               Body&& body) noexcept {
  return WithTrajectory(handle, error, [&](const Trajectory& run) -> Status {
    DSCKPT_RETURN_IF_ERROR(CheckIndex(checkpoint, run.size(), "checkpoint", "trajectory"));
    return body(run);
  });
}

/// Runs `body` with a tensor in a checkpoint that has it, and its form there.
template <typename Body>
int WithForm(const dsckpt_trajectory* handle, uint32_t checkpoint, uint32_t tensor,
             dsckpt_error* error, Body&& body) noexcept {
  return WithMember(handle, checkpoint, error, [&](const Trajectory& run) -> Status {
    DSCKPT_RETURN_IF_ERROR(CheckIndex(tensor, run.tensor_count(), "tensor", "trajectory"));
    const auto form = run.Form(checkpoint, tensor);
    if (form) return body(run, *form);
    return Status(StatusCode::kNotFound, run.path(checkpoint) + " has no tensor '" +
                                             std::string(run.tensor(tensor).name) + "'")
        .WithPath(run.path(checkpoint));
  });
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::Status;
using dsckpt::StatusCode;
using dsckpt::Trajectory;
using dsckpt::TrajectoryForm;
using dsckpt::c::CheckIndex;
using dsckpt::c::Guard;
using dsckpt::c::NotNull;
using dsckpt::c::ToText;
using dsckpt::c::WithForm;
using dsckpt::c::WithMember;
using dsckpt::c::WithTrajectory;

extern "C" {

int dsckpt_trajectory_open(const char* const* paths, size_t path_count,
                           const dsckpt_trajectory_options* options, dsckpt_trajectory** out,
                           dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(auto run, dsckpt::c::OpenTrajectory(paths, path_count, options));
    *out = new dsckpt_trajectory{std::move(run)};
    return {};
  });
}

void dsckpt_trajectory_destroy(dsckpt_trajectory* trajectory) { delete trajectory; }

uint32_t dsckpt_trajectory_checkpoint_count(const dsckpt_trajectory* trajectory) {
  return trajectory == nullptr ? 0 : trajectory->trajectory.size();
}

uint32_t dsckpt_trajectory_tensor_count(const dsckpt_trajectory* trajectory) {
  return trajectory == nullptr ? 0 : trajectory->trajectory.tensor_count();
}

size_t dsckpt_trajectory_skipped_count(const dsckpt_trajectory* trajectory) {
  return trajectory == nullptr ? 0 : trajectory->trajectory.skipped().size();
}

int dsckpt_trajectory_checkpoint(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                                 dsckpt_trajectory_checkpoint_info* out, dsckpt_error* error) {
  return WithMember(trajectory, checkpoint, error, [&](const Trajectory& run) {
    return dsckpt::c::CopyOut(dsckpt::c::CheckpointInfoOf(run, checkpoint), out,
                              "dsckpt_trajectory_checkpoint_info");
  });
}

int dsckpt_trajectory_skipped(const dsckpt_trajectory* trajectory, size_t index, dsckpt_text* path,
                              dsckpt_text* reason, dsckpt_error* error) {
  return WithTrajectory(trajectory, error, [&](const Trajectory& run) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
    DSCKPT_RETURN_IF_ERROR(NotNull(reason, "reason"));
    DSCKPT_RETURN_IF_ERROR(CheckIndex(index, run.skipped().size(), "entry", "list"));
    *path = ToText(run.skipped()[index].first);
    *reason = ToText(run.skipped()[index].second);
    return {};
  });
}

int dsckpt_trajectory_tensor(const dsckpt_trajectory* trajectory, uint32_t tensor,
                             dsckpt_trajectory_tensor_info* out, dsckpt_error* error) {
  return WithTrajectory(trajectory, error, [&](const Trajectory& run) -> Status {
    DSCKPT_RETURN_IF_ERROR(CheckIndex(tensor, run.tensor_count(), "tensor", "trajectory"));
    return dsckpt::c::CopyOut(dsckpt::c::TensorInfoOf(run, tensor), out,
                              "dsckpt_trajectory_tensor_info");
  });
}

int dsckpt_trajectory_find_tensor(const dsckpt_trajectory* trajectory, const char* name,
                                  uint32_t* tensor, dsckpt_error* error) {
  return WithTrajectory(trajectory, error, [&](const Trajectory& run) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(name, "name"));
    DSCKPT_RETURN_IF_ERROR(NotNull(tensor, "tensor"));
    const auto found = run.FindTensor(name);
    if (!found) {
      return Status(StatusCode::kNotFound,
                    "no tensor '" + std::string(name) + "' in " + std::to_string(run.size()) +
                        " checkpoints: dsckpt_trajectory_tensor gives the names there are");
    }
    *tensor = *found;
    return {};
  });
}

int dsckpt_trajectory_get_form(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                               uint32_t tensor, dsckpt_trajectory_form* out, dsckpt_error* error) {
  return WithForm(trajectory, checkpoint, tensor, error,
                  [&](const Trajectory& run, const TrajectoryForm& form) {
                    return dsckpt::c::CopyOut(dsckpt::c::FormOf(run, checkpoint, tensor, form), out,
                                              "dsckpt_trajectory_form");
                  });
}

int dsckpt_trajectory_statistics(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                                 uint32_t tensor, dsckpt_tensor_statistics* out,
                                 dsckpt_error* error) {
  return WithForm(trajectory, checkpoint, tensor, error,
                  [&](const Trajectory& run, const TrajectoryForm&) -> Status {
                    const auto statistics = run.Statistics(checkpoint, tensor);
                    if (statistics) return dsckpt::c::CopyOut(*statistics, out);
                    return Status(StatusCode::kNotFound, run.path(checkpoint) +
                                                             " has no statistics of tensor '" +
                                                             std::string(run.tensor(tensor).name) +
                                                             "': save it with `statistics`")
                        .WithPath(run.path(checkpoint));
                  });
}

int dsckpt_trajectory_read(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                           uint32_t tensor, uint64_t offset, void* out, uint64_t bytes,
                           dsckpt_error* error) {
  return WithForm(trajectory, checkpoint, tensor, error,
                  [&](const Trajectory& run, const TrajectoryForm&) -> Status {
                    DSCKPT_ASSIGN_OR_RETURN(const auto room, dsckpt::c::Room(out, bytes));
                    return run.Read(checkpoint, tensor, offset, room);
                  });
}

int dsckpt_trajectory_view(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                           uint32_t tensor, dsckpt_view** out, dsckpt_error* error) {
  return WithForm(trajectory, checkpoint, tensor, error,
                  [&](const Trajectory& run, const TrajectoryForm&) -> Status {
                    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
                    DSCKPT_ASSIGN_OR_RETURN(auto viewed, run.View(checkpoint, tensor));
                    *out = new dsckpt_view{std::move(viewed)};
                    return {};
                  });
}

int dsckpt_trajectory_open_checkpoint(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                                      dsckpt_checkpoint** out, dsckpt_error* error) {
  return WithMember(trajectory, checkpoint, error, [&](const Trajectory& run) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(auto opened, run.OpenCheckpoint(checkpoint));
    *out = new dsckpt_checkpoint{std::move(opened)};
    return {};
  });
}

const char* dsckpt_trajectory_event_name(int kind) {
  if (kind < 0 || kind > DSCKPT_TRAJECTORY_MISSING_STEP) return "unknown";
  return dsckpt::TrajectoryEventName(static_cast<dsckpt::TrajectoryEventKind>(kind)).data();
}

int dsckpt_trajectory_find_events(const dsckpt_trajectory* trajectory,
                                  void (*on_event)(void* user,
                                                   const dsckpt_trajectory_event* event),
                                  void* user, dsckpt_error* error) {
  return WithTrajectory(trajectory, error, [&](const Trajectory& run) -> Status {
    if (on_event == nullptr) return NotNull(nullptr, "on_event");
    for (const dsckpt::TrajectoryEvent& event : FindEvents(run, dsckpt::SelectAll(run))) {
      const dsckpt_trajectory_event out = dsckpt::c::EventOf(event);
      on_event(user, &out);
    }
    return {};
  });
}

}  // extern "C"
