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
#include "dsckpt/tensor_statistics.h"
#include "dsckpt/tree.h"

namespace DSCKPT_EXPORT dsckpt {

/// How File::Open() opens a file.
struct OpenOptions {
  /// Whether the payload is mapped into memory. Where it is false, or where the file system
  /// refuses, views read into memory of their own. Touching a mapped file that somebody else has
  /// truncated raises SIGBUS: turn mapping off where that can happen.
  ///
  /// A mapped file holds no file descriptor until something of it has to be read. It is then opened
  /// again, or read from the mapping where another file has its name by now.
  bool map = true;
  /// The number of threads for File::Load() and for decoding. 0 means one for each core, at most 8.
  int threads = 0;
  /// Whether a shard is opened although its JSON header lists other tensors than its index, or is
  /// no JSON: the index alone then says what the file holds. Programs that read safetensors see
  /// something else in such a file, or nothing. This is for saving what a damaged header left;
  /// Verify() says what is wrong with the header.
  bool ignore_header = false;
};

/// What a file says about one tensor. The texts and arrays are valid as long as the File, or a
/// Tensor of it, lives.
struct TensorInfo {
  /// The name of the item.
  std::string_view name;
  /// The element type. For a dtype that this release does not know, `dtype.name` is "unknown".
  DTypeInfo dtype;
  /// The size of each dimension, in elements.
  std::span<const int64_t> shape;
  /// The size of the elements, in bytes.
  uint64_t raw_bytes = 0;
  /// The size that the tensor takes in the file, in bytes: less than `raw_bytes` where compressed.
  uint64_t stored_bytes = 0;
  /// The position of the stored bytes, from the start of the file.
  uint64_t offset = 0;
  /// How the elements are stored.
  Encoding encoding = Encoding::kRaw;
  /// The position among the tensors of the file, in name order.
  uint32_t ordinal = 0;
};

/// What a file says about one object. The texts are valid as long as the File lives.
struct ObjectInfo {
  /// The name of the item.
  std::string_view name;
  /// What the bytes are (spec/format.md, "Media types").
  std::string_view media_type;
  /// The size of the object, in bytes.
  uint64_t raw_bytes = 0;
  /// The size that the object takes in the file, in bytes.
  uint64_t stored_bytes = 0;
  /// The position of the stored bytes, from the start of the file.
  uint64_t offset = 0;
  /// How the bytes are stored.
  Encoding encoding = Encoding::kRaw;
  /// The position among the objects of the file, in name order.
  uint32_t ordinal = 0;
};

/// A second name for a tensor, as tied weights have.
struct AliasInfo {
  /// The second name.
  std::string_view name;
  /// The ordinal of the tensor.
  uint32_t target = 0;
};

/// A read-only tensor whose elements lie in memory: in the mapped file, or in a buffer that the
/// tensor owns, where it was decoded or read without mmap. Copies share the elements, which stay
/// valid as long as any copy lives, also when the File is gone. The elements of a raw tensor of a
/// shard are aligned to the largest power of two, at most 4096, that divides their size in bytes.
/// Thread-safe: all methods are const.
class Tensor {
 public:
  /// Returns what the file says about the tensor.
  const TensorInfo& info() const { return info_; }
  /// Returns the elements in row-major order.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Returns whether `bytes()` is the mapped file itself. Its checksums have not been checked then.
  bool mapped() const { return mapped_; }
  /// Returns the elements as an array of T.
  /// Errors: kInvalidArgument when kDTypeOf<T> is not the tensor's dtype.
  template <typename T>
  Result<std::span<const T>> As() const {
    if (info_.dtype.code != kDTypeOf<T>) {
      return Status(StatusCode::kInvalidArgument, "tensor '" + std::string(info_.name) + "' is " +
                                                      std::string(info_.dtype.name) +
                                                      ", not the type asked for");
    }
    return std::span<const T>(reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T));
  }

