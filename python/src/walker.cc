#include "python/src/walker.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "dsckpt/limits.h"
#include "python/src/hold.h"
#include "python/src/status.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

/// Below it lie no elements: the storage was freed, and a tensor's offset may be added to null.
constexpr uintptr_t kLowestAddress = 4096;
/// From here on it is looked for containers that hold themselves: states are hardly ever so deep.
constexpr size_t kCycleDepth = 100;

std::optional<DType> FromDlpack(const nb::dlpack::dtype& type) {
  struct Row {
    uint8_t code, bits;
    DType dtype;
  };
  // Codes: DLDataTypeCode in the DLPack specification.
  static constexpr Row kRows[] = {
      {0, 8, DType::kI8},          {0, 16, DType::kI16},        {0, 32, DType::kI32},
      {0, 64, DType::kI64},        {1, 8, DType::kU8},          {1, 16, DType::kU16},
      {1, 32, DType::kU32},        {1, 64, DType::kU64},        {2, 16, DType::kF16},
      {2, 32, DType::kF32},        {2, 64, DType::kF64},        {4, 16, DType::kBF16},
      {5, 64, DType::kC64},        {5, 128, DType::kC128},      {6, 8, DType::kBool},
      {10, 8, DType::kF8E4M3},     {11, 8, DType::kF8E4M3FNUZ}, {12, 8, DType::kF8E5M2},
      {13, 8, DType::kF8E5M2FNUZ}, {14, 8, DType::kF8E8M0},
  };
  for (const Row& row : kRows) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  return std::nullopt;
}

bool IsContiguous(const nb::dlpack::dltensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Whether a tensor's values may be the conjugates or negatives of what its memory holds. DLPack
// does not say.
bool HasLazyBit(PyObject* tensor, DType dtype) {
  if (dtype == DType::kC64 || dtype == DType::kC128) return true;
  if (dtype != DType::kF16 && dtype != DType::kF32 && dtype != DType::kF64) return false;
  static PyObject* const is_neg = PyUnicode_InternFromString("is_neg");
  const nb::object negative = nb::steal(PyObject_CallMethodNoArgs(tensor, is_neg));
  if (!negative.is_valid()) throw nb::python_error();
  return negative.ptr() == Py_True;
}

// The key as the format takes it: exact str or int, no NUL, not too long.
std::optional<Key> ToKey(PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    const auto text = Utf8(key);
    if (!text || text->size() > kMaxNameBytes || text->find('\0') != std::string_view::npos) {
      return std::nullopt;
    }
    return Key(*text);
  }
  if (!PyLong_CheckExact(key)) return std::nullopt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(key, &overflow);
  if (overflow != 0) return std::nullopt;
  return Key(static_cast<int64_t>(value));
}

// DLPack gives torch's int1 to int7 and uint1 to uint7 the codes of whole bytes.
bool IsByteInteger(PyObject* tensor, DType dtype) {
  static PyObject* const names[] = {PyUnicode_InternFromString("dtype"),
                                    PyUnicode_InternFromString("int8"),
                                    PyUnicode_InternFromString("uint8")};
  const nb::object found = nb::steal(PyObject_GetAttr(tensor, names[0]));
  static PyObject* const torch = PyImport_ImportModule("torch");
  if (!found.is_valid() || torch == nullptr) throw nb::python_error();
  const nb::object whole = nb::steal(PyObject_GetAttr(torch, names[dtype == DType::kI8 ? 1 : 2]));
  if (!whole.is_valid()) throw nb::python_error();
  return found.ptr() == whole.ptr();
}

[[noreturn]] void ThrowChanged(const char* what) {
  ThrowInvalid(std::string("a ") + what + " of the state changed its size while it was saved");
}

}  // namespace

bool AllKeysFit(PyObject* dict) {
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (!ToKey(key)) return false;
  }
  return true;
}

Walker::Walker(nb::dict state, WalkerOptions options)
    : state_(std::move(state)), options_(std::move(options)) {
  exchange_ = FindExchange(options_.tensor_types);
  if (PyLong_Check(options_.tensor_capture.ptr())) {
    capture_all_ = nb::cast<int>(options_.tensor_capture);
  }
}

Walker::~Walker() { Release(); }

void Walker::Release() {
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
  buffers_.clear();
  kept_ = nb::list();
  held_ = nb::list();
  on_described_ = nb::none();
  state_ = nb::dict();
}

