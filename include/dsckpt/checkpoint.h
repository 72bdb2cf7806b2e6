#ifndef DSCKPT_CHECKPOINT_H_
#define DSCKPT_CHECKPOINT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/export.h"
#include "dsckpt/file.h"
#include "dsckpt/piece.h"
#include "dsckpt/run_layout.h"
#include "dsckpt/status.h"
#include "dsckpt/tensor_statistics.h"

namespace DSCKPT_EXPORT dsckpt {

/// What tells the step of a checkpoint. Of several sources the first in this order counts.
enum class StepSource : uint8_t {
  /// Nothing tells it.
  kUnknown,
  /// The manifest.
  kManifest,
  /// The attribute "step" of the first shard.
  kAttribute,
  /// The member "step" of the first shard's safetensors metadata.
  kMetadata,
  /// The number in its name; see StepInName().
  kName
};

/// How Checkpoint::Open() opens a checkpoint.
struct CheckpointOptions {
  /// How its shards are opened.
  OpenOptions file = {};
  /// For how long to look again for shards that a file system does not show yet, or shows as they
  /// were before.
  std::chrono::milliseconds retry = std::chrono::seconds(5);
};

/// What a checkpoint says about one tensor of the job, whole. The texts and arrays are valid as
/// long as the Checkpoint lives.
struct LogicalTensorInfo {
  /// The name of the whole tensor.
  std::string_view name;
  /// The element type.
  DTypeInfo dtype;
  /// The shape of the whole tensor, in elements.
  std::span<const int64_t> shape;
  /// The size of the whole tensor, in bytes.
  uint64_t bytes = 0;
  /// The position among the logical tensors of the checkpoint, in name order.
  uint32_t ordinal = 0;
  /// The number of pieces that the shards hold of it.
  uint32_t piece_count = 0;
};

/// What a checkpoint says about one of its files. The name is valid as long as the Checkpoint
/// lives.
struct ShardInfo {
  /// The bare file name.
  std::string_view name;
  /// The rank that wrote the file.
  uint32_t rank = 0;
  /// The size of the file, in bytes.
  uint64_t file_bytes = 0;
  /// The size of its index, in bytes.
  uint64_t index_bytes = 0;
  /// The checksum of its index.
  uint64_t index_xxh3_64 = 0;
};

/// Where one piece of a logical tensor is stored.
struct PieceLocation {
  /// The position of the shard in the checkpoint.
  uint32_t shard = 0;
  /// The ordinal of the stored tensor in that shard.
  uint32_t tensor = 0;
  /// Which part of the logical tensor it holds, and where in the stored tensor.
  OwnedPiece piece;
};

/// A stored tensor that is a logical tensor, whole.
struct StoredWhole {
  /// The shard that holds it.
  File file;
  /// What that file says about it.
  TensorInfo info;
};

/// A box of a logical tensor that Checkpoint::Read() reads, and where to. All is borrowed for the
/// call.
struct BoxRequest {
  /// The name of the logical tensor.
  std::string_view name;
  /// One range for each dimension. It is not looked at where `whole` is set.
  std::span<const Range> box = {};
  /// Whether the whole tensor is read.
  bool whole = false;
  /// Receives the elements of the box, row-major. It has exactly their size, in bytes.
  std::span<std::byte> out;
};

/// A sharded checkpoint, or one shard as a checkpoint of its own. It answers for logical tensors,
/// whole or any box of them, from whichever shards hold them, without opening the other shards. Any
/// number of ranks can read what any other number has written. A Checkpoint is a small handle to
/// shared data that does not change: it is cheap to copy. Thread-safe: all methods are const.
///
/// Nothing in a manifest is trusted: names that leave the directory are refused, and every shard is
/// compared with what the manifest says about it before it is used.
class Checkpoint {
 public:
  /// An object that refers to no checkpoint: only valid() and assignment may be called.
  Checkpoint() = default;
  /// Opens a checkpoint directory with a manifest, or a single file (a shard or a safetensors
  /// file).
  /// Errors: kNotFound; kIncomplete when the directory has no manifest or a shard is missing;
  /// kCorrupt; kNotCheckpoint; those of the file system.
  static Result<Checkpoint> Open(const std::string& path, const CheckpointOptions& options = {});
  /// Opens files that have no manifest as one checkpoint. The rank of a file is its position.
  /// Errors: as for Open(); kMismatch when the files disagree about a logical tensor.
  static Result<Checkpoint> OpenShards(std::span<const std::string> paths,
                                       const CheckpointOptions& options = {});

