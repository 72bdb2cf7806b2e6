#ifndef DSCKPT_C_ABI_H_
#define DSCKPT_C_ABI_H_

// What the files of this folder share.

#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/c.h"
#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/provider.h"
#include "dsckpt/status.h"

/// The writer fills it, the reader restores into it: to both it is a provider.
struct dsckpt_state : dsckpt::StateProvider {};

struct dsckpt_engine {
  std::unique_ptr<dsckpt::Engine> engine;
};

struct dsckpt_file {
  dsckpt::File file;
};

struct dsckpt_view {
  dsckpt::Tensor tensor;
};

struct dsckpt_checkpoint {
  dsckpt::Checkpoint checkpoint;
};

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

/// Where a read puts its bytes.
Result<std::span<std::byte>> Room(void* out, uint64_t bytes);

inline dsckpt_text ToText(std::string_view text) { return {text.data(), text.size()}; }

/// kNotFound naming `what` when `index` is none of the `count` that `owner` has.
Status CheckIndex(uint64_t index, uint64_t count, const char* what, const char* owner);

/// `count` texts; kInvalidArgument naming `what` where one is null.
Result<std::vector<std::string>> ToTexts(const char* const* texts, size_t count, const char* what);

/// kInvalidArgument unless `value` is one of the constants from 0 to `last`.
Status CheckConstant(const char* what, int value, int last);

/// The C callback as the library calls it; empty for null.
std::function<void(const Event&)> ToEventCallback(void (*callback)(void*, int, const dsckpt_error*),
                                                  void* user);

Result<RestoreOptions> ToRestoreOptions(const dsckpt_restore_options* options);
Result<SaveOptions> ToSaveOptions(const dsckpt_save_options* options);

Status CopyOut(const TensorStatistics& in, dsckpt_tensor_statistics* out);

}  // namespace dsckpt::c

#endif  // DSCKPT_C_ABI_H_