void Walker::Describe(Description& out) const {
  // The engine promises to describe on the thread that saves, once a save.
  auto& self = const_cast<Walker&>(*this);
  const GilHeld gil;
  self.lazy_ = nb::list();
  self.held_ = nb::list();
  self.tensor_count_ = 0;
  const Encoding before = out.SetDefaultEncoding(options_.encoding);
  try {
    self.DescribeAttributes(out);
    if (!AllKeysFit(state_.ptr())) {
      throw nb::value_error("the outermost dict has a key that is no str or int");
    }
    self.open_ = {state_.ptr()};
    self.WalkDict(out, state_.ptr());
    if (!on_described_.is_none() && out.status().ok()) CallPython(on_described_, lazy_, held_);
  } catch (nb::python_error& error) {
    self.raised_ = std::current_exception();
    // Other ranks of a group hear this.
    out.Fail(Status(StatusCode::kInvalidArgument, FromPython(error).message()));
  } catch (const std::exception& error) {
    self.raised_ = std::current_exception();
    out.Fail(Status(StatusCode::kInvalidArgument, error.what()));
  }
  self.path_.clear();
  self.positions_.clear();
  out.SetDefaultEncoding(before);
}

void Walker::Rethrow() {
  if (raised_ != nullptr) std::rethrow_exception(std::exchange(raised_, nullptr));
}

void Walker::DescribeAttributes(Description& out) {
  if (options_.attributes.is_none()) return;
  for (const auto& [key, object] : nb::cast<nb::dict>(options_.attributes)) {
    if (!nb::isinstance<nb::str>(key)) {
      ThrowInvalid("attributes have str keys, not " + std::string(nb::repr(key).c_str()));
    }
    const auto value = ToValue(object.ptr());
    const auto name = nb::cast<std::string>(key);
    if (!value) {
      ThrowInvalid(
          "attribute '" + name + "' is a " + nb::type_name(object.type()).c_str() +
          ": give None, bool, int, float, complex, str or bytes (of a tensor, its item())");
    }
    out.Attribute(name, *value);
  }
}

void Walker::WalkDict(Description& out, PyObject* dict) {
  PyObject *key = nullptr, *value = nullptr;
  const Py_ssize_t size = PyDict_GET_SIZE(dict);
  for (Py_ssize_t at = 0; out.status().ok() && PyDict_Next(dict, &at, &key, &value);) {
    // A callback, or another thread meanwhile, may change the dict.
    const nb::object key_kept = nb::borrow(key), value_kept = nb::borrow(value);
    const auto usable = ToKey(key);
    if (!usable || PyDict_GET_SIZE(dict) != size) ThrowChanged("dict");
    Walk(out, *usable, key, value);
  }
  if (PyDict_GET_SIZE(dict) != size) ThrowChanged("dict");
}

void Walker::WalkSequence(Description& out, PyObject* sequence) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; out.status().ok() && i < size; ++i) {
    if (PySequence_Fast_GET_SIZE(sequence) != size) break;
    const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(sequence, i));
    positions_.push_back(i);
    Walk(out, Key(), nullptr, item.ptr());
    positions_.pop_back();
  }
  if (PySequence_Fast_GET_SIZE(sequence) != size) ThrowChanged("list");
}

void Walker::RefuseCycle(PyObject* value) {
  const auto found = std::find(open_.begin(), open_.end(), value);
  if (found == open_.end()) return;
  nb::list path = Path();
  while (nb::len(path) > static_cast<size_t>(found - open_.begin())) path.attr("pop")();
  const nb::object place = CallPython(nb::module_::import_("dsckpt.errors").attr("place"), path);
  ThrowInvalid(nb::cast<std::string>(place) +
               " holds itself, which no tree can: save the parts that differ");
}

nb::list Walker::Path() const {
  nb::list path;
  size_t position = 0;
  for (PyObject* step : path_) {
    path.append(step != nullptr ? nb::object(nb::borrow(step))
                                : nb::object(nb::int_(positions_[position++])));
  }
  return path;
}

