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

#include "dsckpt/file.h"
#include "dsckpt/piece.h"
#include "dsckpt/run_layout.h"
#include "dsckpt/status.h"

namespace dsckpt {

/// What says the step of a checkpoint. The first of these that does: its manifest; the attribute
/// "step" or else the metadata "step" of its first shard; the number in its name (StepInName()).
enum class StepSource : uint8_t { kUnknown, kManifest, kAttribute, kMetadata, kName };

struct CheckpointOptions {
  /// How shards are opened.
  OpenOptions file = {};
  /// Shards that a lagging file system does not show yet, or shows stale, are looked for again
  /// until this much time has passed.
  std::chrono::milliseconds retry = std::chrono::seconds(5);
};

/// One tensor of the job, whole. Borrows from the checkpoint.
struct LogicalTensorInfo {
  std::string_view name;
  DTypeInfo dtype;
  std::span<const int64_t> shape;
  uint64_t bytes = 0;
  uint32_t ordinal = 0;  ///< Position among the logical tensors, in name order.
  uint32_t piece_count = 0;
};

struct ShardInfo {
  std::string_view name;
  uint32_t rank = 0;
  uint64_t file_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t index_xxh3_64 = 0;
};

/// Where one piece of a logical tensor is stored.
struct PieceLocation {
  uint32_t shard = 0;
  uint32_t tensor = 0;  ///< Ordinal of the stored tensor in that shard.
  OwnedPiece piece;
};

/// A box of a logical tensor to be read, and where to.
struct BoxRequest {
  std::string_view name;
  /// One range a dimension; with `whole` all of it.
  std::span<const Range> box = {};
  bool whole = false;
  /// Receives the box row-major: exactly its bytes.
  std::span<std::byte> out;
};

/// A sharded checkpoint, or one shard as a checkpoint of its own: answers for logical tensors,
/// whole or any box, from whichever shards hold them, without opening the others. Any number of
/// ranks can read what any other number wrote. Cheap to copy (shared, immutable). Thread-safe.
///
/// Nothing in a manifest is trusted: names that leave the directory are refused, and every shard
/// is compared with what the manifest says of it before it is used.
class Checkpoint {
 public:
  Checkpoint() = default;
  /// `path`: a checkpoint directory with a manifest, or a shard. kNotFound, kIncomplete (a
  /// directory without a manifest; a shard is missing), kCorrupt, kNotCheckpoint.
  static Result<Checkpoint> Open(const std::string& path, const CheckpointOptions& options = {});
  /// Shards without a manifest, ranks by position.
  static Result<Checkpoint> OpenShards(std::span<const std::string> paths,
                                       const CheckpointOptions& options = {});

  bool valid() const { return impl_ != nullptr; }
  const std::string& path() const;
  bool has_manifest() const;
  /// kUnknownStep where nothing says it.
  int64_t step() const;
  StepSource step_source() const;
  /// Position among the saves of its run directory, from 1; 0: not known.
  uint64_t serial() const;
  /// serial() of the save that training went on from; 0: none, or not known.
  uint64_t parent() const;
  std::string_view attempt() const;
  uint32_t ranks() const;
  uint32_t shard_count() const;
  ShardInfo shard(uint32_t shard) const;
  /// Opens a shard and checks that it is the one the manifest means; kept open from then on.
  /// kIncomplete: missing; kMismatch: another file than the manifest describes, or one whose index
  /// has other pieces, dtypes, shapes or another step than the manifest says.
  Result<File> OpenShard(uint32_t shard) const;

  uint32_t tensor_count() const;
  LogicalTensorInfo tensor(uint32_t i) const;
  Result<LogicalTensorInfo> FindTensor(std::string_view name) const;
  std::vector<PieceLocation> Pieces(uint32_t tensor) const;

  /// OK when the pieces of `tensor` cover it; kIncomplete names the first gap. Content is not read:
  /// pieces that overlap are compared when they are. kLimitExceeded (CompareCopies() and Read(),
  /// too): the pieces are so many times the tensor, or overlap in such ways, that it would take too
  /// long to tell (spec/format.md, "Limits").
  Status CheckCoverage(uint32_t tensor) const;

  /// Compares all copies of the elements of `tensor`, those that Read() takes for equal because
  /// they were declared replicas included: kMismatch names where they differ. By digests where
  /// these decide, else by content.
  Status CompareCopies(uint32_t tensor) const;

