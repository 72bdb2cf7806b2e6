// States of dsckpt/c.h.

#include "dsckpt/state.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "c/abi.h"
#include "dsckpt/c.h"
#include "dsckpt/device.h"

struct dsckpt_sink {
  dsckpt::Sink* sink;
  dsckpt::Status status;
};

namespace dsckpt::c {
namespace {

struct TextAttribute {
  std::string name;
  char* buffer;
  size_t capacity;
};

// State has no attribute in a caller's character buffer; the first registration error is kept here
// because a C caller may ignore the code of the call that made it.
class CState final : public dsckpt_state {
 public:
  State state;
  std::vector<TextAttribute> texts;
  Status failure;

  void Describe(Description& description) const override {
    if (!failure.ok()) description.Fail(failure);
    state.Describe(description);
    for (const TextAttribute& text : texts) {
      const size_t bytes = strnlen(text.buffer, text.capacity);
      if (bytes == text.capacity) {
        description.Fail(Status(StatusCode::kInvalidArgument,
                                "attribute '" + text.name + "' has no NUL within its " +
                                    std::to_string(text.capacity) + " bytes"));
      }
      description.Attribute(text.name, std::string(text.buffer, bytes),
                            [text](const Value& value) { return Restore(text, value); });
    }
  }

 private:
  static Status Restore(const TextAttribute& text, const Value& value) {
    const std::string* stored = std::get_if<std::string>(&value);
    if (stored == nullptr) {
      return Status(StatusCode::kMismatch, "attribute '" + text.name + "' is no string");
    }
    if (stored->size() >= text.capacity || stored->find('\0') != std::string::npos) {
      return Status(StatusCode::kMismatch, "attribute '" + text.name + "' of " +
                                               std::to_string(stored->size()) +
                                               " bytes does not fit into a C string of " +
                                               std::to_string(text.capacity) + " bytes");
    }
    std::memcpy(text.buffer, stored->c_str(), stored->size() + 1);
    return {};
  }
};

// Runs one registration; its failure is returned and kept for the next save or restore.
template <typename Body>
int Register(dsckpt_state* handle, const char* name, dsckpt_error* error, Body&& body) noexcept {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(handle, "state"));
    auto& state = static_cast<CState&>(*handle);
    Status status = NotNull(name, "name");
    if (status.ok()) {
      try {
        status = body(state);
      } catch (const std::bad_alloc&) {
        status = Status(StatusCode::kOutOfMemory, {});
      }
    }
    if (state.failure.ok()) state.failure = status;
    return status;
  });
}

Result<Encoding> ToEncoding(int32_t encoding) {
  DSCKPT_RETURN_IF_ERROR(CheckConstant("encoding", encoding, DSCKPT_BYTE_PLANE_ZSTD));
  return static_cast<Encoding>(encoding);
}

/// A caller's pieces, with the boxes that views of them borrow.
class Pieces {
 public:
  Status Add(const dsckpt_piece& in) {
    DSCKPT_RETURN_IF_ERROR(NotNull(in.logical_name, "a piece's logical_name"));
    if (in.logical_rank > 0) {
      DSCKPT_RETURN_IF_ERROR(NotNull(in.logical_shape, "a piece's logical_shape"));
    }
    DSCKPT_RETURN_IF_ERROR(CheckConstant("a piece's form", in.form, DSCKPT_PIECE_FLAT));
    OwnedPiece piece;
    piece.logical_name = in.logical_name;
    piece.logical_shape.assign(in.logical_shape, in.logical_shape + in.logical_rank);
    piece.form = static_cast<Piece::Form>(in.form);
    piece.element_offset = in.element_offset;
    piece.replica_group = in.replica_group;
    if (piece.form == Piece::Form::kFlat) {
      piece.flat = {in.flat_begin, in.flat_end};
    } else if (in.logical_rank > 0) {
      DSCKPT_RETURN_IF_ERROR(NotNull(in.begin, "a piece's begin"));
      DSCKPT_RETURN_IF_ERROR(NotNull(in.end, "a piece's end"));
    }
    for (size_t i = 0; piece.form == Piece::Form::kBox && i < in.logical_rank; ++i) {
      piece.box.push_back({in.begin[i], in.end[i]});
    }
    owned_.push_back(std::move(piece));
    return {};
  }
  /// Valid until the next Add().
  std::vector<Piece> views() const {
    std::vector<Piece> views;
    for (const OwnedPiece& piece : owned_) views.push_back(piece.view());
    return views;
  }

 private:
  std::vector<OwnedPiece> owned_;
};