void Walker::Walk(Description& out, const Key& key, PyObject* key_object, PyObject* value) {
  path_.push_back(key_object);
  if (path_.size() > kCycleDepth) RefuseCycle(value);
  open_.push_back(value);
  const PyTypeObject* type = Py_TYPE(value);
  const auto& tensors = options_.tensor_types;
  if (std::find(tensors.begin(), tensors.end(), type) != tensors.end()) {
    if (!DescribeTensor(out, key, value)) WalkClassified(out, key, value);
  } else if (type == &PyDict_Type && AllKeysFit(value)) {
    WalkContainer(out, key, NodeKind::kDict, value, {});
  } else if (type == &PyList_Type) {
    WalkContainer(out, key, NodeKind::kList, value, {});
  } else if (type == &PyTuple_Type) {
    WalkContainer(out, key, NodeKind::kTuple, value, {});
  } else if (const auto leaf = ToValue(value)) {
    out.Leaf(key, *leaf);
  } else {
    WalkClassified(out, key, value);
  }
  open_.pop_back();
  path_.pop_back();
}

void Walker::WalkContainer(Description& out, const Key& key, NodeKind kind, PyObject* value,
                           std::string_view tag) {
  out.Begin(kind, key, tag);
  if (!out.status().ok()) return;  // Too deep, perhaps for ever.
  if (kind == NodeKind::kDict) {
    WalkDict(out, value);
  } else {
    WalkSequence(out, value);
  }
  if (out.status().ok()) out.End();
}

void Walker::WalkClassified(Description& out, const Key& key, PyObject* value) {
  const auto made = nb::cast<nb::tuple>(CallPython(options_.classify, nb::handle(value), Path()));
  const auto kind = nb::cast<std::string>(made[0]);
  if (kind == "tensor") {
    kept_.append(made[1]);
    return DescribeSpec(out, key, nb::cast<const TensorSpec&>(made[1]));
  }
  if (kind == "object") return DescribeObject(out, key, made);
  if (kind == "own") return WalkOwn(out, key, made[1]);
  const auto tag = nb::cast<std::string>(made[2]);
  if (kind == "leaf") {
    const auto leaf = ToValue(nb::object(made[1]).ptr());
    if (!leaf) throw nb::type_error("classify() returned a leaf that is none");
    return out.Leaf(key, *leaf, tag);
  }
  nb::object container = made[1];
  if (kind == "dict") {
    if (!PyDict_Check(container.ptr()) || !AllKeysFit(container.ptr())) {
      throw nb::type_error("classify() returned a dict with keys that are no str or int");
    }
    return WalkContainer(out, key, NodeKind::kDict, container.ptr(), tag);
  }
  container = nb::steal(PySequence_Fast(container.ptr(), "classify() returned no sequence"));
  if (!container.is_valid()) throw nb::python_error();
  WalkContainer(out, key, kind == "list" ? NodeKind::kList : NodeKind::kTuple, container.ptr(),
                tag);
}

void Walker::WalkOwn(Description& out, const Key& key, nb::object value) {
  kept_.append(value);
  PyObject* const step = path_.back();
  path_.pop_back();  // Walk() appends it.
  const std::optional<uint32_t> before =
      options_.rank ? out.SetRankOwn(options_.rank) : std::nullopt;
  Walk(out, key, step, value.ptr());
  if (options_.rank) (void)out.SetRankOwn(before);
  path_.push_back(step);
}

bool Walker::DescribeTensor(Description& out, const Key& key, PyObject* tensor) {
  if (exchange_ == nullptr) return false;
  nb::dlpack::dltensor lent;
  if (exchange_->lend(tensor, &lent) != 0) {
    PyErr_Clear();
    return false;
  }
  const auto dtype = FromDlpack(lent.dtype);
  if (dtype && HasLazyBit(tensor, *dtype)) return false;
  const bool bytes_alone = dtype == DType::kI8 || dtype == DType::kU8;
  if (bytes_alone && !IsByteInteger(tensor, *dtype)) return false;
  const bool host = lent.device.device_type == kDlCpu || lent.device.device_type == kDlCudaHost;
  const bool contiguous = IsContiguous(lent);
  if (!dtype || !(host || (lent.device.device_type == kDlCuda && contiguous))) return false;

  TensorSource source;
  const auto address = reinterpret_cast<uintptr_t>(lent.data) + lent.byte_offset;
  source.data = reinterpret_cast<const void*>(address);
  source.dtype = *dtype;
  source.shape = {lent.shape, static_cast<size_t>(lent.ndim)};
  if (!contiguous) source.strides = {lent.strides, static_cast<size_t>(lent.ndim)};
  source.device = host ? kHostMemory : lent.device.device_id;
  source.stream = host ? nullptr : StreamOf(source.device);
  uint64_t bytes = FindDType(*dtype)->block_bytes;
  for (const int64_t size : source.shape) bytes *= static_cast<uint64_t>(size);
  if (bytes > 0 && address < kLowestAddress) return false;
  source.capture = CaptureOf(address, bytes, source.device);
  KeepUntilRead(source, bytes, tensor, tensor);
  out.Tensor(key, source);
  ++tensor_count_;
  return true;
}