  /// Returns whether the object refers to a checkpoint.
  bool valid() const { return impl_ != nullptr; }
  /// Returns the path of the directory, or of the first file.
  const std::string& path() const;
  /// Returns whether the checkpoint is a directory with a manifest.
  bool has_manifest() const;
  /// Returns the number of files beside the manifest that hold its pieces (ManifestPartName()); 0
  /// where it holds them itself, as one of up to some 17 million pieces does.
  uint32_t manifest_parts() const;
  /// Returns the step, or kUnknownStep where nothing tells it.
  int64_t step() const;
  /// Returns what tells the step.
  StepSource step_source() const;
  /// Returns the position among the saves of its run directory, which counts from 1. It is 0 where
  /// no save of a run made the checkpoint (spec/commit.md, "Order of saves").
  uint64_t serial() const;
  /// Returns the serial() of the save that training went on from; 0 means none, or not known.
  uint64_t parent() const;
  /// Returns the id of the attempt that committed the checkpoint; it is empty without a manifest.
  std::string_view attempt() const;
  /// Returns the number of ranks that saved the checkpoint.
  uint32_t ranks() const;
  /// Returns one digest of what all files hold: it is equal where as many files of the same ranks
  /// hold equal content, however that was saved. It is nothing where a file has no digest of its
  /// content (File::ContentDigest()): one of format 1.0, or plain safetensors. No file is read for
  /// it where there is a manifest. Not cryptographic.
  std::optional<Hash128> ContentDigest() const;
  /// Returns the number of files.
  uint32_t shard_count() const;
  /// Returns what the manifest says about a file. REQUIRES: shard < shard_count().
  ShardInfo shard(uint32_t shard) const;
  /// Opens a shard, checks that it is the one that the manifest means, and keeps it open.
  /// Errors: kIncomplete when it is missing; kMismatch when another file has its name, or when its
  /// index has other pieces, dtypes, shapes or another step than the manifest says.
  /// REQUIRES: shard < shard_count().
  Result<File> OpenShard(uint32_t shard) const;

  /// Returns the number of logical tensors.
  uint32_t tensor_count() const;
  /// Returns a logical tensor by its position in name order. REQUIRES: i < tensor_count().
  LogicalTensorInfo tensor(uint32_t i) const;
  /// Finds a logical tensor by its name. Errors: kNotFound.
  Result<LogicalTensorInfo> FindTensor(std::string_view name) const;
  /// Returns where the pieces of a logical tensor are. Pieces of a form that this release does not
  /// know are left out. REQUIRES: tensor < tensor_count().
  std::vector<PieceLocation> Pieces(uint32_t tensor) const;

  /// Returns OK when the pieces of `tensor` cover it. Content is not read.
  /// Errors: kIncomplete names the first gap. kLimitExceeded (also of CompareCopies() and Read()):
  /// the pieces have so many times the elements of the tensor, or overlap in such ways, that it
  /// would take too long to tell (spec/format.md, "Limits").
  Status CheckCoverage(uint32_t tensor) const;

  /// Compares all copies of the elements of `tensor`, also those that Read() takes for equal
  /// because they were declared as replicas: by their digests where these decide, else by their
  /// content.
  /// Errors: kMismatch says where they differ; those of all reads.
  Status CompareCopies(uint32_t tensor) const;

  /// Returns the first shard that holds `tensor` whole, opened, or nothing where its elements are
  /// spread over several. Errors: those of OpenShard().
  Result<std::optional<StoredWhole>> FindWhole(uint32_t tensor) const;

  /// Returns the digest of `tensor` from the index of a shard. It is nothing where no shard holds
  /// the tensor whole, or where that shard is plain safetensors. The shard is opened; data is not
  /// read.
  Result<std::optional<Hash128>> Digest(uint32_t tensor) const;
  /// Returns the digest of any tensor: where no shard stores it, the tensor is put together, read
  /// and hashed. Errors: as for Read().
  Result<Hash128> ComputeDigest(uint32_t tensor) const;
  /// Returns what the elements of `tensor` are, in numbers: File::Statistics() of a shard that
  /// holds the tensor whole. It is nothing where there is none. The shard is opened; data is not
  /// read.
  Result<std::optional<TensorStatistics>> Statistics(uint32_t tensor) const;

  /// Reads boxes of logical tensors. Only the shards and chunks that hold parts of them are read,
  /// and checksums are checked. Of copies that were declared to be replicas one is read. Other
  /// copies of the same elements are compared.
  /// Errors: kIncomplete when no piece holds some of the elements; kMismatch when copies differ;
  /// kNotFound, kInvalidArgument; those of all reads.
  Status Read(std::span<const BoxRequest> requests) const;
  /// The same for one box.
  Status Read(const BoxRequest& request) const { return Read(std::span(&request, 1)); }