  // Internal: tensors come from File::View().
  Tensor(TensorInfo info, std::span<const std::byte> bytes, bool mapped,
         std::shared_ptr<const void> owner)
      : info_(info), bytes_(bytes), mapped_(mapped), owner_(std::move(owner)) {}

 private:
  TensorInfo info_;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
  std::shared_ptr<const void> owner_;
};

/// A name with the digest of what it names; see TreeDigest().
struct NamedDigest {
  /// The name of the item.
  std::string name;
  /// The digest of the item; see File::Digest().
  Hash128 digest;
};

/// Returns one digest for many items. It is equal for equal names with equal content, whatever
/// files they are in: XXH3-128 over, for each item in the order of name bytes, the length of the
/// name (64 bits), the name, and the digest (low half first), integers little-endian. It is not
/// cryptographic. `dsckpt hash` prints it.
Hash128 TreeDigest(std::vector<NamedDigest> items);

/// One tensor that File::Load() reads, and the memory that it is read into. The memory is borrowed
/// for the call.
struct LoadRequest {
  /// The name of a tensor or of an alias.
  std::string_view name;
  /// Where the first element goes.
  void* data = nullptr;
  /// How many bytes there are at `data`. For a contiguous destination it is exactly the raw size of
  /// the tensor.
  uint64_t bytes = 0;
  /// The strides of the destination, in elements. Empty means contiguous and row-major, as device
  /// memory has to be.
  std::span<const int64_t> strides = {};
  /// Where `data` lies: kHostMemory, kDeviceOfPointer, or the ordinal of a device.
  int device = kHostMemory;
  /// For device memory: it is written after the work that this stream holds when Load() is called,
  /// and before Load() returns.
  Stream stream = nullptr;
};

/// How File::Load() reads.
struct LoadOptions {
  /// Whether the checksum of every chunk is checked while it passes. Encoded chunks are checked in
  /// any case. Where the file is not verifiable(), there is nothing to check raw tensors by, and
  /// they are loaded all the same.
  bool verify = true;
};

/// How File::Restore() and Checkpoint::Restore() read.
struct RestoreOptions {
  /// How tensors are loaded.
  LoadOptions load = {};
  /// Whether items that only the file or only the state has are allowed. Otherwise they are an
  /// error that names them (kMismatch). A checkpoint may hold items that the state lacks in any
  /// case.
  bool partial = false;
  /// For Checkpoint::Restore(): receives the names of the subtrees that the state describes as a
  /// rank's own (RankOwn()) and of which the checkpoint holds none of this rank. They are left as
  /// they are. Where the pointer is null, they are an error (kNotFound).
  std::vector<std::string>* without_own = nullptr;
};

/// What kind of file a File is.
enum class FileFormat : uint8_t {
  /// A dsckpt shard.
  kDsckpt,
  /// A plain safetensors file.
  kSafetensors
};

/// An open shard, or an open plain safetensors file, which has no checksums, objects, tree or
/// attributes. Opening reads and checks the index, and compares the JSON header with it, so its
/// cost does not depend on the size of the data. A File is a small handle: copies refer to the same
/// open file. Thread-safe: all methods are const.
///
/// Names are looked up among tensors and aliases. Errors of all reads: kNotFound, kIoError,
/// kTruncated (the file has become shorter), kCorrupt (a checksum does not match; those of encoded
/// chunks are always checked), kUnsupported (an encoding or dtype that this release does not know),
/// kInvalidArgument.
class File {
 public:
  /// Opens a file and reads its index.
  /// Errors: kNotFound, kPermissionDenied, kIoError; kNotCheckpoint, which says what the file is
  /// where that is known; kTruncated, kTrailingBytes, kCorrupt; kUnsupported, which says which
  /// version the file needs; kMismatch (the JSON header of a shard lists other tensors than its
  /// index).
  static Result<File> Open(const std::string& path, const OpenOptions& options = {});
  /// Opens bytes that are no local file. The File holds the source. OpenOptions::map has no effect.
  static Result<File> Open(std::shared_ptr<const Source> source, const OpenOptions& options = {});

