// Files and their verification of dsckpt/c.h.

#include "dsckpt/file.h"

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
#include "dsckpt/verify.h"
#include "format/checksum.h"
#include "format/names.h"

namespace dsckpt::c {
namespace {

dsckpt_tensor_info ToC(const TensorInfo& in) {
  dsckpt_tensor_info out = {};
  out.name = ToText(in.name);
  out.shape = in.shape.data();
  out.rank = in.shape.size();
  out.dtype = static_cast<int32_t>(in.dtype.code);
  out.encoding = static_cast<int32_t>(in.encoding);
  out.raw_bytes = in.raw_bytes;
  out.stored_bytes = in.stored_bytes;
  out.offset = in.offset;
  out.ordinal = in.ordinal;
  return out;
}

dsckpt_object_info ToC(const ObjectInfo& in) {
  dsckpt_object_info out = {};
  out.name = ToText(in.name);
  out.media_type = ToText(in.media_type);
  out.raw_bytes = in.raw_bytes;
  out.stored_bytes = in.stored_bytes;
  out.offset = in.offset;
  out.encoding = static_cast<int32_t>(in.encoding);
  out.ordinal = in.ordinal;
  return out;
}

Status Load(const File& file, const dsckpt_load_request* requests, size_t count,
            int device = kHostMemory, Stream stream = nullptr) {
  if (count > 0) DSCKPT_RETURN_IF_ERROR(NotNull(requests, "requests"));
  std::vector<LoadRequest> loads;
  loads.reserve(count);
  for (const dsckpt_load_request& request : std::span(requests, count)) {
    DSCKPT_RETURN_IF_ERROR(NotNull(request.name, "a request's name"));
    LoadRequest load;
    load.name = request.name;
    load.data = request.data;
    load.bytes = request.bytes;
    if (request.strides != nullptr) load.strides = std::span(request.strides, request.rank);
    load.device = device;
    load.stream = stream;
    loads.push_back(load);
  }
  return file.Load(loads);
}

Status ReadSlice(const File& file, const char* name, const int64_t* begin, const int64_t* end,
                 size_t rank, void* out, uint64_t bytes) {
  if (rank > 0) {
    DSCKPT_RETURN_IF_ERROR(NotNull(begin, "begin"));
    DSCKPT_RETURN_IF_ERROR(NotNull(end, "end"));
  }
  std::vector<Range> box;
  for (size_t i = 0; i < rank; ++i) box.push_back({begin[i], end[i]});
  return file.ReadSlice(name, box, std::span(static_cast<std::byte*>(out), bytes));
}

Status ReadObject(const File& file, const char* name, void* out, uint64_t bytes) {
  DSCKPT_ASSIGN_OR_RETURN(const ObjectInfo info, file.FindObject(name));
  if (info.raw_bytes != bytes) {
    return Status(StatusCode::kInvalidArgument,
                  "object '" + std::string(name) + "' has " + std::to_string(info.raw_bytes) +
                      " bytes, room given for " + std::to_string(bytes));
  }
  DSCKPT_ASSIGN_OR_RETURN(const auto object, file.ReadObject(name));
  if (!object.empty()) std::memcpy(out, object.data(), object.size());
  return {};
}

template <typename T>
Result<T> TypedAttribute(const dsckpt_file* file, const char* name, const char* kind) {
  DSCKPT_RETURN_IF_ERROR(NotNull(file, "file"));
  DSCKPT_RETURN_IF_ERROR(NotNull(name, "name"));
  DSCKPT_ASSIGN_OR_RETURN(const Value value, file->file.Attribute(name));
  if (const T* typed = std::get_if<T>(&value)) return *typed;
  return Status(StatusCode::kMismatch,
                "attribute '" + std::string(name) + "' is not " + std::string(kind));
}

Status CopyString(const std::string& text, const char* name, char* out, size_t capacity,
                  size_t* needed) {
  if (needed != nullptr) *needed = text.size() + 1;
  if (capacity <= text.size()) {
    return Status(StatusCode::kInvalidArgument,
                  "attribute '" + std::string(name) + "' needs " + std::to_string(text.size() + 1) +
                      " bytes, room given for " + std::to_string(capacity));
  }
  DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
  std::memcpy(out, text.c_str(), text.size() + 1);
  return {};
}

Status Verify(const char* path, const dsckpt_verify_options* options) {
  DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
  dsckpt_verify_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_verify_options"));
  VerifyOptions verify_options;
  verify_options.decode = in.decode != 0;
  verify_options.threads = in.threads;
  DSCKPT_ASSIGN_OR_RETURN(const VerifyReport report, dsckpt::Verify(path, verify_options));
  if (in.on_problem != nullptr) {
    for (const Problem& p : report.problems) {
      const dsckpt_problem problem = {p.item.c_str(), p.kind.c_str(), p.offset, p.expected.c_str(),
                                      p.found.c_str()};
      in.on_problem(in.user, &problem);
    }
  }
  if (report.ok) return {};
  if (report.problems.empty()) return Status(StatusCode::kCorrupt, "not whole").WithPath(path);
  const Problem& first = report.problems.front();
  return Status(StatusCode::kCorrupt, format::Printable(first.item) + ": " + first.kind +
                                          ", expected " + first.expected + ", found " + first.found)
      .WithPath(path)
      .WithOffset(first.offset);
}

// Runs `body(const File&)` with the arguments that nearly every call shares checked.
template <typename Body>
int WithFile(const dsckpt_file* file, dsckpt_error* error, Body&& body) noexcept {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(file, "file"));
    return body(file->file);
  });
}

