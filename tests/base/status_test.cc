#include "dsckpt/status.h"

#include <cerrno>

#include "dsckpt/version.h"
#include "tests/support/catch.h"

using namespace dsckpt;

TEST_CASE("status codes have pinned numbers and names") {
  const char* names[] = {"Ok",
                         "InvalidArgument",
                         "NotFound",
                         "AlreadyExists",
                         "PermissionDenied",
                         "NoSpace",
                         "IoError",
                         "NotCheckpoint",
                         "Truncated",
                         "TrailingBytes",
                         "Corrupt",
                         "Unsupported",
                         "LimitExceeded",
                         "Cancelled",
                         "DurabilityUnknown",
                         "FailedPrecondition",
                         "OutOfMemory",
                         "Mismatch",
                         "Internal"};
  for (int i = 0; i < 19; ++i)
    CHECK(std::string(StatusCodeName(static_cast<StatusCode>(i))) == names[i]);
  CHECK(std::string(StatusCodeName(static_cast<StatusCode>(999))) == "Unknown");
}

TEST_CASE("status text says what is known") {
  CHECK(Status().ToString() == "Ok");
  CHECK(Status(StatusCode::kCorrupt, "no").ToString() == "Corrupt: no");
  CHECK(Status(StatusCode::kCorrupt, "no").WithOffset(0).ToString() == "Corrupt: no [offset 0]");
  CHECK(Status(StatusCode::kNoSpace, "no")
            .WithPath("/a")
            .WithOffset(7)
            .WithErrno(ENOSPC)
            .ToString() == "NoSpace: no [/a, offset 7, No space left on device]");
}

TEST_CASE("version") { CHECK(std::string(VersionString()).find('.') == 1); }