void Walker::DescribeSpec(Description& out, const Key& key, const TensorSpec& spec) {
  TensorSource source;
  source.data = reinterpret_cast<const void*>(spec.address);
  source.dtype = spec.dtype;
  source.shape = spec.shape;
  if (spec.strides) source.strides = *spec.strides;
  source.device = spec.device;
  source.stream = spec.device == kHostMemory ? nullptr : StreamOf(spec.device);
  std::vector<Piece> pieces;
  for (const OwnedPiece& piece : spec.pieces) pieces.push_back(piece.view());
  source.pieces = pieces;
  const auto info = FindDType(spec.dtype);
  const auto bytes = info ? TensorBytes(*info, spec.shape) : Result<uint64_t>(uint64_t{0});
  const uint64_t size = bytes.ok() ? bytes.value() : 0;  // Tensor() reports it.
  source.capture = spec.capture ? static_cast<Capture>(*spec.capture)
                                : CaptureOf(spec.address, size, spec.device);
  if (spec.owner.is_valid() && !spec.owner.is_none()) {
    source.owner = Hold(spec.owner);
    held_.append(spec.owner);
  }
  const nb::handle listed = spec.source.is_none() ? spec.owner : spec.source;
  if (source.capture == Capture::kUntilFence && !listed.is_none()) lazy_.append(listed);
  out.Tensor(key, source, spec.tag);
  ++tensor_count_;
}

void Walker::DescribeObject(Description& out, const Key& key, const nb::tuple& made) {
  const auto media_type = nb::cast<std::string>(made[1]);
  const nb::object payload = made[2];
  Py_buffer buffer;
  if (PyObject_GetBuffer(payload.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  buffers_.push_back(buffer);
  ObjectSource source;
  source.media_type = media_type;
  source.bytes = buffer.len == 0 ? nullptr : buffer.buf;
  source.size = static_cast<uint64_t>(buffer.len);
  out.Object(key, source, nb::cast<std::string>(made[3]));
}

Capture Walker::CaptureOf(uintptr_t address, uint64_t bytes, int device) {
  if (device == kHostMemory && options_.host_capture) {
    return static_cast<Capture>(*options_.host_capture);
  }
  if (capture_all_) return static_cast<Capture>(*capture_all_);
  if (!lazy_memory_.is_valid()) lazy_memory_ = CallPython(options_.tensor_capture);
  const bool lazy = nb::cast<Extents&>(lazy_memory_).Holds(address, bytes);
  return lazy ? Capture::kUntilFence : Capture::kAtSave;
}

void Walker::KeepUntilRead(TensorSource& source, uint64_t bytes, nb::handle owner,
                           nb::handle listed) {
  // Copied inside the save whatever its class (TensorSource::capture).
  const bool small = source.device == kHostMemory && bytes <= 256 * kKiB;
  const bool lazy = source.capture == Capture::kUntilFence;
  if (small || bytes == 0 || (!lazy && source.device == kHostMemory)) {
    kept_.append(owner);  // Another thread may take it out of the state meanwhile.
    return;
  }
  if (lazy) lazy_.append(listed);
  if (options_.owner_of.is_none()) return;
  const nb::object held = CallPython(options_.owner_of, owner);
  source.owner = Hold(held);
  held_.append(held);
}

Stream Walker::StreamOf(int device) {
  if (options_.stream_of.is_none()) return nullptr;
  const auto found = streams_.find(device);
  if (found != streams_.end()) return found->second;
  const auto handle = nb::cast<uintptr_t>(CallPython(options_.stream_of, device));
  return streams_[device] = reinterpret_cast<Stream>(handle);
}

}  // namespace dsckpt::python