template <typename Body>
int WithItem(const dsckpt_file* file, const char* name, dsckpt_error* error, Body&& body) noexcept {
  return WithFile(file, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(name, "name"));
    return body(open);
  });
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::File;
using dsckpt::Status;
using dsckpt::c::CopyIn;
using dsckpt::c::CopyOut;
using dsckpt::c::Guard;
using dsckpt::c::NotNull;
using dsckpt::c::ToC;
using dsckpt::c::ToText;
using dsckpt::c::WithFile;
using dsckpt::c::WithItem;

extern "C" {

int dsckpt_file_open(const char* path, const dsckpt_open_options* options, dsckpt_file** out,
                     dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    dsckpt_open_options in;
    DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_open_options"));
    dsckpt::OpenOptions open_options;
    open_options.map = in.no_map == 0;
    open_options.threads = in.threads;
    open_options.ignore_header = in.ignore_header != 0;
    DSCKPT_ASSIGN_OR_RETURN(File file, File::Open(path, open_options));
    *out = new dsckpt_file{std::move(file)};
    return {};
  });
}

void dsckpt_file_destroy(dsckpt_file* file) { delete file; }

uint64_t dsckpt_file_bytes(const dsckpt_file* file) {
  return file == nullptr ? 0 : file->file.file_bytes();
}

int dsckpt_file_verifiable(const dsckpt_file* file) {
  return file == nullptr ? 0 : static_cast<int>(file->file.verifiable());
}

uint32_t dsckpt_file_tensor_count(const dsckpt_file* file) {
  return file == nullptr ? 0 : file->file.tensor_count();
}

uint32_t dsckpt_file_alias_count(const dsckpt_file* file) {
  return file == nullptr ? 0 : file->file.alias_count();
}

uint32_t dsckpt_file_object_count(const dsckpt_file* file) {
  return file == nullptr ? 0 : file->file.object_count();
}

int dsckpt_file_tensor(const dsckpt_file* file, uint32_t index, dsckpt_tensor_info* out,
                       dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(dsckpt::c::CheckIndex(index, open.tensor_count(), "tensor", "file"));
    return CopyOut(ToC(open.tensor(index)), out, "dsckpt_tensor_info");
  });
}

int dsckpt_file_object(const dsckpt_file* file, uint32_t index, dsckpt_object_info* out,
                       dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(dsckpt::c::CheckIndex(index, open.object_count(), "object", "file"));
    return CopyOut(ToC(open.object(index)), out, "dsckpt_object_info");
  });
}

int dsckpt_file_alias(const dsckpt_file* file, uint32_t index, dsckpt_text* name, uint32_t* target,
                      dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(dsckpt::c::CheckIndex(index, open.alias_count(), "alias", "file"));
    const dsckpt::AliasInfo alias = open.alias(index);
    if (name != nullptr) *name = ToText(alias.name);
    if (target != nullptr) *target = alias.target;
    return {};
  });
}

uint32_t dsckpt_file_vendor_count(const dsckpt_file* file) {
  return file == nullptr ? 0 : static_cast<uint32_t>(file->file.Vendor().size());
}

int dsckpt_file_vendor(const dsckpt_file* file, uint32_t index, dsckpt_text* name,
                       dsckpt_text* data, dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    const auto entries = open.Vendor();
    const auto count = static_cast<uint32_t>(entries.size());
    DSCKPT_RETURN_IF_ERROR(dsckpt::c::CheckIndex(index, count, "vendor entry", "file"));
    if (name != nullptr) *name = ToText(entries[index].first);
    if (data != nullptr) *data = ToText(entries[index].second);
    return {};
  });
}

int dsckpt_file_content_digest(const dsckpt_file* file, char out[33], dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    const auto content = open.ContentDigest();
    if (!content) {
      return Status(dsckpt::StatusCode::kNotFound,
                    "the file records no digest of its content: it is plain safetensors or of "
                    "format 1.0")
          .WithPath(open.path());
    }
    std::memcpy(out, dsckpt::format::ToHex(*content).c_str(), 33);
    return {};
  });
}

int dsckpt_file_find_tensor(const dsckpt_file* file, const char* name, dsckpt_tensor_info* out,
                            dsckpt_error* error) {
  return WithItem(file, name, error, [&](const File& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto info, open.FindTensor(name));
    return CopyOut(ToC(info), out, "dsckpt_tensor_info");
  });
}

