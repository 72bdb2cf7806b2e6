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
