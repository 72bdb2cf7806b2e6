#ifndef DSCKPT_TORCH_H_
#define DSCKPT_TORCH_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dsckpt/export.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"

// Tensors of libtorch as sources and targets. Everything is in this header: the library itself
// knows nothing of PyTorch. It is for programs that have PyTorch's headers; dsckpt.h does not
// include it.
//
//   dsckpt::State state;
//   DSCKPT_RETURN_IF_ERROR(dsckpt::AddModule(state, "model", *model));
//   DSCKPT_RETURN_IF_ERROR(dsckpt::AddTensor(state, "adam/m", m));

namespace DSCKPT_EXPORT dsckpt {

namespace torch_internal {

inline constexpr std::array kScalarTypes = {
    std::pair{at::kBool, DType::kBool},
    std::pair{at::kByte, DType::kU8},
    std::pair{at::kChar, DType::kI8},
    std::pair{at::ScalarType::UInt16, DType::kU16},
    std::pair{at::kShort, DType::kI16},
    std::pair{at::ScalarType::UInt32, DType::kU32},
    std::pair{at::kInt, DType::kI32},
    std::pair{at::ScalarType::UInt64, DType::kU64},
    std::pair{at::kLong, DType::kI64},
    std::pair{at::kHalf, DType::kF16},
    std::pair{at::kBFloat16, DType::kBF16},
    std::pair{at::kFloat, DType::kF32},
    std::pair{at::kDouble, DType::kF64},
    std::pair{at::kComplexFloat, DType::kC64},
    std::pair{at::kComplexDouble, DType::kC128},
    std::pair{at::kFloat8_e4m3fn, DType::kF8E4M3},
    std::pair{at::kFloat8_e5m2, DType::kF8E5M2},
    std::pair{at::kFloat8_e4m3fnuz, DType::kF8E4M3FNUZ},
    std::pair{at::kFloat8_e5m2fnuz, DType::kF8E5M2FNUZ},
};

inline Status Refuse(StatusCode code, std::string_view name, const std::string& why) {
  return Status(code, "tensor '" + std::string(name) + "' " + why);
}

/// OK when `tensor` is elements of a known dtype at an address, on the CPU or a CUDA device.
inline Status Check(std::string_view name, const at::Tensor& tensor);

inline std::string Escaped(std::string_view segment) {
  std::string out;
  for (const char c : segment) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

}  // namespace torch_internal

/// Returns the dtype by which elements of a torch dtype are stored. Returns nothing for those that
/// the format lacks (quantized dtypes, bits).
inline std::optional<DType> DTypeOf(at::ScalarType type) {
  for (const auto& [scalar, dtype] : torch_internal::kScalarTypes) {
    if (scalar == type) return dtype;
  }
  return std::nullopt;
}

/// Returns the torch dtype of a stored dtype. Returns nothing where torch has none (packed dtypes).
inline std::optional<at::ScalarType> ScalarTypeOf(DType type) {
  for (const auto& [scalar, dtype] : torch_internal::kScalarTypes) {
    if (dtype == type) return scalar;
  }
  return std::nullopt;
}

inline Status torch_internal::Check(std::string_view name, const at::Tensor& tensor) {
  if (!tensor.defined()) return Refuse(StatusCode::kInvalidArgument, name, "is undefined");
  if (tensor.layout() != at::kStrided || tensor.is_conj() || tensor.is_neg()) {
    return Refuse(StatusCode::kUnsupported, name,
                  "is no plain strided tensor: make it dense, and resolve_conj() or resolve_neg()");
  }
  if (!DTypeOf(tensor.scalar_type())) {
    return Refuse(StatusCode::kUnsupported, name,
                  std::string("has the dtype ") + at::toString(tensor.scalar_type()) +
                      ", which is not stored");
  }
  if (!tensor.is_cpu() && !tensor.is_cuda()) {
    return Refuse(StatusCode::kUnsupported, name,
                  "is on the device " + tensor.device().str() + ": copy it to the CPU first");
  }
  if (tensor.is_cuda() && !tensor.is_contiguous()) {
    return Refuse(StatusCode::kUnsupported, name,
                  "lies on a device and is not contiguous: register tensor.contiguous()");
  }
  return {};
}

/// How AddTensor() treats one tensor. The defaults fit parameters and optimizer state.
struct TorchOptions {
  /// When the engine may read the memory.
  Capture capture = Capture::kUntilFence;
  /// How the elements are stored.
  Encoding encoding = Encoding::kRaw;
  /// For CUDA tensors: the stream that writes the tensor, such as
  /// c10::cuda::getCurrentCUDAStream(). Null is the default stream. See TensorSource::stream.
  Stream stream = nullptr;
  /// The parts of logical tensors that the tensor holds; copied. See TensorSource::pieces.
  std::span<const Piece> pieces = {};
};

/// Registers a tensor to be saved and restored. It is strided on the CPU, or contiguous on a CUDA
/// device. `name` is a path, as for State::AddTensor(). `state` holds a reference to the tensor's
/// storage. Where `tensor` gets other memory later (set_data, resize_), the old memory stays the
/// registered one: make a new State then.
/// Errors: kInvalidArgument for an undefined tensor; kUnsupported for a sparse or quantized one, or
/// one on another kind of device.
inline Status AddTensor(State& state, std::string_view name, const at::Tensor& tensor,
                        const TorchOptions& options = {}) {
  DSCKPT_RETURN_IF_ERROR(torch_internal::Check(name, tensor));
  const DType dtype = *DTypeOf(tensor.scalar_type());
  const auto owner = std::make_shared<c10::Storage>(tensor.storage());
  const std::span<const int64_t> shape(tensor.sizes().data(), tensor.sizes().size());
  if (tensor.is_cuda()) {
    state.AddDeviceTensor(name, tensor.data_ptr(), dtype, shape, options.stream,
                          {.capture = options.capture,
                           .encoding = options.encoding,
                           .device = tensor.get_device(),
                           .owner = owner,
                           .pieces = options.pieces});
    return {};
  }
  const std::span<const int64_t> strides(tensor.strides().data(), tensor.strides().size());
  state.AddTensor(name, tensor.data_ptr(), dtype, shape,
                  {.capture = options.capture,
                   .encoding = options.encoding,
                   .strides = tensor.is_contiguous() ? std::span<const int64_t>() : strides,
                   .owner = owner,
                   .pieces = options.pieces});
  return {};
}

/// Registers the parameters and the buffers of a torch::nn::Module as "PREFIX/NAME". Parameters are
/// treated as `options` say. Buffers are captured inside Save(), because forward passes change
/// them.
/// Errors: those of AddTensor().
template <typename Module>
Status AddModule(State& state, std::string_view prefix, const Module& module,
                 const TorchOptions& options = {}) {
  const auto name = [&](const auto& item) {
    return std::string(prefix) + "/" + torch_internal::Escaped(item.key());
  };
  for (const auto& item : module.named_parameters()) {
    DSCKPT_RETURN_IF_ERROR(AddTensor(state, name(item), item.value(), options));
  }
  TorchOptions at_save = options;
  at_save.capture = Capture::kAtSave;
  for (const auto& item : module.named_buffers()) {
    DSCKPT_RETURN_IF_ERROR(AddTensor(state, name(item), item.value(), at_save));
  }
  return {};
}

/// Returns a stored tensor as a CPU tensor: the mapped file itself where that can be, without a
/// copy. It must not be written to: clone() it first. It keeps the file open.
/// Errors: those of File::View(); kUnsupported where torch has no such dtype.
inline Result<at::Tensor> ViewTensor(const File& file, std::string_view name) {
  DSCKPT_ASSIGN_OR_RETURN(Tensor found, file.View(name));
  const auto type = ScalarTypeOf(found.info().dtype.code);
  if (!type) {
    return torch_internal::Refuse(
        StatusCode::kUnsupported, name,
        "has the dtype " + std::string(found.info().dtype.name) + ", which torch lacks");
  }
  const auto shape = found.info().shape;
  const at::IntArrayRef sizes(shape.data(), shape.size());
  void* const data = const_cast<std::byte*>(found.bytes().data());
  const auto owner = std::make_shared<Tensor>(std::move(found));
  return at::from_blob(
      data, sizes, [owner](void*) {}, at::TensorOptions(*type));
}

/// Reads a stored tensor into `tensor`, which has the same dtype and shape. It is strided on the
/// CPU, or contiguous on a CUDA device, where it is written after the work that `stream` holds.
/// Checksums are checked. For autograd it counts as a change in place.
/// Errors: kMismatch when dtype or shape differ; those of File::Load().
inline Status LoadTensor(const File& file, std::string_view name, const at::Tensor& tensor,
                         Stream stream = nullptr) {
  DSCKPT_RETURN_IF_ERROR(torch_internal::Check(name, tensor));
  DSCKPT_ASSIGN_OR_RETURN(const TensorInfo info, file.FindTensor(name));
  if (ScalarTypeOf(info.dtype.code) != tensor.scalar_type() ||
      tensor.sizes() != at::IntArrayRef(info.shape.data(), info.shape.size())) {
    return torch_internal::Refuse(StatusCode::kMismatch, name,
                                  "is stored with another dtype or shape than it is loaded into");
  }
  LoadRequest request;
  request.name = name;
  request.data = tensor.data_ptr();
  request.bytes = info.raw_bytes;
  request.device = tensor.is_cuda() ? tensor.get_device() : kHostMemory;
  request.stream = stream;
  if (!tensor.is_contiguous()) {
    request.strides = {tensor.strides().data(), tensor.strides().size()};
    request.bytes = tensor.storage().nbytes() -
                    static_cast<uint64_t>(tensor.storage_offset()) * tensor.element_size();
  }
  DSCKPT_RETURN_IF_ERROR(file.Load(std::span(&request, 1)));
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  return {};
}

}  // namespace dsckpt

#endif  // DSCKPT_TORCH_H_