int dsckpt_file_find_object(const dsckpt_file* file, const char* name, dsckpt_object_info* out,
                            dsckpt_error* error) {
  return WithItem(file, name, error, [&](const File& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto info, open.FindObject(name));
    return CopyOut(ToC(info), out, "dsckpt_object_info");
  });
}

int dsckpt_file_tensor_statistics(const dsckpt_file* file, const char* name,
                                  dsckpt_tensor_statistics* out, dsckpt_error* error) {
  return WithItem(file, name, error, [&](const File& open) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto info, open.FindTensor(name));
    if (const auto statistics = open.Statistics(info)) {
      return dsckpt::c::CopyOut(*statistics, out);
    }
    return Status(dsckpt::StatusCode::kNotFound,
                  "the file has no statistics of tensor '" + std::string(name) +
                      "': save it with `statistics`; packed dtypes have none")
        .WithPath(open.path());
  });
}

int dsckpt_file_view(const dsckpt_file* file, const char* name, dsckpt_view** out,
                     dsckpt_error* error) {
  return WithItem(file, name, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(auto tensor, open.View(name));
    *out = new dsckpt_view{std::move(tensor)};
    return {};
  });
}

const void* dsckpt_view_data(const dsckpt_view* view) {
  return view == nullptr ? nullptr : view->tensor.bytes().data();
}

uint64_t dsckpt_view_bytes(const dsckpt_view* view) {
  return view == nullptr ? 0 : view->tensor.bytes().size();
}

void dsckpt_view_destroy(dsckpt_view* view) { delete view; }

int dsckpt_file_load(const dsckpt_file* file, const dsckpt_load_request* requests, size_t count,
                     dsckpt_error* error) {
  return WithFile(file, error,
                  [&](const File& open) { return dsckpt::c::Load(open, requests, count); });
}

int dsckpt_file_load_device(const dsckpt_file* file, const dsckpt_load_request* requests,
                            size_t count, int device, void* stream, dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    if (device < 0 && device != DSCKPT_DEVICE_OF_POINTER) {
      return Status(dsckpt::StatusCode::kInvalidArgument,
                    "device " + std::to_string(device) +
                        " is neither an ordinal nor DSCKPT_DEVICE_OF_POINTER");
    }
    return dsckpt::c::Load(open, requests, count, device, stream);
  });
}

int dsckpt_file_read(const dsckpt_file* file, const char* name, void* out, uint64_t bytes,
                     dsckpt_error* error) {
  const dsckpt_load_request request = {name, out, bytes, nullptr, 0};
  return dsckpt_file_load(file, &request, 1, error);
}

int dsckpt_file_read_slice(const dsckpt_file* file, const char* name, const int64_t* begin,
                           const int64_t* end, size_t rank, void* out, uint64_t bytes,
                           dsckpt_error* error) {
  return WithItem(file, name, error, [&](const File& open) {
    return dsckpt::c::ReadSlice(open, name, begin, end, rank, out, bytes);
  });
}

int dsckpt_file_read_object(const dsckpt_file* file, const char* name, void* out, uint64_t bytes,
                            dsckpt_error* error) {
  return WithItem(file, name, error,
                  [&](const File& open) { return dsckpt::c::ReadObject(open, name, out, bytes); });
}

int dsckpt_file_attribute_int(const dsckpt_file* file, const char* name, int64_t* out,
                              dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(*out, dsckpt::c::TypedAttribute<int64_t>(file, name, "an int64"));
    return {};
  });
}

int dsckpt_file_attribute_double(const dsckpt_file* file, const char* name, double* out,
                                 dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
    DSCKPT_ASSIGN_OR_RETURN(*out, dsckpt::c::TypedAttribute<double>(file, name, "a double"));
    return {};
  });
}

int dsckpt_file_attribute_string(const dsckpt_file* file, const char* name, char* out,
                                 size_t capacity, size_t* needed, dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto text,
                            dsckpt::c::TypedAttribute<std::string>(file, name, "a string"));
    return dsckpt::c::CopyString(text, name, out, capacity, needed);
  });
}

int dsckpt_file_restore(const dsckpt_file* file, const dsckpt_state* state,
                        const dsckpt_restore_options* options, dsckpt_error* error) {
  return WithFile(file, error, [&](const File& open) -> Status {
    DSCKPT_RETURN_IF_ERROR(NotNull(state, "state"));
    DSCKPT_ASSIGN_OR_RETURN(const auto restore_options, dsckpt::c::ToRestoreOptions(options));
    return open.Restore(*state, restore_options);
  });
}

int dsckpt_verify(const char* path, const dsckpt_verify_options* options, dsckpt_error* error) {
  return Guard(error, [&] { return dsckpt::c::Verify(path, options); });
}

}  // extern "C"