  /// Returns whether the file is a shard or a plain safetensors file.
  FileFormat format() const;
  /// Returns the path that was given to Open(); it is empty for a Source.
  const std::string& path() const;
  /// Returns the size of the file, in bytes.
  uint64_t file_bytes() const;
  /// Returns the format version of a shard, such as "1.0". It is empty for plain safetensors.
  std::string format_version() const;
  /// Returns the id of the hash that the chunk sums of a shard are of (spec/format.md, "Hashes").
  /// It is 0 for plain safetensors, which has no sums.
  uint8_t hash_id() const;
  /// Returns whether this release can compute the chunk sums of the file. It is false for plain
  /// safetensors and for a shard whose hash_id() this release does not know. What is read of such a
  /// shard is not checked, but for the stored bytes of encoded chunks, whose sums are of one hash
  /// always. Nothing but this tells so: reads succeed.
  bool verifiable() const;

  /// Returns the number of tensors, without aliases.
  uint32_t tensor_count() const;
  /// Returns the number of aliases.
  uint32_t alias_count() const;
  /// Returns the number of objects.
  uint32_t object_count() const;
  /// Returns a tensor by its position in name order; names are ordered by their bytes.
  /// REQUIRES: index < tensor_count().
  TensorInfo tensor(uint32_t index) const;
  /// Returns an alias by its position in name order. REQUIRES: index < alias_count().
  AliasInfo alias(uint32_t index) const;
  /// Returns an object by its position in name order. REQUIRES: index < object_count().
  ObjectInfo object(uint32_t index) const;
  /// Finds a tensor by its name or by the name of an alias. The info carries the tensor's own name.
  /// Errors: kNotFound.
  Result<TensorInfo> FindTensor(std::string_view name) const;
  /// Finds an object by its name. Errors: kNotFound.
  Result<ObjectInfo> FindObject(std::string_view name) const;

  /// Returns the pieces of logical tensors that a stored tensor holds, as they were declared when
  /// it was saved. None means that it is a whole logical tensor of its own name. Pieces of a form
  /// that this release does not know are left out.
  std::vector<OwnedPiece> Pieces(const TensorInfo& tensor) const;

  /// Returns the digest of a tensor from the index, without reading data. It is equal for equal
  /// content, dtype and shape, whatever file the tensor is in and however it is stored
  /// (spec/format.md, "Checksums and digests"). It is not cryptographic. It is nothing where the
  /// file is not verifiable().
  std::optional<Hash128> Digest(const TensorInfo& tensor) const;
  /// The same for an object.
  std::optional<Hash128> Digest(const ObjectInfo& object) const;
  /// Returns the digest of a tensor also where Digest() is nothing: the whole tensor is then read
  /// and hashed. The outcome is the digest that the tensor would have in a shard of this release.
  Result<Hash128> ComputeDigest(const TensorInfo& tensor) const;
  /// The same for an object.
  Result<Hash128> ComputeDigest(const ObjectInfo& object) const;

  /// Returns the checksums of a tensor's chunks of 4 MiB, of their raw bytes, in order; the last
  /// one may be shorter. There is none in plain safetensors. Chunks of equal bytes have equal ones.
  /// The array is valid as long as the File lives.
  std::span<const Hash128> ChunkSums(const TensorInfo& tensor) const;

  /// Returns the digest of all that the shard holds, from the index: items with their names,
  /// aliases, pieces and the state tree, without attributes, metadata and vendor data. It is equal
  /// for equal state that is split in the same way, whatever the encodings and the places are
  /// (spec/format.md, "Digest of the content"). It is nothing for plain safetensors and for shards
  /// of format 1.0, which record none.
  std::optional<Hash128> ContentDigest() const;

