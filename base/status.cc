// The names of status codes, and a status in words.

#include "dsckpt/status.h"

#include <system_error>

namespace dsckpt {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "Ok";
    case StatusCode::kInvalidArgument:
      return "InvalidArgument";
    case StatusCode::kNotFound:
      return "NotFound";
    case StatusCode::kAlreadyExists:
      return "AlreadyExists";
    case StatusCode::kPermissionDenied:
      return "PermissionDenied";
    case StatusCode::kNoSpace:
      return "NoSpace";
    case StatusCode::kIoError:
      return "IoError";
    case StatusCode::kNotCheckpoint:
      return "NotCheckpoint";
    case StatusCode::kTruncated:
      return "Truncated";
    case StatusCode::kTrailingBytes:
      return "TrailingBytes";
    case StatusCode::kCorrupt:
      return "Corrupt";
    case StatusCode::kUnsupported:
      return "Unsupported";
    case StatusCode::kLimitExceeded:
      return "LimitExceeded";
    case StatusCode::kCancelled:
      return "Cancelled";
    case StatusCode::kDurabilityUnknown:
      return "DurabilityUnknown";
    case StatusCode::kFailedPrecondition:
      return "FailedPrecondition";
    case StatusCode::kOutOfMemory:
      return "OutOfMemory";
    case StatusCode::kMismatch:
      return "Mismatch";
    case StatusCode::kInternal:
      return "Internal";
    case StatusCode::kTimedOut:
      return "TimedOut";
    case StatusCode::kIncomplete:
      return "Incomplete";
  }
  return "Unknown";
}

std::string Status::ToString() const {
  std::string text = StatusCodeName(code_);
  if (!message_.empty()) text += ": " + message_;
  const char* separator = " [";
  const auto append = [&](const std::string& part) {
    text += separator + part;
    separator = ", ";
  };
  if (!path_.empty()) append(path_);
  if (offset_ >= 0) append("offset " + std::to_string(offset_));
  // Not strerror: it may share a buffer between threads.
  if (error_number_ != 0) append(std::generic_category().message(error_number_));
  if (*separator == ',') text += ']';
  return text;
}

}  // namespace dsckpt
