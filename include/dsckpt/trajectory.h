#ifndef DSCKPT_TRAJECTORY_H_
#define DSCKPT_TRAJECTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/export.h"
#include "dsckpt/file.h"
#include "dsckpt/status.h"
#include "dsckpt/tensor_statistics.h"

namespace DSCKPT_EXPORT dsckpt {

/// How Trajectory::Open() finds and opens checkpoints.
struct TrajectoryOptions {
  /// What tells the step of a checkpoint. "auto" is as StepSource says. "attr:KEY" is an attribute
  /// of the first shard, and "meta:KEY" a member of its safetensors metadata. "name:REGEX" is the
  /// first group of an ECMAScript expression that is looked for in the name of the file or
  /// directory.
  std::string step_from = "auto";
  /// How many files at most are open at a time, but at least those of two checkpoints, of one
  /// checkpoint at most 64. Mapped files that are not read hold no descriptor and do not count.
  uint32_t max_open_files = 256;
  /// The number of threads that read indexes. 0 means one for each core, at most 8.
  int threads = 0;
};

/// What a trajectory knows of all tensors of one name. The texts and arrays are valid as long as
/// the Trajectory lives.
struct TrajectoryTensor {
  /// The name of the logical tensor.
  std::string_view name;
  /// The first and the last checkpoint that has it, by position.
  uint32_t first = 0, last = 0;
  /// How many checkpoints have it.
  uint32_t checkpoints = 0;
  /// How many different pairs of dtype and shape it has in them.
  uint32_t forms = 0;
  /// The dtype in the last checkpoint that has it.
  DTypeInfo dtype;
  /// The shape in the last checkpoint that has it.
  std::span<const int64_t> shape;
};

/// The dtype and the shape of a tensor in one checkpoint. The shape is valid as long as the
/// Trajectory lives.
struct TrajectoryForm {
  /// The element type.
  DTypeInfo dtype;
  /// The shape of the whole tensor, in elements.
  std::span<const int64_t> shape;
  /// The size of the whole tensor, in bytes.
  uint64_t bytes = 0;
};

/// Many checkpoints of one training run, in the order of their steps. Opening reads their indexes
/// once; names are kept once for all checkpoints, and of each tensor in each checkpoint a digest,
/// its form, and statistics where the file has them. What is asked from indexes then reads nothing.
/// Tensor data is read by Read() and View() alone.
///
/// A Trajectory is a small handle to shared data that does not change: it is cheap to copy.
/// Thread-safe: all methods are const.
class Trajectory {
 public:
  /// An object that refers to nothing: only valid() and assignment may be called.
  Trajectory() = default;
  /// Opens all complete checkpoints of a run directory, whatever wrote them: directories with a
  /// manifest, single dsckpt and safetensors files, directories of Hugging Face models. A
  /// checkpoint that cannot be read is no error: it is among skipped(), as are those that training
  /// has left behind (RunEntry::abandoned).
  /// Errors: kNotFound where there is no checkpoint; kInvalidArgument for a `step_from` that cannot
  /// be read; those of the file system.
  static Result<Trajectory> Open(const std::string& run, const TrajectoryOptions& options = {});
  /// Opens a list: each operand is one checkpoint, or a run, of which all are taken. `RUN@STEP`,
  /// `RUN@latest` and `RUN@-N` are checkpoints of a run. An operand that is named and cannot be
  /// opened is an error.
  static Result<Trajectory> Open(std::span<const std::string> operands,
                                 const TrajectoryOptions& options = {});
  /// Opens a list of which the caller knows the steps: `steps` has one for each of `operands`,
  /// which are single checkpoints.
  static Result<Trajectory> Open(std::span<const std::string> operands,
                                 std::span<const int64_t> steps,
                                 const TrajectoryOptions& options = {});

