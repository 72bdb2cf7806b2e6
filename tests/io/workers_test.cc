#include "io/workers.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <vector>

#include "io/error.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::io;

TEST_CASE("one worker keeps the order, several run everything before they go") {
  std::vector<int> order;
  {
    Workers one(1, "a-name-longer-than-fifteen");
    CHECK(one.count() == 1);
    for (int i = 0; i < 100; ++i) one.Run([&, i] { order.push_back(i); });
  }
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  std::atomic<int> ran = 0;
  {
    Workers several(3, "several");
    CHECK(several.count() == 3);
    for (int i = 0; i < 1000; ++i) {
      several.Run([&, i] {
        ++ran;
        if (i % 10 == 0) several.Run([&] { ++ran; });
      });
    }
  }
  CHECK(ran == 1100);
}

TEST_CASE("without a single thread jobs still run") {
  Workers none(0, "none");
  int ran = 0;
  none.Run([&] { ++ran; });
  CHECK(ran == 1);
}

TEST_CASE("worker counts") {
  CHECK(WorkerCount(3) == 3);
  CHECK(WorkerCount(100) == 100);
  CHECK(WorkerCount(0) >= 1);
  CHECK(WorkerCount(0) <= 8);
}

TEST_CASE("threads take no signals and carry their name, the caller's mask is as before") {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  char name[16] = {};
  bool blocked = false;
  StartThread("dsckpt-0123456789", [&] {
    pthread_getname_np(pthread_self(), name, sizeof name);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGXFSZ) == 1;
  }).join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  CHECK(std::string(name) == "dsckpt-01234567");
  CHECK(blocked);
  CHECK(sigismember(&before, SIGTERM) == sigismember(&after, SIGTERM));
  CHECK(sigismember(&after, SIGXFSZ) == 0);
}

TEST_CASE("errno becomes code, text and path") {
  struct Case {
    int error;
    StatusCode code;
  };
  for (auto [error, code] :
       {Case{ENOENT, StatusCode::kNotFound}, Case{EACCES, StatusCode::kPermissionDenied},
        Case{EPERM, StatusCode::kPermissionDenied}, Case{EROFS, StatusCode::kPermissionDenied},
        Case{ENOSPC, StatusCode::kNoSpace}, Case{EDQUOT, StatusCode::kNoSpace},
        Case{EFBIG, StatusCode::kNoSpace}, Case{ENOMEM, StatusCode::kOutOfMemory},
        Case{EIO, StatusCode::kIoError}, Case{ENOTDIR, StatusCode::kIoError}}) {
    const Status status = ErrnoStatus(error, "open", "/a/b");
    CHECK(status.code() == code);
    CHECK(status.error_number() == error);
    CHECK(status.path() == "/a/b");
    CHECK(status.message() == std::string("cannot open '/a/b': ") + strerror(error));
  }
}