  /// Returns the vendor data of the file (SaveOptions::vendor): names and bytes, in name order. The
  /// texts are valid as long as the File lives.
  std::vector<std::pair<std::string_view, std::string_view>> Vendor() const;

  /// Returns what the elements of a tensor are, in numbers, from the index, without reading data.
  /// It is nothing unless the file was saved with SaveOptions::statistics, and for packed dtypes.
  std::optional<TensorStatistics> Statistics(const TensorInfo& tensor) const;

  /// Returns the names of the subtrees and items that were declared to be the rank's own
  /// (RankOwn()), in name order. The texts are valid as long as the File lives.
  std::vector<std::string_view> RankOwnNames() const;
  /// Returns the rank whose own they are; it is 0 where there are none.
  uint32_t OwnerRank() const;
  /// Returns whether `name` is one of RankOwnNames() or lies below one.
  bool IsRankOwn(std::string_view name) const;

  /// Returns the elements of a tensor. Where it is raw, mapped and aligned for its dtype, they are
  /// those of the mapped file: nothing is copied, and no checksum is checked. Otherwise they are
  /// read into memory that the tensor owns, and checked.
  Result<Tensor> View(std::string_view name) const;
  /// Returns the elements where View() would not copy them; nothing elsewhere.
  std::optional<Tensor> MappedView(const TensorInfo& tensor) const;
  /// Reads a box of a tensor, row-major, into `out`, which has exactly its size. `box` has one
  /// range for each dimension. Only the chunks that hold parts of the box are read, and they are
  /// checked.
  Status ReadSlice(std::string_view name, std::span<const Range> box,
                   std::span<std::byte> out) const;
  /// Reads many tensors into the caller's memory: in file order, in parallel, through the page
  /// cache where the pages are resident, and past it (O_DIRECT) where they are not. Device memory
  /// is filled through pinned buffers, so that reads and copies overlap. After a failure the
  /// destinations hold undefined bytes.
  Status Load(std::span<const LoadRequest> requests, const LoadOptions& options = {}) const;
  /// Returns the raw bytes of an object. Its checksums are checked. Errors: also kOutOfMemory.
  Result<std::vector<std::byte>> ReadObject(std::string_view name) const;
  /// Writes the raw bytes of an object into `sink`, chunk by chunk, on the calling thread. Objects
  /// of any size take the memory of one chunk. An error of the sink is returned.
  Status ReadObject(std::string_view name, Sink& sink) const;

  /// Returns the root of the state tree. It is nothing when the file has none: the file is then a
  /// flat dict of its items.
  std::optional<Node> tree() const;
  /// Returns the dict of attributes, or nothing when the file has none.
  std::optional<Node> attributes() const;
  /// Returns the value of one attribute. Errors: kNotFound.
  Result<Value> Attribute(std::string_view name) const;
  /// Returns the members of the safetensors `__metadata__`, in the order of the JSON header, which
  /// is read by each call. In plain files no checksum covers them.
  Result<std::vector<std::pair<std::string, std::string>>> Metadata() const;

  /// Reads the state back in place: the items that `provider` describes are matched with those of
  /// the file by name. Nothing is written unless names, dtypes, shapes and sizes agree. Tensors are
  /// restored first, then objects, then attributes. An error after the comparison, such as
  /// kCorrupt, leaves the memory with a mixture of old and stored values.
  /// Errors: kMismatch, which names all that disagrees; those of all reads; those of the callbacks.
  Status Restore(const StateProvider& provider, const RestoreOptions& options = {}) const;

  struct Impl;  // Internal.
  // Internal: files come from Open().
  explicit File(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }  // Internal.

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Returns whether two objects are the same: their media types are equal, and so are their bytes.
/// Digests decide where both files have them; otherwise the objects are read.
/// Errors: those of reads.
Result<bool> SameObject(const File& file, const ObjectInfo& object, const File& other_file,
                        const ObjectInfo& other);

}  // namespace dsckpt

#endif  // DSCKPT_FILE_H_