/// A tensor as one of the three calls gives it.
struct GivenTensor {
  const char* name;
  void* data;
  DType dtype;
  std::span<const int64_t> shape;
};

/// Where a tensor lies.
struct Place {
  int device = kHostMemory;
  Stream stream = nullptr;
  bool read_only = false;
};

/// What TensorOptions and DeviceTensorOptions have in common.
template <typename Options>
Result<Options> ToTensorOptions(const dsckpt_tensor_options& in, std::span<const Piece> pieces,
                                std::shared_ptr<const void> owner) {
  DSCKPT_RETURN_IF_ERROR(CheckConstant("capture", in.capture, DSCKPT_AT_SAVE));
  Options options;
  options.capture = static_cast<Capture>(in.capture);
  DSCKPT_ASSIGN_OR_RETURN(options.encoding, ToEncoding(in.encoding));
  options.pieces = pieces;
  options.owner = std::move(owner);
  return options;
}

Status AddHost(CState& state, const GivenTensor& tensor, bool read_only,
               const dsckpt_tensor_options& in, std::span<const Piece> pieces,
               std::shared_ptr<const void> owner) {
  DSCKPT_ASSIGN_OR_RETURN(TensorOptions options,
                          ToTensorOptions<TensorOptions>(in, pieces, std::move(owner)));
  if (in.strides != nullptr) options.strides = std::span(in.strides, tensor.shape.size());
  if (read_only) {
    state.state.AddConstTensor(tensor.name, tensor.data, tensor.dtype, tensor.shape, options);
  } else {
    state.state.AddTensor(tensor.name, tensor.data, tensor.dtype, tensor.shape, options);
  }
  return {};
}

Status AddDevice(CState& state, const GivenTensor& tensor, Place place,
                 const dsckpt_tensor_options& in, std::span<const Piece> pieces,
                 std::shared_ptr<const void> owner) {
  const std::string name = "tensor '" + std::string(tensor.name) + "': ";
  if (place.device < 0 && place.device != kDeviceOfPointer) {
    return Status(StatusCode::kInvalidArgument,
                  name + "device " + std::to_string(place.device) +
                      " is neither an ordinal nor DSCKPT_DEVICE_OF_POINTER");
  }
  if (in.strides != nullptr) {
    return Status(StatusCode::kUnsupported,
                  name + "device tensors are contiguous, leave strides zero");
  }
  DSCKPT_ASSIGN_OR_RETURN(DeviceTensorOptions options,
                          ToTensorOptions<DeviceTensorOptions>(in, pieces, std::move(owner)));
  options.device = place.device;
  state.state.AddDeviceTensor(tensor.name, tensor.data, tensor.dtype, tensor.shape, place.stream,
                              options);
  return {};
}

/// Calls the caller's `release` when nothing needs the memory any more.
struct Owner {
  void (*release)(void*) = nullptr;
  void* owner = nullptr;

  Owner() = default;
  ~Owner() {
    if (release != nullptr) release(owner);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
};

Status AddTensor(CState& state, const char* name, void* data, int dtype, const int64_t* shape,
                 size_t rank, Place place, const dsckpt_tensor_options* options) {
  dsckpt_tensor_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_tensor_options"));
  if (dtype < 0 || dtype > UINT16_MAX || !FindDType(static_cast<DType>(dtype))) {
    return Status(StatusCode::kInvalidArgument, "tensor '" + std::string(name) + "': dtype " +
                                                    std::to_string(dtype) + " is not registered");
  }
  if (rank > 0) DSCKPT_RETURN_IF_ERROR(NotNull(shape, "shape"));
  if (in.piece_count > 0) DSCKPT_RETURN_IF_ERROR(NotNull(in.pieces, "pieces"));
  Pieces pieces;
  for (const dsckpt_piece& piece : std::span(in.pieces, in.piece_count)) {
    DSCKPT_RETURN_IF_ERROR(pieces.Add(piece));
  }
  // The control block comes first and empty, so that a failure cannot call `release`.
  std::shared_ptr<Owner> owner;
  if (in.release != nullptr) owner = std::make_shared<Owner>();
  const GivenTensor tensor{name, data, static_cast<DType>(dtype), std::span(shape, rank)};
  const std::vector<Piece> views = pieces.views();
  DSCKPT_RETURN_IF_ERROR(place.device == kHostMemory
                             ? AddHost(state, tensor, place.read_only, in, views, owner)
                             : AddDevice(state, tensor, place, in, views, owner));
  if (owner != nullptr) {
    owner->owner = in.owner;
    owner->release = in.release;
  }
  return {};
}

Status AddObject(CState& state, const char* name, const dsckpt_object_source* source) {
  DSCKPT_RETURN_IF_ERROR(NotNull(source, "source"));
  dsckpt_object_source in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(source, in, "dsckpt_object_source"));
  ObjectSource object;
  // State keeps its own copy of the text.
  if (in.media_type != nullptr) object.media_type = in.media_type;
  DSCKPT_ASSIGN_OR_RETURN(object.encoding, ToEncoding(in.encoding));
  object.bytes = in.data;
  object.size = in.bytes;
  if (in.write != nullptr) {
    object.write = [write = in.write, user = in.user](Sink& sink) -> Status {
      dsckpt_sink wrapped = {&sink, {}};
      const int code = write(user, &wrapped);
      DSCKPT_RETURN_IF_ERROR(wrapped.status);
      return FromCode(code, "the object's write function");
    };
  }
  if (in.restore != nullptr) {
    object.restore = [restore = in.restore, user = in.user](std::span<const std::byte> bytes) {
      return FromCode(restore(user, bytes.data(), bytes.size()), "the object's restore function");
    };
  }
  state.state.AddObject(name, object);
  return {};
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::Status;
using dsckpt::c::CState;
using dsckpt::c::NotNull;
using dsckpt::c::Register;

extern "C" {

int dsckpt_state_create(dsckpt_state** out, dsckpt_error* error) {
  return dsckpt::c::Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    *out = new CState;
    return {};
  });
}

