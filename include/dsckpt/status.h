#ifndef DSCKPT_STATUS_H_
#define DSCKPT_STATUS_H_

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "dsckpt/export.h"

namespace DSCKPT_EXPORT dsckpt {

/// Why an operation did not succeed. The numbers are part of the C ABI (dsckpt/c.h) and of the
/// conformance vectors: they are never reused or renumbered.
enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument =
      1,          ///< The caller's input cannot be meant: bad shape, reserved name, null memory.
  kNotFound = 2,  ///< No such file, item or key.
  kAlreadyExists = 3,     ///< The target stands already, or a name was given twice.
  kPermissionDenied = 4,  ///< EACCES, EPERM, EROFS.
  kNoSpace = 5,           ///< ENOSPC, EDQUOT, EFBIG.
  kIoError = 6,           ///< Any other failure of the operating system.
  kNotCheckpoint = 7,     ///< The file is neither a dsckpt shard nor a safetensors file.
  kTruncated = 8,         ///< Bytes are missing at the end of the file.
  kTrailingBytes = 9,     ///< Bytes follow the end of the file that its footer or header declares.
  kCorrupt = 10,          ///< A checksum, a structural rule or a bound does not hold.
  kUnsupported = 11,      ///< Valid, but needs a newer dsckpt or a feature that this build lacks.
  kLimitExceeded = 12,    ///< A limit of the format (dsckpt/limits.h) would be exceeded.
  kCancelled = 13,        ///< The save was cancelled or replaced before it was published.
  kDurabilityUnknown =
      14,  ///< Published, but a power cut may undo it: then the old stands, as complete as the new.
  kFailedPrecondition =
      15,  ///< Called in the wrong state, e.g. Save on an engine that is being closed.
  kOutOfMemory = 16,
  kMismatch = 17,  ///< Header and index, manifest and shard, or file and state to restore disagree.
  kInternal = 18,  ///< A defect of this library. Please report it.
  kTimedOut = 19,  ///< Other ranks of a group did not answer in time.
  kIncomplete = 20,  ///< A sharded checkpoint lacks shards, or parts of a tensor.
};

/// The name of a code without its `k`, e.g. "Corrupt". Never null.
const char* StatusCodeName(StatusCode code);

/// The outcome of an operation: a code and, when it failed, what a person needs to act on it.
/// A value type; safe to copy between threads. An OK status allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// A status of this code, with a message for a person to read. Status() is OK.
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  /// Returns whether the operation succeeded.
  bool ok() const { return code_ == StatusCode::kOk; }
  /// Returns why the operation did not succeed, or kOk.
  StatusCode code() const { return code_; }
  /// One sentence: the file, item and offset where known, expected and found, what to do next.
  const std::string& message() const { return message_; }
  /// The operating system's errno, or 0.
  int error_number() const { return error_number_; }
  /// The file concerned, or empty.
  const std::string& path() const { return path_; }
  /// Byte offset in that file, or -1.
  int64_t offset() const { return offset_; }

  /// Returns the same status with the errno of the operating system.
  Status&& WithErrno(int error_number) && {
    error_number_ = error_number;
    return std::move(*this);
  }
  /// Returns the same status with the path of the file concerned.
  Status&& WithPath(std::string_view path) && {
    path_ = path;
    return std::move(*this);
  }
  /// Returns the same status with a byte offset in that file.
  Status&& WithOffset(uint64_t offset) && {
    offset_ = static_cast<int64_t>(offset);
    return std::move(*this);
  }

  /// "Corrupt: <message> [path, offset N, errno text]", for logs. Not for parsing.
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  int error_number_ = 0;
  int64_t offset_ = -1;
  std::string message_;
  std::string path_;
};

#if defined(__cpp_exceptions)
/// What Result::value() throws where there is no value. what() is the text of the status.
class StatusError : public std::exception {
 public:
  /// Takes the status that says why there is no value.
  explicit StatusError(Status status) : status_(std::move(status)), text_(status_.ToString()) {}
  /// Returns the text of the status, as Status::ToString() makes it.
  const char* what() const noexcept override { return text_.c_str(); }
  /// Returns the status. It lives as long as this object.
  const Status& status() const noexcept { return status_; }

 private:
  Status status_;
  std::string text_;
};
#endif

/// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// Makes a result that holds `value`.
  Result(T value)
      : state_(std::in_place_index<1>, std::move(value)) {}  // NOLINT: implicit by design
  /// REQUIRES: !status.ok().
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {}  // NOLINT

  /// Returns whether there is a value.
  bool ok() const { return state_.index() == 1; }
  /// OK when there is a value.
  Status status() const {
    const Status* const error = std::get_if<0>(&state_);
    return error == nullptr ? Status() : *error;
  }

  /// The value. Where there is none this throws StatusError; in a program that is compiled without
  /// exceptions it traps.
  T& value() & {
    CheckValue();
    return *std::get_if<1>(&state_);
  }
  const T& value() const& {
    CheckValue();
    return *std::get_if<1>(&state_);
  }
  T&& value() && {
    CheckValue();
    return std::move(*std::get_if<1>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void CheckValue() const {
    if (ok()) return;
#if defined(__cpp_exceptions)
    throw StatusError(status());
#else
    __builtin_trap();
#endif
  }

  std::variant<Status, T> state_;
};

}  // namespace dsckpt

/// Returns from the enclosing function when `expression` (a Status) is an error.
#define DSCKPT_RETURN_IF_ERROR(expression)                                    \
  do {                                                                        \
    if (::dsckpt::Status dsckpt_status_ = (expression); !dsckpt_status_.ok()) \
      return dsckpt_status_;                                                  \
  } while (false)

#define DSCKPT_CONCAT_INNER_(a, b) a##b
#define DSCKPT_CONCAT_(a, b) DSCKPT_CONCAT_INNER_(a, b)
#define DSCKPT_ASSIGN_OR_RETURN_(result, lhs, expression) \
  auto result = (expression);                             \
  if (!result.ok()) return result.status();               \
  lhs = std::move(result).value()

/// `DSCKPT_ASSIGN_OR_RETURN(auto file, File::Open(path));`
#define DSCKPT_ASSIGN_OR_RETURN(lhs, expression) \
  DSCKPT_ASSIGN_OR_RETURN_(DSCKPT_CONCAT_(dsckpt_result_, __LINE__), lhs, expression)

#endif  // DSCKPT_STATUS_H_
