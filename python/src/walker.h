#ifndef DSCKPT_PYTHON_WALKER_H_
#define DSCKPT_PYTHON_WALKER_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsckpt/provider.h"
#include "python/src/dlpack.h"
#include "python/src/extents.h"

namespace dsckpt::python {

namespace nb = nanobind;

/// What Python says of a tensor that the walker cannot look at itself (class TensorSpec).
struct TensorSpec {
  uintptr_t address = 0;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;
  std::optional<std::vector<int64_t>> strides;
  int device = kHostMemory;
  std::optional<int> capture;
  nb::object owner;
  std::string tag;
  std::vector<OwnedPiece> pieces;
  nb::object source;
};

/// Whether a dict node takes all keys of a dict: exact str or int, as the format's names allow.
bool AllKeysFit(PyObject* dict);

struct WalkerOptions {
  nb::object classify;
  std::vector<PyTypeObject*> tensor_types;
  nb::object attributes;
  nb::object tensor_capture;  // int, or a function that returns Extents
  std::optional<int> host_capture;
  nb::object owner_of;   // or None
  nb::object stream_of;  // or None
  Encoding encoding = Encoding::kRaw;
  std::optional<uint32_t> rank;  // whose own marked values are; none: marks mean nothing
};

/// Describes a nested Python state. Made for one save, on the thread that saves; Describe() takes
/// the GIL, so that the rest of the save runs without it.
class Walker final : public StateProvider {
 public:
  Walker(nb::dict state, WalkerOptions options);
  ~Walker() override;

  void Describe(Description& description) const override;

  /// Rethrows what Python raised inside Describe(). GIL held.
  void Rethrow();
  /// Lets go of the state and of what had to live until the save returned. GIL held.
  void Release();

  const nb::list& lazy() const { return lazy_; }
  /// Called before anything is read, with lazy() and with what this save holds until it was read:
  /// storages, or tensors and arrays.
  void OnDescribed(nb::object call) { on_described_ = std::move(call); }
  size_t tensor_count() const { return tensor_count_; }

 private:
  void DescribeAttributes(Description& out);
  void WalkDict(Description& out, PyObject* dict);
  void WalkSequence(Description& out, PyObject* sequence);
  void Walk(Description& out, const Key& key, PyObject* key_object, PyObject* value);
  void WalkContainer(Description& out, const Key& key, NodeKind kind, PyObject* value,
                     std::string_view tag);
  void WalkClassified(Description& out, const Key& key, PyObject* value);
  /// A value without its mark.
  void WalkOwn(Description& out, const Key& key, nb::object value);
  nb::list Path() const;
  /// Throws if a value is one of those that it lies in.
  void RefuseCycle(PyObject* value);
  bool DescribeTensor(Description& out, const Key& key, PyObject* tensor);
  void DescribeSpec(Description& out, const Key& key, const TensorSpec& spec);
  void DescribeObject(Description& out, const Key& key, const nb::tuple& made);
  Capture CaptureOf(uintptr_t address, uint64_t bytes, int device);
  /// Owner and `lazy` entry of a tensor that is read after the save returned.
  void KeepUntilRead(TensorSource& source, uint64_t bytes, nb::handle owner, nb::handle listed);
  Stream StreamOf(int device);

  nb::dict state_;
  WalkerOptions options_;
  const DlpackExchange* exchange_ = nullptr;
  std::optional<int> capture_all_;
  nb::object lazy_memory_;  // Extents, once somebody has asked.
  std::unordered_map<int, Stream> streams_;
  std::vector<PyObject*> path_;  // Borrowed keys; null in a list or tuple, whose position is ...
  std::vector<Py_ssize_t> positions_;  // ... here.
  std::vector<PyObject*> open_;        // The values of path_, the whole state before them.
  std::vector<Py_buffer> buffers_;
  nb::list lazy_;
  nb::list held_;
  nb::object on_described_ = nb::none();
  nb::list kept_;
  size_t tensor_count_ = 0;
  std::exception_ptr raised_;
};

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_WALKER_H_
