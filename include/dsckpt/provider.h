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

/// When the engine may read the memory of an item. The idea of lazy capture is that of
/// DataStates-LLM (arXiv 2406.10707, section 4.1).
enum class Capture : uint8_t {
  /// The engine reads the memory in the background, at the latest by the next Engine::Fence(). Use
  /// it for memory that only the optimizer step changes: parameters and optimizer state. Host
  /// tensors of at most 256 KiB are copied inside Save() all the same, which costs less than
  /// tracking them.
  kUntilFence = 0,
  /// The engine copies the memory inside Save(). It may change as soon as Save() returns. For
  /// device memory, the copy is queued on the device instead; see TensorSource::stream.
  kAtSave = 1,
};

/// A consumer that takes bytes in order. Calls never overlap, so implementations need not be
/// thread-safe; they may come from different threads.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Takes all of `bytes`, or returns why it cannot. After a failure it is not called again.
  /// `bytes` are valid during the call only.
  virtual Status Write(std::span<const std::byte> bytes) = 0;
};

/// A tensor in host or device memory, as a provider describes it to Description::Tensor(). That
/// call copies the arrays (shape, strides, pieces). It does not copy the elements.
struct TensorSource {
  /// The first element. The memory must stay allocated until the tensor has been captured, unless
  /// `owner` keeps it so. It may be null for a tensor without elements.
  const void* data = nullptr;
  /// The element type.
  DType dtype = DType::kU8;
  /// The size of each dimension, in elements. An empty shape is a scalar.
  std::span<const int64_t> shape;
  /// The distance between neighbours in each dimension, in elements. A stride may be zero (an
  /// expanded dimension) or negative. An empty array means contiguous and row-major. Tensors of
  /// packed dtypes must be contiguous.
  std::span<const int64_t> strides = {};
  /// When the engine may read the memory.
  Capture capture = Capture::kAtSave;
  /// How the elements are stored. kRaw gives way to an encoding set by WithEncoding().
  Encoding encoding = Encoding::kRaw;
  /// Whether a restore may write to `data`.
  bool writable = false;
  /// What keeps the memory allocated. The engine holds it until the tensor has been captured. It
  /// may be null.
  std::shared_ptr<const void> owner = {};
  /// Where `data` lies: kHostMemory, kDeviceOfPointer, or the ordinal of a device, which spares a
  /// question to the device runtime. Device tensors must be contiguous.
  int device = kHostMemory;
  /// For device tensors: the stream that wrote the tensor last. The save contains the tensor as it
  /// is when this stream has finished the work that it holds at Save(). With Capture::kAtSave, work
  /// that the stream is given after Save() waits on the device until the tensor has been read; the
  /// host does not wait.
  ///
  /// A caching allocator may give freed memory to other work on the stream that it was allocated on
  /// while a copy from it still runs. `owner` prevents that: give what keeps the allocation.
  /// Without an owner, free the memory only after a fence. In PyTorch, holding the tensor is
  /// enough; record_stream is not needed.
  Stream stream = nullptr;
  /// Which parts of logical tensors the tensor holds, where it is a part of something larger. Where
  /// tied tensors are folded into one stored tensor, that one gets the pieces of all of them.
  std::span<const Piece> pieces = {};
  /// A function that makes bytes [offset, offset + out.size()) of the row-major image on demand,
  /// instead of memory at `data`, for tensors that are put together while they are written. Engine
  /// threads call it, several at once, until the tensor has been captured; an error fails the save.
  /// The tensor must be contiguous and in host memory, and is always captured by the fence. `data`
  /// is then a token that is not read and not null: tensors with the same token are tied.
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read = {};
};

/// Serialized bytes, as a provider describes them to Description::Object(). The source is either
/// `bytes` with `size`, or `write`; giving both is an error.
struct ObjectSource {
  /// What the bytes are (spec/format.md, "Media types").
  std::string_view media_type = "application/octet-stream";
  /// How the bytes are stored: kRaw or kZstd.
  Encoding encoding = Encoding::kRaw;
  /// The bytes. They are copied inside Save() and may change when it returns.
  const void* bytes = nullptr;
  /// The number of `bytes`.
  uint64_t size = 0;
  /// A function that streams the object to the sink. An engine thread calls it once for each save,
  /// after Save() has returned, so it is meant for snapshots that nothing changes any more. The
  /// object needs no memory of its size. The function must not call the engine; an error that it
  /// returns fails the save.
  std::function<Status(Sink&)> write = {};
  /// A function that receives the stored bytes on restore; they are valid during the call only.
  /// Where it is null, a restore skips the object.
  std::function<Status(std::span<const std::byte>)> restore = {};
};

/// What one save, or one restore, consists of: the pre-order walk of a state tree. Providers append
/// to it, and the engine reads it. The name of an item is made of the keys from the root, escaped
/// and joined by '/' (spec/format.md, "Names").
///
/// Not thread-safe. Errors are sticky: after the first one every call does nothing, and the save
/// reports that error. So providers need not check each call. A null pointer to memory, a key given
/// twice, and whatever exceeds a limit (dsckpt/limits.h) are such errors.
class Description {
 public:
  /// An empty description: a dict is open at the root.
  Description();
  ~Description();
  Description(Description&&) noexcept;
  Description& operator=(Description&&) noexcept;

