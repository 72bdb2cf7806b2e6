#ifndef DSCKPT_PROVIDER_H_
#define DSCKPT_PROVIDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/device.h"
#include "dsckpt/dtype.h"
#include "dsckpt/encoding.h"
#include "dsckpt/export.h"
#include "dsckpt/piece.h"
#include "dsckpt/status.h"
#include "dsckpt/tree.h"

namespace DSCKPT_EXPORT dsckpt {

/// When the engine may read an item's memory (arXiv 2406.10707, section 4.1: lazy capture).
enum class Capture : uint8_t {
  /// Behind the computation, until the fence that guards the next update. For memory that only the
  /// optimizer's update
  /// changes: parameters, optimizer state. Host tensors of at most 256 KiB are copied inside Save()
  /// all the same, which
  /// costs less than tracking them.
  kUntilFence = 0,
  /// Inside Save(): the memory may change as soon as Save() returns.
  kAtSave = 1,
};

/// A consumer of bytes in order. Implementations of user sinks need not be thread-safe: calls never
/// overlap.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Takes all of `bytes` or fails; after a failure it is not called again.
  virtual Status Write(std::span<const std::byte> bytes) = 0;
};

/// A tensor in host or device memory, as a provider describes it. Borrowed arrays (shape, strides)
/// are copied by Description::Tensor; the elements are not.
struct TensorSource {
  /// First element. Must stay live until captured, unless `owner` keeps it so. May be null for zero
  /// elements.
  const void* data = nullptr;
  DType dtype = DType::kU8;
  std::span<const int64_t> shape;
  /// In elements, one a dimension; may be zero (expanded) or negative. Empty: contiguous,
  /// row-major. Sub-byte dtypes must be contiguous.
  std::span<const int64_t> strides = {};
  Capture capture = Capture::kAtSave;
  Encoding encoding = Encoding::kRaw;
  /// True when `data` may be written by a restore.
  bool writable = false;
  /// Held by the engine until the tensor is captured. May be null.
  std::shared_ptr<const void> owner = {};
  /// Where `data` lies: kHostMemory, kDeviceOfPointer, or the ordinal of a device, which saves
  /// asking the runtime. Device tensors must be contiguous.
  int device = kHostMemory;
  /// Device tensors: the stream that wrote the tensor last. It is read as it is when this stream
  /// has done what it holds at Save(). With Capture::kAtSave what the stream is given after Save()
  /// waits on the device until the tensor was read; Save() does not.
  ///
  /// A caching allocator may hand freed memory to other work of the stream it was allocated on
  /// while a copy from it still runs. `owner` prevents that: give whatever keeps the allocation.
  /// Without an owner free the memory only after a fence (PyTorch: hold the tensor; record_stream
  /// is not needed, since the copies' own streams stay unknown to the allocator).
  Stream stream = nullptr;
  /// Which parts of logical tensors it holds, where it is a shard of something larger. Borrowed for
  /// the call. Where tied tensors are folded into one stored tensor, that one gets the pieces of
  /// all.
  std::span<const Piece> pieces = {};
  /// Instead of memory at `data`: makes bytes [offset, offset + out.size()) of the row-major image
  /// on demand, for tensors that are put together while they are written. Called on engine threads,
  /// several at once, until the tensor is captured; an error fails the save. Contiguous host
  /// tensors only, always captured until the fence. `data` is then a mere token, not null: tensors
  /// with the same one are tied.
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read = {};
};

/// Serialized bytes, as a provider describes them. Exactly one of `bytes` (with `size`) and `write`
/// is the source.
struct ObjectSource {
  std::string_view media_type = "application/octet-stream";
  Encoding encoding = Encoding::kRaw;
  /// Copied inside Save(): may change when it returns.
  const void* bytes = nullptr;
  uint64_t size = 0;
  /// Streams the object on an engine thread after Save() has returned, for snapshots that nothing
  /// changes any more: an object of any size needs no memory of its size. Must not call the engine.
  /// Called once a save.
  std::function<Status(Sink&)> write = {};
  /// Receives the stored bytes on restore. Null: a restore skips the object.
  std::function<Status(std::span<const std::byte>)> restore = {};
};

