#include "c/abi.h"

#include <algorithm>
#include <string>

#include "dsckpt/dtype.h"
#include "dsckpt/version.h"

namespace dsckpt::c {
namespace {

static_assert(DSCKPT_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(DSCKPT_INCOMPLETE == static_cast<int>(StatusCode::kIncomplete));
static_assert(DSCKPT_CORRUPT == static_cast<int>(StatusCode::kCorrupt));
static_assert(DSCKPT_U4 == static_cast<int>(DType::kU4));
static_assert(DSCKPT_F32 == static_cast<int>(DType::kF32));
static_assert(DSCKPT_BYTE_PLANE_ZSTD == static_cast<int>(Encoding::kBytePlaneZstd));
static_assert(DSCKPT_AT_SAVE == static_cast<int>(Capture::kAtSave));
static_assert(sizeof(dsckpt_error) == 1024, "part of the binary interface");

// Copies as much of `text` as fits, never half a UTF-8 character.
void CopyText(std::string_view text, char* out, size_t capacity) {
  size_t bytes = std::min(text.size(), capacity - 1);
  if (bytes < text.size()) {
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  }
  std::memcpy(out, text.data(), bytes);
  out[bytes] = '\0';
}

}  // namespace

int Report(dsckpt_error* error, const Status& status) noexcept {
  const int code = static_cast<int>(status.code());
  if (status.ok() || error == nullptr) return code;
  error->code = code;
  error->error_number = status.error_number();
  error->offset = status.offset();
  try {
    CopyText(status.ToString(), error->message, sizeof error->message);
  } catch (...) {
    CopyText(StatusCodeName(status.code()), error->message, sizeof error->message);
  }
  return code;
}

Status NotNull(const void* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return Status(StatusCode::kInvalidArgument, std::string(what) + " is null");
}

Status FromCode(int code, std::string_view doing) {
  if (code == 0) return {};
  const bool known = code > 0 && code <= DSCKPT_INCOMPLETE;
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kInternal,
                std::string(doing) + " returned " + std::to_string(code));
}

Status CheckInputSize(const void* in, size_t in_bytes, size_t known_bytes, const char* type) {
  if (in_bytes < sizeof(size_t)) {
    return Status(StatusCode::kInvalidArgument,
                  std::string(type) + ".size is not set: use DSCKPT_INIT");
  }
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (size_t i = known_bytes; i < in_bytes; ++i) {
    if (bytes[i] != 0) {
      return Status(StatusCode::kUnsupported, std::string(type) + " sets byte " +
                                                  std::to_string(i) + ", which dsckpt " +
                                                  VersionString() + " does not know");
    }
  }
  return {};
}

Status CheckIndex(uint64_t index, uint64_t count, const char* what, const char* owner) {
  if (index < count) return {};
  return Status(StatusCode::kNotFound, std::string(what) + " " + std::to_string(index) +
                                           " asked for, the " + owner + " has " +
                                           std::to_string(count));
}

Result<std::span<std::byte>> Room(void* out, uint64_t bytes) {
  if (bytes > 0) DSCKPT_RETURN_IF_ERROR(NotNull(out, "out"));
  return std::span(static_cast<std::byte*>(out), static_cast<size_t>(bytes));
}

Result<std::vector<std::string>> ToTexts(const char* const* texts, size_t count, const char* what) {
  std::vector<std::string> out;
  if (count > 0) DSCKPT_RETURN_IF_ERROR(NotNull(texts, what));
  for (size_t i = 0; i < count; ++i) {
    DSCKPT_RETURN_IF_ERROR(NotNull(texts[i], what));
    out.emplace_back(texts[i]);
  }
  return out;
}

Status CheckConstant(const char* what, int value, int last) {
  if (value >= 0 && value <= last) return {};
  return Status(StatusCode::kInvalidArgument,
                std::string(what) + " " + std::to_string(value) + " is none of its constants");
}

std::function<void(const Event&)> ToEventCallback(void (*callback)(void*, int, const dsckpt_error*),
                                                  void* user) {
  if (callback == nullptr) return {};
  return [callback, user](const Event& event) {
    dsckpt_error error = {};
    Report(&error, event.status);
    callback(user, static_cast<int>(event.kind), &error);
  };
}

Result<RestoreOptions> ToRestoreOptions(const dsckpt_restore_options* options) {
  dsckpt_restore_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_restore_options"));
  RestoreOptions out;
  out.partial = in.partial != 0;
  out.load.verify = in.no_verify == 0;
  return out;
}

Result<SaveOptions> ToSaveOptions(const dsckpt_save_options* options) {
  dsckpt_save_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_save_options"));
  SaveOptions out;
  DSCKPT_RETURN_IF_ERROR(CheckConstant("container", in.container, DSCKPT_CONTAINER_SAFETENSORS));
  out.container = static_cast<Container>(in.container);
  if (in.metadata_format != nullptr) out.metadata_format = in.metadata_format;
  if (in.metadata_count > 0) {
    DSCKPT_RETURN_IF_ERROR(NotNull(in.metadata_keys, "metadata_keys"));
    DSCKPT_RETURN_IF_ERROR(NotNull(in.metadata_values, "metadata_values"));
  }
  for (size_t i = 0; i < in.metadata_count; ++i) {
    DSCKPT_RETURN_IF_ERROR(NotNull(in.metadata_keys[i], "a metadata key"));
    DSCKPT_RETURN_IF_ERROR(NotNull(in.metadata_values[i], "a metadata value"));
    out.metadata.emplace_back(in.metadata_keys[i], in.metadata_values[i]);
  }
  out.statistics = in.statistics != 0;
  if (in.vendor_count > 0) DSCKPT_RETURN_IF_ERROR(NotNull(in.vendor, "vendor"));
  for (size_t i = 0; i < in.vendor_count; ++i) {
    const dsckpt_vendor_entry& entry = in.vendor[i];
    DSCKPT_RETURN_IF_ERROR(NotNull(entry.name, "the name of a vendor entry"));
    if (entry.bytes > 0) DSCKPT_RETURN_IF_ERROR(NotNull(entry.data, "the data of a vendor entry"));
    out.vendor.emplace_back(entry.name,
                            std::string(static_cast<const char*>(entry.data), entry.bytes));
  }
  return out;
}

Status CopyOut(const TensorStatistics& in, dsckpt_tensor_statistics* out) {
  dsckpt_tensor_statistics value = {};
  value.nan = in.nan;
  value.inf = in.inf;
  value.zero = in.zero;
  value.min = in.min;
  value.max = in.max;
  value.sum = in.sum;
  value.sum_squares = in.sum_squares;
  return CopyOut(value, out, "dsckpt_tensor_statistics");
}

}  // namespace dsckpt::c

extern "C" {

const char* dsckpt_version(void) { return dsckpt::VersionString(); }

const char* dsckpt_code_name(int code) {
  return dsckpt::StatusCodeName(static_cast<dsckpt::StatusCode>(code));
}

const char* dsckpt_dtype_name(int dtype) {
  if (dtype < 0 || dtype > UINT16_MAX) return "unknown";
  const auto info = dsckpt::FindDType(static_cast<dsckpt::DType>(dtype));
  return info ? info->name.data() : "unknown";
}

}  // extern "C"