  /// The digest that the tensor has where it is stored whole: nothing when no shard holds it so, or
  /// when that is plain safetensors. Opens the shard; reads no data.
  Result<std::optional<Hash128>> Digest(uint32_t tensor) const;
  /// The same of any tensor: put together and read where no digest is stored. Errors as Read().
  Result<Hash128> ComputeDigest(uint32_t tensor) const;

  /// Reads boxes of logical tensors; only shards and chunks that hold them are touched. Of declared
  /// replicas one is read. Other copies of the same elements are compared: kMismatch when they
  /// differ, never the last one wins. kIncomplete: no piece holds some of the elements. Checksums
  /// are checked.
  Status Read(std::span<const BoxRequest> requests) const;
  Status Read(const BoxRequest& request) const { return Read(std::span(&request, 1)); }

  /// Bytes [offset, offset + out.size()) of a logical tensor's row-major image, checked as by
  /// Read(). For going through whole tensors in steps, from several threads: chunks that
  /// neighbouring steps share are read once, in memory of 64 MiB. `verify` off: checksums are not
  /// looked at.
  Status ReadBytes(uint32_t tensor, uint64_t offset, std::span<std::byte> out,
                   bool verify = true) const;

  /// Reads the state back in place, as File::Restore: tensors that `provider` describes with pieces
  /// get those parts of logical tensors, others the whole logical tensor of their name. Objects and
  /// attributes come from the shards of `rank`, and from those of rank 0 where these lack them. A
  /// rank that wrote no shard, because more ranks read than wrote, gets those objects of rank 0 that
  /// another rank has alike; of what differs from rank to rank without being marked (RankOwn) it
  /// gets nothing: kNotFound names it, and RestoreOptions::partial leaves it as it is.
  ///
  /// What `provider` describes as the own of `rank` (RankOwn) gets what that rank saved as its own,
  /// and nothing else: where the checkpoint has none for it, because more ranks read than wrote, it
  /// is kNotFound or left as it is (RestoreOptions::without_own).
  Status Restore(const StateProvider& provider, uint32_t rank = 0,
                 const RestoreOptions& options = {}) const;

  /// Shards opened so far.
  uint32_t open_shard_count() const;

  struct Impl;  // Internal.
  explicit Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }  // Internal.

 private:
  std::shared_ptr<const Impl> impl_;
};

/// One complete checkpoint of a run directory.
struct RunEntry {
  std::string name;             ///< bare file name
  std::optional<int64_t> step;  ///< nothing where nobody says it
  uint64_t bytes = 0;           ///< of all shards, as the manifest says
  uint32_t shards = 0;
  StepSource step_source = StepSource::kUnknown;
  uint64_t serial = 0;  ///< as Checkpoint::serial()
  uint64_t parent = 0;  ///< as Checkpoint::parent()
  /// Training has left it behind: it is not on the line of saves that leads to the latest one,
  /// because the run was set back to an earlier one (spec/commit.md, "Order of saves").
  bool abandoned = false;
};

/// The checkpoints of one training run: a directory of checkpoint directories (or single shards),
/// with a file `latest` that names one. Reads; never changes anything. A value; thread-safe.
class RunDirectory {
 public:
  /// kNotFound, I/O.
  static Result<RunDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  /// Complete checkpoints in the order in which they were saved: by serial, then step, then name.
  /// Those whose step nobody knows come last.
  const std::vector<RunEntry>& checkpoints() const { return checkpoints_; }
  /// What else lies there, and why it does not count: incomplete attempts, files of others.
  const std::vector<std::pair<std::string, std::string>>& ignored_entries() const {
    return ignored_entries_;
  }
  /// Whether an entry in ignored_entries() is what a commit left behind, by its name.
  static bool IsLeftOver(std::string_view name);
  /// The name in `latest`, or nothing. It may name what is not there any more.
  const std::optional<std::string>& latest_name() const { return latest_name_; }

  /// The complete checkpoint that `latest` names, or else the one that was saved last. kNotFound.
  Result<Checkpoint> Latest(const CheckpointOptions& options = {}) const;
  /// The last save of that step. kNotFound.
  Result<Checkpoint> ByStep(int64_t step, const CheckpointOptions& options = {}) const;

 private:
  std::string path_;
  std::vector<RunEntry> checkpoints_;
  std::vector<std::pair<std::string, std::string>> ignored_entries_;
  std::optional<std::string> latest_name_;
};

}  // namespace dsckpt

#endif  // DSCKPT_CHECKPOINT_H_