void dsckpt_state_destroy(dsckpt_state* state) { delete state; }

int dsckpt_state_add_tensor(dsckpt_state* state, const char* name, void* data, int dtype,
                            const int64_t* shape, size_t rank, const dsckpt_tensor_options* options,
                            dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) {
    return dsckpt::c::AddTensor(s, name, data, dtype, shape, rank, {}, options);
  });
}

int dsckpt_state_add_const_tensor(dsckpt_state* state, const char* name, const void* data,
                                  int dtype, const int64_t* shape, size_t rank,
                                  const dsckpt_tensor_options* options, dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) {
    // Not written through: the state knows it as read-only.
    return dsckpt::c::AddTensor(s, name, const_cast<void*>(data), dtype, shape, rank,
                                {.read_only = true}, options);
  });
}

int dsckpt_state_add_device_tensor(dsckpt_state* state, const char* name, void* data, int dtype,
                                   const int64_t* shape, size_t rank, int device, void* stream,
                                   const dsckpt_tensor_options* options, dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) -> Status {
    if (device == dsckpt::kHostMemory) {
      return Status(dsckpt::StatusCode::kInvalidArgument,
                    "device -1 is host memory: use dsckpt_state_add_tensor");
    }
    return dsckpt::c::AddTensor(s, name, data, dtype, shape, rank, {device, stream, false},
                                options);
  });
}

int dsckpt_state_add_bytes(dsckpt_state* state, const char* name, void* data, uint64_t bytes,
                           dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) -> Status {
    if (bytes > 0) DSCKPT_RETURN_IF_ERROR(NotNull(data, "data"));
    s.state.AddBytes(name, data, bytes);
    return {};
  });
}

int dsckpt_state_rank_own(dsckpt_state* state, const char* name, uint32_t rank,
                          dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) -> Status {
    s.state.RankOwn(name, rank);
    return {};
  });
}

int dsckpt_state_add_object(dsckpt_state* state, const char* name,
                            const dsckpt_object_source* source, dsckpt_error* error) {
  return Register(state, name, error,
                  [&](CState& s) { return dsckpt::c::AddObject(s, name, source); });
}

int dsckpt_sink_write(dsckpt_sink* sink, const void* data, uint64_t bytes) {
  return dsckpt::c::Guard(nullptr, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(sink, "sink"));
    if (sink->status.ok()) {
      sink->status = sink->sink->Write(std::span(static_cast<const std::byte*>(data), bytes));
    }
    return sink->status;
  });
}

int dsckpt_state_add_attribute_int(dsckpt_state* state, const char* name, int64_t* value,
                                   dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(value, "value"));
    s.state.AddAttribute(name, value);
    return {};
  });
}

int dsckpt_state_add_attribute_double(dsckpt_state* state, const char* name, double* value,
                                      dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(value, "value"));
    s.state.AddAttribute(name, value);
    return {};
  });
}

int dsckpt_state_add_attribute_string(dsckpt_state* state, const char* name, char* buffer,
                                      size_t capacity, dsckpt_error* error) {
  return Register(state, name, error, [&](CState& s) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(buffer, "buffer"));
    s.texts.push_back({name, buffer, capacity});
    return {};
  });
}

}  // extern "C"
