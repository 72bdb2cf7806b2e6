#ifndef DSCKPT_FILE_H_
#define DSCKPT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/device.h"
#include "dsckpt/dtype.h"
#include "dsckpt/encoding.h"
#include "dsckpt/export.h"
#include "dsckpt/piece.h"
#include "dsckpt/provider.h"
#include "dsckpt/source.h"
#include "dsckpt/status.h"
#include "dsckpt/tree.h"

namespace DSCKPT_EXPORT dsckpt {

struct OpenOptions {
  /// Map the payload. Off, or where the file system refuses: views read into memory of their own. A
  /// mapped file that is truncated by somebody else raises SIGBUS on access; turn mapping off where
  /// that can happen.
  /// A mapped file holds no descriptor until something of it has to be read; it is opened again
  /// then, or read from the mapping where another file has its name by now.
  bool map = true;
  /// Threads for Load and for decoding. 0: one a core, at most 8.
  int threads = 0;
};

/// What a file says about one tensor. Borrows from the file.
struct TensorInfo {
  std::string_view name;
  DTypeInfo dtype;
  std::span<const int64_t> shape;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  uint64_t offset = 0;  ///< From the start of the file.
  Encoding encoding = Encoding::kRaw;
  uint32_t ordinal = 0;  ///< Position among the tensors, in name order.
};

struct ObjectInfo {
  std::string_view name;
  std::string_view media_type;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  uint64_t offset = 0;
  Encoding encoding = Encoding::kRaw;
  uint32_t ordinal = 0;
};

/// Two names for one tensor: `name` is the alias, `target` the tensor's ordinal.
struct AliasInfo {
  std::string_view name;
  uint32_t target = 0;
};

/// A read-only tensor whose elements lie in memory: in the mapped file, or in a buffer that the
/// tensor owns (decoded, or read without mmap). Copies share it. The elements stay valid as long as
/// any copy lives, also after the File is gone. Raw tensors are aligned to the largest power of two
/// up to 4096 that divides their size.
class Tensor {
 public:
  const TensorInfo& info() const { return info_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// True when `bytes()` is the mapped file itself.
  bool mapped() const { return mapped_; }
  /// Typed elements; kInvalidArgument when T is not the tensor's dtype.
  template <typename T>
  Result<std::span<const T>> As() const {
    if (info_.dtype.code != kDTypeOf<T>) {
      return Status(StatusCode::kInvalidArgument, "tensor '" + std::string(info_.name) + "' is " +
                                                      std::string(info_.dtype.name) +
                                                      ", not the type asked for");
    }
    return std::span<const T>(reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T));
  }

  Tensor(TensorInfo info, std::span<const std::byte> bytes, bool mapped,
         std::shared_ptr<const void> owner)
      : info_(info), bytes_(bytes), mapped_(mapped), owner_(std::move(owner)) {}

 private:
  TensorInfo info_;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
  std::shared_ptr<const void> owner_;
};

/// A name with the digest of what it names.
struct NamedDigest {
  std::string name;
  Hash128 digest;
};

/// One digest of many: XXH3-128 over, for each in the order of name bytes, the length of the name
/// (u64), the name and its digest (low half first), integers little-endian. Equal for equal names
/// with equal content, whatever the files. Not cryptographic.
Hash128 TreeDigest(std::vector<NamedDigest> items);

/// One tensor to load, and where to.
struct LoadRequest {
  std::string_view name;
  void* data = nullptr;
  /// Room at `data`; for a contiguous destination exactly the tensor's raw bytes.
  uint64_t bytes = 0;
  /// Destination strides in elements; empty: contiguous, row-major. Device memory: empty.
  std::span<const int64_t> strides = {};
  /// Where `data` lies: kHostMemory, kDeviceOfPointer or a device's ordinal. Device memory is
  /// written after what `stream` holds when Load() is called, and before Load() returns.
  int device = kHostMemory;
  Stream stream = nullptr;
};

struct LoadOptions {
  /// Check every chunk's checksum while it passes.
  bool verify = true;
};

struct RestoreOptions {
  LoadOptions load = {};
  /// Allow items that only one side has. Off: each is an error that names them.
  bool partial = false;
  /// Restores from a checkpoint: receives the names of subtrees that are a rank's own (RankOwn) and
  /// of which the checkpoint has none for this rank; these are left as they are. Null: they are an
  /// error, kNotFound.
  std::vector<std::string>* without_own = nullptr;
};

enum class FileFormat : uint8_t { kDsckpt, kSafetensors };

/// An open shard, or an open plain safetensors file (no checksums, objects, tree or attributes).
/// Opening reads and checks the index only: its cost does not depend on the size of the data. A
/// small shared handle; copies refer to the same open file. Thread-safe: all methods are const.
///
/// Names are looked up among tensors and aliases. Errors of all reads: kNotFound, kIoError,
/// kTruncated (the file shrank), kCorrupt (a checksum; encoded chunks are always checked),
/// kUnsupported (unknown encoding or dtype), kInvalidArgument.
class File {
 public:
  /// Errors: kNotFound, kPermissionDenied, kIoError; kNotCheckpoint (says what the file is, where
  /// known); kTruncated, kTrailingBytes, kCorrupt; kUnsupported (needs a newer version: says
  /// which).
  static Result<File> Open(const std::string& path, const OpenOptions& options = {});
  static Result<File> Open(std::shared_ptr<const Source> source, const OpenOptions& options = {});

