#include "dsckpt/status.h"

#include <cerrno>

#include "base/guarded.h"
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

TEST_CASE("the value of an error throws the status") {
  const Result<int> none = Status(StatusCode::kNotFound, "no such item").WithPath("/a");
  try {
    static_cast<void>(none.value());
    FAIL("nothing was thrown");
  } catch (const StatusError& error) {
    CHECK(error.status().code() == StatusCode::kNotFound);
    CHECK(error.status().path() == "/a");
    CHECK(std::string(error.what()) == "NotFound: no such item [/a]");
  }
  CHECK_THROWS_AS(*Result<int>(Status(StatusCode::kCorrupt, "")), std::exception);
  CHECK(*Result<int>(7) == 7);
  // A callback may let it pass.
  const Status guarded = Guarded([&] { return Status(StatusCode::kOk, std::to_string(*none)); });
  CHECK(guarded.code() == StatusCode::kNotFound);
  CHECK(guarded.message() == "no such item");
}

TEST_CASE("version") { CHECK(std::string(VersionString()).find('.') == 1); }