/// What one save (or restore) consists of: the pre-order walk of a state tree. Providers append to
/// it; the engine reads it. Names follow spec/format.md ("Names"): the keys from the root joined by
/// '/', escaped. Not thread-safe. Errors are sticky: after the first one every call does nothing,
/// and the save reports it; so providers need not check each call.
class Description {
 public:
  Description();
  ~Description();
  Description(Description&&) noexcept;
  Description& operator=(Description&&) noexcept;

  /// Stores no state tree: the keys of tensors and objects at the root are item names as they are,
  /// without escapes. For files whose names are no paths (safetensors). REQUIRES: nothing has been
  /// described yet. Containers and leaves are then refused; attributes are not.
  void Flat();

  /// Opens a container under `key`. At the root of a description a dict is open already: keys go
  /// straight into it. `kind` is kDict, kList or kTuple; `tag` a finer type for readers that know
  /// it.
  void Begin(NodeKind kind, Key key, std::string_view tag = {});
  /// Closes the innermost container. REQUIRES: one is open besides the root.
  void End();

  /// `tag`: a finer type for readers that know it, as Node::tag() gives it back.
  void Tensor(Key key, const TensorSource& source, std::string_view tag = {});
  void Object(Key key, const ObjectSource& source, std::string_view tag = {});
  void Leaf(Key key, const Value& value, std::string_view tag = {});

  /// An attribute of the whole checkpoint ("step", "loss"): a leaf of a separate dict, found
  /// without touching the tree. `restore` receives the stored value on restore; null: not restored.
  void Attribute(std::string_view name, const Value& value,
                 std::function<Status(const Value&)> restore = {});

  /// Encoding for raw tensors and objects described from now on; returns the one before. See
  /// WithEncoding().
  Encoding SetDefaultEncoding(Encoding encoding);

  /// Pieces for tensors described from now on that name none; returns the function before. See
  /// Sharded().
  PiecesOf SetDefaultPieces(PiecesOf pieces);

  /// Whose own what is described from now on is: see RankOwn(). Nothing: what all ranks share.
  /// Returns what was set before. Below a subtree that is a rank's own it cannot be taken back.
  std::optional<uint32_t> SetRankOwn(std::optional<uint32_t> rank);

  /// Makes the description fail with `status`, unless it failed already.
  void Fail(Status status);
  const Status& status() const;

  struct Data;  // Internal; state/description.h.
  const Data& data() const { return *data_; }
  Data& data() { return *data_; }

 private:
  std::unique_ptr<Data> data_;
};

/// Describes one piece of a training job's state. The engine moves the bytes and knows nothing
/// about models. Implementations must be callable from the thread that calls Save(); they need no
/// locking of their own.
class StateProvider {
 public:
  virtual ~StateProvider() = default;
  /// Appends this piece to `description`. Called once inside each Save() and each Restore(); memory
  /// named there must stay valid as its capture class says. A repeated save that describes the same
  /// names, dtypes and shapes reuses the layout.
  virtual void Describe(Description& description) const = 0;
};

/// Describes its parts one after another, in order. Holds references to them.
std::unique_ptr<StateProvider> Combine(std::vector<std::shared_ptr<const StateProvider>> parts);
/// Puts `part` into a dict under `key`: names gain "key/" in front.
std::unique_ptr<StateProvider> WithPrefix(std::string key,
                                          std::shared_ptr<const StateProvider> part);
/// Raw tensors and objects of `part` get `encoding`; kBytePlaneZstd falls back to kZstd where the
/// dtype is not floating.
std::unique_ptr<StateProvider> WithEncoding(Encoding encoding,
                                            std::shared_ptr<const StateProvider> part);
/// What `part` describes belongs to `rank` alone, of all ranks that save under the same names:
/// random states, positions of data loaders, statistics of a rank's own batches. Each of its
/// tensors NAME is the logical tensor "ranks/RANK/NAME" and none of another rank's, its objects and
/// values are never those of another rank; readers find them by rank (Checkpoint::Restore), and
/// tools show them under "ranks". Tensors of which other ranks hold parts cannot be in it.
std::unique_ptr<StateProvider> RankOwn(std::shared_ptr<const StateProvider> part, uint32_t rank);
/// A provider from a function.
std::unique_ptr<StateProvider> MakeProvider(std::function<void(Description&)> describe);

}  // namespace dsckpt

#endif  // DSCKPT_PROVIDER_H_
