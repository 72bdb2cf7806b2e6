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

/// How State::AddTensor() treats one tensor; the defaults fit parameters and optimizer state.
struct TensorOptions {
  Capture capture = Capture::kUntilFence;
  Encoding encoding = Encoding::kRaw;
  /// In elements; empty: contiguous, row-major.
  std::span<const int64_t> strides = {};
  std::shared_ptr<const void> owner = {};
  /// See TensorSource::pieces; copied.
  std::span<const Piece> pieces = {};
};

/// How State::AddDeviceTensor() treats one tensor.
struct DeviceTensorOptions {
  Capture capture = Capture::kUntilFence;
  Encoding encoding = Encoding::kRaw;
  /// Ordinal of the tensor's device, or kDeviceOfPointer: asked for at each save.
  int device = kDeviceOfPointer;
  std::shared_ptr<const void> owner = {};
  /// See TensorSource::pieces; copied.
  std::span<const Piece> pieces = {};
};

/// The everyday provider: register memory once, then save and restore with the same object (design:
/// one tree both ways). Names are paths: "adam/m" is key "m" in dict "adam"; a segment of decimal
/// digits is an int key; "~0" means '~' and
/// "~1" means '/' inside a segment (spec/format.md, "Names"). Registered memory is borrowed and
/// must outlive its use. Not thread-safe while registering; Save() and Restore() only read the
/// registrations. A registration error (bad shape, name given twice) is reported by the next Save()
/// or Restore().
class State final : public StateProvider {
 public:
  State();
  ~State() override;
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;

  /// A tensor of host memory, captured lazily: it must not change between Save() and the next
  /// Engine::Fence().
  void AddTensor(std::string_view name, void* data, DType dtype, std::span<const int64_t> shape,
                 const TensorOptions& options = {});
  void AddTensor(std::string_view name, void* data, DType dtype,
                 std::initializer_list<int64_t> shape, const TensorOptions& options = {}) {
    AddTensor(name, data, dtype, std::span(shape.begin(), shape.size()), options);
  }
  /// The same, read-only: it can be saved but not restored into.
  void AddConstTensor(std::string_view name, const void* data, DType dtype,
                      std::span<const int64_t> shape, const TensorOptions& options = {});
  /// A tensor of device memory that `stream` writes; see TensorSource::stream. Captured lazily: it
  /// must not change between Save() and the next Engine::FenceOnStream() or Fence(). Restoring
  /// writes it after what `stream` holds.
  void AddDeviceTensor(std::string_view name, void* data, DType dtype,
                       std::span<const int64_t> shape, Stream stream,
                       const DeviceTensorOptions& options = {});
  void AddDeviceTensor(std::string_view name, void* data, DType dtype,
                       std::initializer_list<int64_t> shape, Stream stream,
                       const DeviceTensorOptions& options = {}) {
    AddDeviceTensor(name, data, dtype, std::span(shape.begin(), shape.size()), stream, options);
  }
  /// A flat tensor of a vector or array: dtype and shape {size} follow from it.
  template <typename T>
  void AddTensor(std::string_view name, std::span<T> elements, const TensorOptions& options = {}) {
    static_assert(kDTypeOf<T> != DType{0},
                  "no dtype for this element type: give data, dtype and shape");
    AddTensor(name, elements.data(), kDTypeOf<T>, {static_cast<int64_t>(elements.size())}, options);
  }

  /// `bytes` bytes copied inside Save(), as an object: RNG state, loss scalers, loader positions,
  /// any trivially copyable struct. Restoring needs the same size. In a job of several ranks
  /// declare what differs between them with RankOwn().
  void AddBytes(std::string_view name, void* data, uint64_t bytes);
  /// An object whose bytes a callback makes or takes; see ObjectSource.
  void AddObject(std::string_view name, const ObjectSource& source);

  /// What is registered at `name` and below it, before or after this call, is `rank`'s own: see
  /// dsckpt::RankOwn(). A `name` at which nothing is registered is an error of the next Save().
  void RankOwn(std::string_view name, uint32_t rank);

  /// Attributes are read through the pointer inside Save() and written through it on restore.
  void AddAttribute(std::string_view name, int64_t* value);
  void AddAttribute(std::string_view name, double* value);
  void AddAttribute(std::string_view name, std::string* value);

  void Describe(Description& description) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt

#endif  // DSCKPT_STATE_H_