  FileFormat format() const;
  const std::string& path() const;
  uint64_t file_bytes() const;
  /// "1.0" for a shard of format version 1.0; empty for plain safetensors.
  std::string format_version() const;

  uint32_t tensor_count() const;
  uint32_t alias_count() const;
  uint32_t object_count() const;
  /// In name order (bytes). REQUIRES: index < count.
  TensorInfo tensor(uint32_t index) const;
  AliasInfo alias(uint32_t index) const;
  ObjectInfo object(uint32_t index) const;
  /// By name, aliases followed: the info carries the target's own name.
  Result<TensorInfo> FindTensor(std::string_view name) const;
  Result<ObjectInfo> FindObject(std::string_view name) const;

  /// The pieces of logical tensors that a stored tensor holds, as declared when it was saved; none:
  /// it is a logical tensor of its own name, whole. Pieces of a form that this release does not
  /// know are left out.
  std::vector<OwnedPiece> Pieces(const TensorInfo& tensor) const;

  /// Digest of a tensor or object: equal for equal content, dtype and shape, wherever and however
  /// stored (spec/format.md, "Digests"). Not cryptographic. Nothing for plain safetensors.
  std::optional<Hash128> Digest(const TensorInfo& tensor) const;
  std::optional<Hash128> Digest(const ObjectInfo& object) const;
  /// The digest also of a tensor of plain safetensors, which is read as a whole for it: the one
  /// that it has in a shard. Where the file holds sums, Digest(), and nothing is read.
  Result<Hash128> ComputeDigest(const TensorInfo& tensor) const;

  /// Names of the subtrees and items that were declared to be the rank's own (RankOwn), in name
  /// order.
  std::vector<std::string_view> RankOwnNames() const;
  /// The rank whose own they are; 0 where there are none.
  uint32_t OwnerRank() const;
  /// Whether `name` is one of them or lies below one.
  bool IsRankOwn(std::string_view name) const;

  /// The elements without copying where raw and mapped, else in memory of the tensor's own (then
  /// checksums are checked).
  Result<Tensor> View(std::string_view name) const;
  /// A box of a tensor, row-major, into `out`; one range a dimension. Only the chunks that hold it
  /// are read.
  Status ReadSlice(std::string_view name, std::span<const Range> box,
                   std::span<std::byte> out) const;
  /// Many tensors into caller memory: reads in file order, page cache where resident, O_DIRECT
  /// where not, in parallel. Into device memory through pinned buffers, reads and copies
  /// overlapped. On failure the destinations hold undefined bytes.
  Status Load(std::span<const LoadRequest> requests, const LoadOptions& options = {}) const;
  /// An object's raw bytes, checksums checked.
  Result<std::vector<std::byte>> ReadObject(std::string_view name) const;
  /// The same into `sink`, chunk by chunk: objects of any size in memory of one chunk.
  Status ReadObject(std::string_view name, Sink& sink) const;

  /// Root of the state tree; nothing when the file has none (then it is a flat dict of its items).
  std::optional<Node> tree() const;
  /// The dict of attributes; nothing when the file has none.
  std::optional<Node> attributes() const;
  /// One attribute, kNotFound when absent.
  Result<Value> Attribute(std::string_view name) const;
  /// Members of the safetensors `__metadata__`, as in the JSON header (read on each call). Not
  /// checksummed in plain files.
  Result<std::vector<std::pair<std::string, std::string>>> Metadata() const;

  /// Reads the state back in place: matches `provider`'s description with the file by name. Nothing
  /// is written unless names, dtypes, shapes and sizes agree (kMismatch names what does not).
  /// Attributes and objects are restored last.
  Status Restore(const StateProvider& provider, const RestoreOptions& options = {}) const;

  struct Impl;  // Internal.
  explicit File(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace dsckpt

#endif  // DSCKPT_FILE_H_
