#ifndef DSCKPT_C_TRAJECTORY_H_
#define DSCKPT_C_TRAJECTORY_H_

#include <stddef.h>
#include <stdint.h>

#include "dsckpt/c.h"

/// \file
/// Many checkpoints of one run as one thing (dsckpt/trajectory.h). dsckpt/c.h,
/// which it includes, says how errors, structs, owners and threads are.

#if defined(__cplusplus)
extern "C" {
#endif
/* Visible outside the shared library. */
#pragma GCC visibility push(default)

/// Many checkpoints of one run, by their indexes; see dsckpt::Trajectory.
typedef struct dsckpt_trajectory dsckpt_trajectory;

/// What tells the step of a checkpoint; dsckpt::StepSource.
enum {
  DSCKPT_STEP_UNKNOWN = 0,
  DSCKPT_STEP_MANIFEST = 1,
  DSCKPT_STEP_ATTRIBUTE = 2,
  DSCKPT_STEP_METADATA = 3,
  DSCKPT_STEP_NAME = 4
};

/// How checkpoints are found and opened; see dsckpt::TrajectoryOptions.
typedef struct dsckpt_trajectory_options {
  size_t size;
  const char* step_from;    ///< What tells the step: null or "auto", "attr:KEY", "name:REGEX", ...
  uint32_t max_open_files;  ///< At a time; 0: 256.
  int32_t threads;          ///< That read indexes; 0: one a core, at most 8.
  /// Null; or the step of each path, which is then a single checkpoint.
  const int64_t* steps;
} dsckpt_trajectory_options;

/// Opens a run or a list, in the order of steps: each path is a checkpoint, a directory of which
/// all checkpoints are taken, or "RUN@STEP", "RUN@latest" or "RUN@-N". Reads indexes, once.
/// DSCKPT_NOT_FOUND where there is no checkpoint; DSCKPT_INVALID_ARGUMENT; the errors of a
/// checkpoint that is named.
int dsckpt_trajectory_open(const char* const* paths, size_t path_count,
                           const dsckpt_trajectory_options* options, dsckpt_trajectory** out,
                           dsckpt_error* error);
/// Views and checkpoints that were opened from it stay valid.
void dsckpt_trajectory_destroy(dsckpt_trajectory* trajectory);

/// The number of checkpoints; 0 for a null handle.
uint32_t dsckpt_trajectory_checkpoint_count(const dsckpt_trajectory* trajectory);
/// The number of different names of tensors; 0 for a null handle.
uint32_t dsckpt_trajectory_tensor_count(const dsckpt_trajectory* trajectory);
/// The number of checkpoints and other entries of runs that are left out; 0 for a null handle.
size_t dsckpt_trajectory_skipped_count(const dsckpt_trajectory* trajectory);

/// What is known of one checkpoint. Its texts are valid until the trajectory is destroyed.
typedef struct dsckpt_trajectory_checkpoint_info {
  size_t size;
  dsckpt_text path;  ///< Of its directory, its file, or its model's index.
  /// What stands for it in commands: "RUN@STEP", or its path.
  dsckpt_text operand;
  int64_t step;         ///< 0 without `has_step`.
  int32_t has_step;     ///< 0 where nothing tells the step; such checkpoints come last.
  int32_t step_source;  ///< DSCKPT_STEP_*; unknown where the caller has given it.
  /// One digest of all tensors, its halves; see dsckpt::TreeDigest. 0 without `has_tree`.
  uint64_t tree_low;
  uint64_t tree_high;  ///< See `tree_low`.
  int32_t has_tree;    ///< 0 where a tensor has no digest.
  int32_t reserved;    ///< Zero.
} dsckpt_trajectory_checkpoint_info;

/// By position in the order of steps; DSCKPT_NOT_FOUND beyond the count, here and below.
int dsckpt_trajectory_checkpoint(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                                 dsckpt_trajectory_checkpoint_info* out, dsckpt_error* error);
/// What was left out, and why. Both texts are valid until the trajectory is destroyed.
int dsckpt_trajectory_skipped(const dsckpt_trajectory* trajectory, size_t index, dsckpt_text* path,
                              dsckpt_text* reason, dsckpt_error* error);

/// What is known of all tensors of one name; see dsckpt::TrajectoryTensor. Its text and shape are
/// valid until the trajectory is destroyed.
typedef struct dsckpt_trajectory_tensor_info {
  size_t size;
  /// The name of the whole tensor.
  dsckpt_text name;
  /// Its `rank` dimensions in the last checkpoint that has it.
  const int64_t* shape;
  /// The number of dimensions.
  size_t rank;
  /// The first and the last checkpoint that has it.
  uint32_t first, last;
  /// How many checkpoints have it, and in how many pairs of dtype and shape.
  uint32_t checkpoints, forms;
  int32_t dtype;     ///< In the last one. It may be a number that this library does not know.
  int32_t reserved;  ///< Zero.
} dsckpt_trajectory_tensor_info;

/// By position in name order.
int dsckpt_trajectory_tensor(const dsckpt_trajectory* trajectory, uint32_t tensor,
                             dsckpt_trajectory_tensor_info* out, dsckpt_error* error);
/// Gives the position of a name.
int dsckpt_trajectory_find_tensor(const dsckpt_trajectory* trajectory, const char* name,
                                  uint32_t* tensor, dsckpt_error* error);

/// One tensor in one checkpoint, by its index. The shape is valid until the trajectory is
/// destroyed.
typedef struct dsckpt_trajectory_form {
  size_t size;
  /// Its `rank` dimensions.
  const int64_t* shape;
  /// The number of dimensions.
  size_t rank;
  /// The size of the whole tensor.
  uint64_t bytes;
  int32_t dtype;       ///< It may be a number that this library does not know.
  int32_t has_digest;  ///< 0 where no file holds the tensor whole, and for plain safetensors.
  /// The digest, its halves: equal for equal content, dtype and shape. 0 without `has_digest`.
  uint64_t digest_low;
  uint64_t digest_high;  ///< See `digest_low`.
  /// The digest, or else one of its pieces; see dsckpt::Trajectory::Content. 0 without
  /// `has_content`.
  uint64_t content_low;
  uint64_t content_high;  ///< See `content_low`.
  int32_t has_content;    ///< 0 where a stored piece has no digest.
  int32_t reserved;       ///< Zero.
} dsckpt_trajectory_form;

/// DSCKPT_NOT_FOUND also where the checkpoint lacks the tensor, here and below.
int dsckpt_trajectory_get_form(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                               uint32_t tensor, dsckpt_trajectory_form* out, dsckpt_error* error);
/// What the elements of a tensor are, in numbers, without reading them. DSCKPT_NOT_FOUND also where
/// the checkpoint does not say; see dsckpt::Checkpoint::Statistics.
int dsckpt_trajectory_statistics(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                                 uint32_t tensor, dsckpt_tensor_statistics* out,
                                 dsckpt_error* error);
/// Reads the bytes [offset, offset + bytes) of a tensor's row-major image; checksums are checked.
int dsckpt_trajectory_read(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                           uint32_t tensor, uint64_t offset, void* out, uint64_t bytes,
                           dsckpt_error* error);
/// The elements of a tensor that one file holds whole: mapped where it is raw, to be destroyed.
/// DSCKPT_UNSUPPORTED where it is in pieces, which dsckpt_trajectory_read puts together.
int dsckpt_trajectory_view(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                           uint32_t tensor, dsckpt_view** out, dsckpt_error* error);
/// Opens a checkpoint, to be destroyed.
int dsckpt_trajectory_open_checkpoint(const dsckpt_trajectory* trajectory, uint32_t checkpoint,
                                      dsckpt_checkpoint** out, dsckpt_error* error);

/// What happened; dsckpt::TrajectoryEventKind.
enum {
  DSCKPT_TRAJECTORY_NAN = 0,
  DSCKPT_TRAJECTORY_INF = 1,
  DSCKPT_TRAJECTORY_JUMP = 2,
  DSCKPT_TRAJECTORY_DUPLICATE = 3,
  DSCKPT_TRAJECTORY_FROZEN = 4,
  DSCKPT_TRAJECTORY_DEAD = 5,
  DSCKPT_TRAJECTORY_RESHAPED = 6,
  DSCKPT_TRAJECTORY_RETYPED = 7,
  DSCKPT_TRAJECTORY_ADDED = 8,
  DSCKPT_TRAJECTORY_REMOVED = 9,
  DSCKPT_TRAJECTORY_COARSE = 10,
  DSCKPT_TRAJECTORY_MISSING_STEP = 11
};

/// One thing that happened; see dsckpt::TrajectoryEvent. It grows in later versions, at its end.
typedef struct dsckpt_trajectory_event {
  /// DSCKPT_TRAJECTORY_*.
  int32_t kind;
  uint32_t checkpoint;  ///< In which it shows.
  int64_t other;        ///< The checkpoint to compare with; -1: none.
  int64_t tensor;       ///< Which it is about; -1: none.
  int64_t step;         ///< Of the checkpoint, or the first that is missing; 0 without `has_step`.
  double value;         ///< Elements, a norm, or missing steps, by `kind`; NaN: none.
  double threshold;     ///< What `value` would have had to stay below; NaN: none.
  int32_t has_step;     ///< 0 where nothing tells the step.
  int32_t reserved;     ///< Zero.
} dsckpt_trajectory_event;

/// "missing_step", as the command `dsckpt trace` prints it; "unknown" for another number. Static,
/// never null.
const char* dsckpt_trajectory_event_name(int kind);
/// Says what happened, as far as indexes tell it; see dsckpt::FindEvents. `on_event` is called on
/// the calling thread, in the order of checkpoints; an event is valid during the call. Nothing is
/// read.
int dsckpt_trajectory_find_events(const dsckpt_trajectory* trajectory,
                                  void (*on_event)(void* user,
                                                   const dsckpt_trajectory_event* event),
                                  void* user, dsckpt_error* error);

#pragma GCC visibility pop
#if defined(__cplusplus)
}  // extern "C"
#endif

#endif  // DSCKPT_C_TRAJECTORY_H_
