#ifndef DSCKPT_STATE_H_
#define DSCKPT_STATE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/export.h"
#include "dsckpt/provider.h"

namespace DSCKPT_EXPORT dsckpt {

/// How State::AddTensor() treats one tensor. The defaults fit parameters and optimizer state.
struct TensorOptions {
  /// When the engine may read the memory.
  Capture capture = Capture::kUntilFence;
  /// How the elements are stored.
  Encoding encoding = Encoding::kRaw;
  /// The strides in elements, one for each dimension; copied. Empty means contiguous and row-major.
  std::span<const int64_t> strides = {};
  /// What keeps the memory allocated: held by the State, and by each save until it has read the
  /// tensor. It may be null.
  std::shared_ptr<const void> owner = {};
  /// The parts of logical tensors that the tensor holds; copied. See TensorSource::pieces.
  std::span<const Piece> pieces = {};
};

/// How State::AddDeviceTensor() treats one tensor. The defaults fit parameters and optimizer state.
struct DeviceTensorOptions {
  /// When the engine may read the memory.
  Capture capture = Capture::kUntilFence;
  /// How the elements are stored.
  Encoding encoding = Encoding::kRaw;
  /// The ordinal of the tensor's device. With kDeviceOfPointer each save asks the device runtime.
  int device = kDeviceOfPointer;
  /// What keeps the memory allocated: held by the State, and by each save until it has read the
  /// tensor. It may be null.
  std::shared_ptr<const void> owner = {};
  /// The parts of logical tensors that the tensor holds; copied. See TensorSource::pieces.
  std::span<const Piece> pieces = {};
};

/// The provider for everyday use: register memory once, then save and restore with the same object.
///
/// Names are paths: "adam/m" is the key "m" in the dict "adam". A segment of decimal digits is an
/// int key. Inside a segment "~0" means '~', and "~1" means '/' (spec/format.md, "Names").
///
/// The State borrows the memory that is registered. It must outlive the State and every save that
/// has not been captured. Registering is not thread-safe; several threads may save and restore with
/// one State at once as long as none registers. An error of a registration (a bad shape, a name
/// given twice) is reported by the next Save() or Restore(), so that the calls need no checks.
class State final : public StateProvider {
 public:
  /// An empty state.
  State();
  ~State() override;
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;

  /// Registers a tensor of host memory. `shape` is in elements and is copied. By default the tensor
  /// is captured lazily: it must not change between Save() and the next Engine::Fence().
  void AddTensor(std::string_view name, void* data, DType dtype, std::span<const int64_t> shape,
                 const TensorOptions& options = {});
  /// The same with a shape in braces.
  void AddTensor(std::string_view name, void* data, DType dtype,
                 std::initializer_list<int64_t> shape, const TensorOptions& options = {}) {
    AddTensor(name, data, dtype, std::span(shape.begin(), shape.size()), options);
  }
  /// Registers a tensor that can be saved but not restored into: Restore() reports kMismatch.
  void AddConstTensor(std::string_view name, const void* data, DType dtype,
                      std::span<const int64_t> shape, const TensorOptions& options = {});
  /// Registers a contiguous tensor of device memory that `stream` writes; see TensorSource::stream.
  /// By default it is captured lazily: it must not change between Save() and the next
  /// Engine::FenceOnStream() or Engine::Fence(). A restore writes it after the work that `stream`
  /// holds. Where no device can be used, Save() and Restore() report kUnsupported.
  void AddDeviceTensor(std::string_view name, void* data, DType dtype,
                       std::span<const int64_t> shape, Stream stream,
                       const DeviceTensorOptions& options = {});
  /// The same with a shape in braces.
  void AddDeviceTensor(std::string_view name, void* data, DType dtype,
                       std::initializer_list<int64_t> shape, Stream stream,
                       const DeviceTensorOptions& options = {}) {
    AddDeviceTensor(name, data, dtype, std::span(shape.begin(), shape.size()), stream, options);
  }
  /// Registers a vector or array of host memory as a tensor of one dimension. The dtype follows
  /// from the element type (kDTypeOf).
  template <typename T>
  void AddTensor(std::string_view name, std::span<T> elements, const TensorOptions& options = {}) {
    static_assert(kDTypeOf<T> != DType{0},
                  "no dtype for this element type: give data, dtype and shape");
    AddTensor(name, elements.data(), kDTypeOf<T>, {static_cast<int64_t>(elements.size())}, options);
  }

  /// Registers `bytes` bytes of host memory as an object: the state of a random generator, a loss
  /// scaler, the position of a data loader, any trivially copyable struct. They are copied inside
  /// Save(). A restore needs the same size. In a job of several ranks, declare what differs from
  /// rank to rank with RankOwn().
  void AddBytes(std::string_view name, void* data, uint64_t bytes);
  /// Registers an object whose bytes a callback makes or takes; see ObjectSource. The media type is
  /// copied, the bytes are borrowed.
  void AddObject(std::string_view name, const ObjectSource& source);

  /// Declares that everything that is registered at `name` and below it, before or after this call,
  /// is the own of rank `rank`; see dsckpt::RankOwn(). Where nothing is registered at `name`, the
  /// next Save() reports kInvalidArgument.
  void RankOwn(std::string_view name, uint32_t rank);

  /// Registers an attribute of the file, such as "step". Save() reads it through the pointer, and a
  /// restore writes it through the pointer; a stored value of another type is kMismatch.
  void AddAttribute(std::string_view name, int64_t* value);
  /// The same for a floating-point number.
  void AddAttribute(std::string_view name, double* value);
  /// The same for a text in UTF-8.
  void AddAttribute(std::string_view name, std::string* value);

  /// Appends all registrations to `description`; the engine calls it.
  void Describe(Description& description) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt

#endif  // DSCKPT_STATE_H_