  /// Declares that the file stores no state tree: the keys of tensors and objects at the root are
  /// item names as they are, without escapes. Use it for files whose names are no paths, such as
  /// safetensors files. Containers and leaves are refused from then on; attributes are not.
  /// REQUIRES: nothing has been described yet.
  void Flat();

  /// Opens a container under `key` in the innermost open container. The root is a dict that is open
  /// from the beginning. In a list or a tuple, `key` is Key(). `kind` is kDict, kList or kTuple.
  /// `tag` names a finer type for readers that know it; Node::tag() returns it.
  void Begin(NodeKind kind, Key key, std::string_view tag = {});
  /// Closes the innermost container. REQUIRES: a container besides the root is open.
  void End();

  /// Appends a tensor to the innermost container. `tag` as for Begin().
  void Tensor(Key key, const TensorSource& source, std::string_view tag = {});
  /// Appends an object (serialized bytes) to the innermost container. `tag` as for Begin().
  void Object(Key key, const ObjectSource& source, std::string_view tag = {});
  /// Appends a scalar, a text or short bytes to the innermost container. The value is copied into
  /// the index of the file. `tag` as for Begin().
  void Leaf(Key key, const Value& value, std::string_view tag = {});

  /// Appends an attribute of the whole file, such as "step" or "loss": a leaf of a dict apart,
  /// which readers find without touching the tree (spec/format.md, "Attributes"). `restore`
  /// receives the stored value on restore; where it is null, the attribute is not restored.
  void Attribute(std::string_view name, const Value& value,
                 std::function<Status(const Value&)> restore = {});

  /// Sets the encoding of tensors and objects that are described from now on with Encoding::kRaw.
  /// Returns the encoding that was set before. WithEncoding() uses it.
  Encoding SetDefaultEncoding(Encoding encoding);

  /// Sets the function that gives pieces to tensors that are described from now on without any.
  /// Returns the function that was set before. Sharded() uses it.
  PiecesOf SetDefaultPieces(PiecesOf pieces);

  /// Declares whose own everything is that is described from now on, as dsckpt::RankOwn() does.
  /// Nothing means that all ranks share it. Returns what was set before. Inside a subtree that is a
  /// rank's own the declaration cannot be taken back, and one description holds the own of one rank
  /// only.
  std::optional<uint32_t> SetRankOwn(std::optional<uint32_t> rank);

  /// Makes the description fail with `status`, unless it has failed already.
  void Fail(Status status);
  /// Returns the first error, or OK.
  const Status& status() const;

  struct Data;                                 // Internal; state/description.h.
  const Data& data() const { return *data_; }  // Internal.
  Data& data() { return *data_; }              // Internal.

 private:
  std::unique_ptr<Data> data_;
};

/// Describes a part of a training job's state. The engine moves the bytes and knows nothing about
/// models. The idea of composable state providers is that of DataStates-LLM (arXiv 2601.16956).
/// dsckpt::State is the provider for everyday use.
///
/// Describe() is called on the thread that calls Save() or Restore(), and needs no locks for that.
class StateProvider {
 public:
  virtual ~StateProvider() = default;
  /// Appends this part to `description`. Called once inside each Save() and each Restore(). The
  /// memory that it names must stay valid as long as Capture and TensorSource say. A save that
  /// describes the same names, dtypes and shapes as the one before reuses its file layout.
  virtual void Describe(Description& description) const = 0;
};

/// Returns a provider that describes `parts` one after another. It holds references to them.
std::unique_ptr<StateProvider> Combine(std::vector<std::shared_ptr<const StateProvider>> parts);
/// Returns a provider that puts `part` into a dict under `key`: names gain "key/" in front.
std::unique_ptr<StateProvider> WithPrefix(std::string key,
                                          std::shared_ptr<const StateProvider> part);
/// Returns a provider that gives `encoding` to those tensors and objects of `part` that ask for
/// Encoding::kRaw. Encoding::kBytePlaneZstd becomes kZstd where the elements are not floating-point
/// numbers of whole bytes.
std::unique_ptr<StateProvider> WithEncoding(Encoding encoding,
                                            std::shared_ptr<const StateProvider> part);
/// Returns a provider that declares that `part` belongs to rank `rank` alone, while other ranks
/// save others under the same names: random states, positions of data loaders, statistics of a
/// rank's own batches (spec/format.md, "What belongs to a rank").
///
/// A tensor NAME of it becomes the logical tensor "ranks/RANK/NAME", and none of another rank's.
/// Its objects and values are never taken for those of another rank. Readers find them by rank
/// (Checkpoint::Restore()), and tools show them under "ranks". A tensor with pieces cannot be in
/// it, because other ranks hold parts of the same logical tensor: the save reports
/// kInvalidArgument.
std::unique_ptr<StateProvider> RankOwn(std::shared_ptr<const StateProvider> part, uint32_t rank);
/// Returns a provider whose Describe() calls `describe`.
std::unique_ptr<StateProvider> MakeProvider(std::function<void(Description&)> describe);

}  // namespace dsckpt

#endif  // DSCKPT_PROVIDER_H_
