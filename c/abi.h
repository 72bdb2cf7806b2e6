#ifndef DSCKPT_C_ABI_H_
#define DSCKPT_C_ABI_H_

// What the writing and the reading half of c.h share.

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "dsckpt/c.h"
#include "dsckpt/provider.h"
#include "dsckpt/status.h"

// What the writing and the reading half of dsckpt/c.h share.

/// The writer fills it, the reader restores into it: to both it is a provider.
struct dsckpt_state : dsckpt::StateProvider {};

namespace dsckpt::c {

/// Fills `error` (may be null) from a failed status and returns the code.
int Report(dsckpt_error* error, const Status& status) noexcept;

/// Runs `body`, which returns a Status, so that no exception passes into C.
template <typename Body>
int Guard(dsckpt_error* error, Body&& body) noexcept {
  try {
    return Report(error, std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    // An empty message: making one might need memory again.
    return Report(error, Status(StatusCode::kOutOfMemory, {}));
  } catch (...) {
    return Report(error, Status(StatusCode::kInternal, {}));
  }
}

/// kInvalidArgument naming `what` when `pointer` is null.
Status NotNull(const void* pointer, const char* what);

/// For code numbers that come back from C callbacks: OK for 0, else that code.
Status FromCode(int code, std::string_view doing);

Status CheckInputSize(const void* in, size_t in_bytes, size_t known_bytes, const char* type);

/// Copies a caller's options struct of another version into ours: what the caller lacks is zero,
/// what we do not know must be zero. Null: all zero.
template <typename Struct>
Status CopyIn(const Struct* in, Struct& out, const char* type) {
  out = Struct{};
  if (in == nullptr) return {};
  DSCKPT_RETURN_IF_ERROR(CheckInputSize(in, in->size, sizeof(Struct), type));
  std::memcpy(&out, in, in->size < sizeof(Struct) ? in->size : sizeof(Struct));
  return {};
}

/// Copies a result into a caller's struct of another version; its `size` stays as it was.
template <typename Struct>
Status CopyOut(Struct value, Struct* out, const char* type) {
  DSCKPT_RETURN_IF_ERROR(NotNull(out, type));
  value.size = out->size;
  if (value.size < sizeof(value.size)) {
    return Status(StatusCode::kInvalidArgument, std::string(type) + ": set its size first");
  }
  std::memcpy(out, &value, value.size < sizeof(Struct) ? value.size : sizeof(Struct));
  return {};
}

}  // namespace dsckpt::c

#endif  // DSCKPT_C_ABI_H_