  /// Reads the bytes [offset, offset + out.size()) of a logical tensor's row-major image, with the
  /// checks of Read(). It is meant for going through whole tensors in steps, also from several
  /// threads: chunks that neighbouring steps share are read once and kept in at most 64 MiB of
  /// memory. With `verify` false, checksums are not looked at.
  Status ReadBytes(uint32_t tensor, uint64_t offset, std::span<std::byte> out,
                   bool verify = true) const;

  /// Reads the state back in place, as File::Restore() does. A tensor that `provider` describes
  /// with pieces gets those parts of logical tensors; any other gets the whole logical tensor of
  /// its name. Objects and attributes come from the shards of `rank`, and from those of rank 0
  /// where these lack them. A rank that wrote no shard, because more ranks read than wrote, gets
  /// the attributes of rank 0, and its objects unless another rank has another object of the same
  /// name: what differs from rank to rank without being marked (RankOwn()) is kNotFound, and
  /// RestoreOptions::partial leaves it as it is.
  ///
  /// What `provider` describes as the own of `rank` (RankOwn()) gets what that rank saved as its
  /// own, and nothing else. Where the checkpoint holds none of that rank, because more ranks read
  /// than wrote, it is kNotFound, or left as it is (RestoreOptions::without_own).
  Status Restore(const StateProvider& provider, uint32_t rank = 0,
                 const RestoreOptions& options = {}) const;

  /// Returns the number of shards that were opened so far.
  uint32_t open_shard_count() const;

  struct Impl;  // Internal.
  // Internal: checkpoints come from Open().
  explicit Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }  // Internal.

 private:
  std::shared_ptr<const Impl> impl_;
};

/// One complete checkpoint of a run directory.
struct RunEntry {
  /// The bare name of its directory or file.
  std::string name;
  /// The step, or nothing where nothing tells it.
  std::optional<int64_t> step;
  /// The size of all its shards together, in bytes.
  uint64_t bytes = 0;
  /// The number of its shards.
  uint32_t shards = 0;
  /// What tells the step.
  StepSource step_source = StepSource::kUnknown;
  /// See Checkpoint::serial().
  uint64_t serial = 0;
  /// See Checkpoint::parent().
  uint64_t parent = 0;
  /// Whether training has left the checkpoint behind: it is not on the line of saves that leads to
  /// the latest one, because the run was set back to an earlier one (spec/commit.md, "Order of
  /// saves").
  bool abandoned = false;
};

/// The checkpoints of one training run: a directory of checkpoint directories (or single shards),
/// with a file `latest` that names one (spec/commit.md, "Files"). The object is the state of the
/// directory at Open(). It never changes anything on storage. It is a value; its methods are const
/// and thread-safe.
class RunDirectory {
 public:
  /// Lists the directory and reads the manifest of each checkpoint in it.
  /// Errors: kNotFound; those of the file system. An entry that cannot be read is no error: it is
  /// among ignored_entries().
  static Result<RunDirectory> Open(const std::string& path);

  /// Returns the path of the directory.
  const std::string& path() const { return path_; }
  /// Returns the complete checkpoints in the order in which they were saved: by serial, then step,
  /// then name. Those whose step is not known come last.
  const std::vector<RunEntry>& checkpoints() const { return checkpoints_; }
  /// Returns the other entries, each with the reason why it is no complete checkpoint: incomplete
  /// attempts, files of other programs.
  const std::vector<std::pair<std::string, std::string>>& ignored_entries() const {
    return ignored_entries_;
  }
  /// Returns whether an entry of ignored_entries() is something that a commit left behind, judging
  /// by its name.
  static bool IsLeftOver(std::string_view name);
  /// Returns the name in `latest`, or nothing. The checkpoint that it names may be gone.
  const std::optional<std::string>& latest_name() const { return latest_name_; }

  /// Opens the complete checkpoint that `latest` names, or else the one that was saved last.
  /// Errors: kNotFound when the directory holds no complete checkpoint; those of
  /// Checkpoint::Open().
  Result<Checkpoint> Latest(const CheckpointOptions& options = {}) const;
  /// Opens the complete checkpoint of a step; of several, the one that was saved last.
  /// Errors: kNotFound; those of Checkpoint::Open().
  Result<Checkpoint> ByStep(int64_t step, const CheckpointOptions& options = {}) const;

 private:
  std::string path_;
  std::vector<RunEntry> checkpoints_;
  std::vector<std::pair<std::string, std::string>> ignored_entries_;
  std::optional<std::string> latest_name_;
};

}  // namespace dsckpt

#endif  // DSCKPT_CHECKPOINT_H_