  /// Returns whether the object refers to checkpoints.
  bool valid() const { return impl_ != nullptr; }
  /// Returns the number of checkpoints.
  uint32_t size() const;
  /// Returns the step of checkpoint `t`, or nothing where nothing tells it: such checkpoints come
  /// last. REQUIRES: t < size(), here and below.
  std::optional<int64_t> step(uint32_t t) const;
  /// Returns what tells the step. It is kUnknown where the caller has given it.
  StepSource step_source(uint32_t t) const;
  /// Returns the path of the checkpoint: that of its directory, its file or its model's index.
  const std::string& path(uint32_t t) const;
  /// Returns a text that stands for the checkpoint in commands: "RUN@STEP", or its path where that
  /// is not enough to tell it.
  const std::string& operand(uint32_t t) const;
  /// Returns the attributes of the first shard that are single values, and the members of the
  /// metadata of plain safetensors, by name.
  std::span<const std::pair<std::string, Value>> attributes(uint32_t t) const;
  /// Returns one digest of all tensors; see TreeDigest() of dsckpt/file.h. It is nothing where a
  /// tensor has none.
  std::optional<Hash128> TreeDigest(uint32_t t) const;
  /// Returns one digest of all tensors as they are stored: equal where as many files of the same
  /// ranks hold equal tensors under equal names, also where these are in pieces. It is nothing
  /// where a stored tensor has no digest.
  std::optional<Hash128> StoredDigest(uint32_t t) const;
  /// Returns the checkpoints and other entries of runs that are left out, each with the reason.
  const std::vector<std::pair<std::string, std::string>>& skipped() const;
  /// Returns the size of the indexes, headers and manifests that Open() went through, in bytes:
  /// padding behind a header counts, and what had to be looked at twice counts once.
  uint64_t index_bytes() const;

  /// Returns the number of different names.
  uint32_t tensor_count() const;
  /// Returns a tensor by its position in name order. REQUIRES: i < tensor_count(), here and below.
  TrajectoryTensor tensor(uint32_t i) const;
  /// Returns the position of a name, or nothing.
  std::optional<uint32_t> FindTensor(std::string_view name) const;
  /// Returns the form of tensor `i` in checkpoint `t`, or nothing where that lacks it.
  std::optional<TrajectoryForm> Form(uint32_t t, uint32_t i) const;
  /// Returns the digest of a tensor from the index (Checkpoint::Digest()). It is nothing for plain
  /// safetensors, for tensors that no shard holds whole, and where the checkpoint lacks the tensor.
  std::optional<Hash128> Digest(uint32_t t, uint32_t i) const;
  /// Returns Digest(), or else a digest of the tensor's pieces, which is equal for equal content
  /// that is split in the same way. The two kinds are never equal to each other. It is nothing
  /// where a stored piece has no digest, or shares it with pieces of other tensors.
  std::optional<Hash128> Content(uint32_t t, uint32_t i) const;
  /// Returns the statistics of a tensor from the index (Checkpoint::Statistics()), or nothing.
  std::optional<TensorStatistics> Statistics(uint32_t t, uint32_t i) const;

  /// Opens checkpoint `t`, or returns it where it is still open.
  /// Errors: those of Checkpoint::Open().
  Result<Checkpoint> OpenCheckpoint(uint32_t t) const;
  /// Reads the bytes [offset, offset + out.size()) of a tensor's row-major image, as
  /// Checkpoint::ReadBytes() does. Errors: also kNotFound where the checkpoint lacks the tensor.
  Status Read(uint32_t t, uint32_t i, uint64_t offset, std::span<std::byte> out,
              bool verify = true) const;
  /// Returns the elements of a tensor that one shard holds whole: those of the mapped file where it
  /// is raw, else memory that the Tensor owns; see File::View().
  /// Errors: kUnsupported where the tensor is in pieces, which Read() puts together; kNotFound.
  Result<Tensor> View(uint32_t t, uint32_t i) const;

  struct Impl;  // Internal.
  // Internal: trajectories come from Open().
  explicit Trajectory(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace dsckpt

#endif  // DSCKPT_TRAJECTORY_H_
