// Faults that the kernel itself makes. They need root: without it the cases pass unseen.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "io/output_file.h"
#include "tests/support/catch.h"
#include "tests/support/io_test_util.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;

namespace {

/// Runs `body` on a thread that sees a fresh 8 MiB tmpfs at `where`, if the system permits.
void WithSmallTmpfs(const std::string& where, const std::function<void()>& body) {
  std::thread([&] {
    if (unshare(CLONE_FS | CLONE_NEWNS) != 0) return;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    if (mount("none", where.c_str(), "tmpfs", 0, "size=8m") != 0) return;
    body();
    umount2(where.c_str(), MNT_DETACH);
  }).join();
}

}  // namespace

TEST_CASE("C25 a full file system: short, then ENOSPC, the old file stays") {
  TempDir dir;
  Memory data = Pattern(3 << 20);
  for (auto backend : {IoQueueOptions::Backend::kAuto, IoQueueOptions::Backend::kThreads}) {
    WithSmallTmpfs(dir.path(), [&] {
      auto queue = IoQueue::Create({.backend = backend, .depth = 2}, {}).value();
      WriteWholeFile(dir / "f", std::string(1 << 20, 'o'));
      {
        Warnings warnings;
        auto file = OutputFile::Create(dir / "f", true, warnings.sink()).value();
        CHECK(Write(*file, *queue, data.bytes(), 0).ok());
        CHECK(Write(*file, *queue, data.bytes(), 3 << 20).ok());
        const Status status = Write(*file, *queue, data.bytes(), 6 << 20);
        CHECK(status.code() == StatusCode::kNoSpace);
        CHECK(status.error_number() == ENOSPC);
        CHECK(status.path() == dir / "f");
        CHECK(status.offset() >= 6 << 20);
        CHECK(file->Reserve(9 << 20).code() == StatusCode::kNoSpace);
        CHECK(warnings.seen().size() <= 1);
      }
      CHECK(Names(dir.path()) == std::vector<std::string>{"f"});
      CHECK(ReadWholeFile(dir / "f") == std::string(1 << 20, 'o'));
    });
  }
}

TEST_CASE("C27 a read-only file system") {
  TempDir dir;
  WithSmallTmpfs(dir.path(), [&] {
    if (mount("none", dir.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return;
    const Status status = OutputFile::Create(dir / "f", true, {}).status();
    CHECK(status.code() == StatusCode::kPermissionDenied);
    CHECK(status.error_number() == EROFS);
    CHECK(status.path() == dir / "f");
  });
}

TEST_CASE("C27 an unprivileged user and a directory without write permission") {
  TempDir dir;
  std::filesystem::create_directory(dir / "shut");
  chmod(dir.path().c_str(), 0755);
  chmod((dir / "shut").c_str(), 0555);
  Status status;
  bool changed = false;
  // The raw call changes this thread alone; the C library's would change the process.
  std::thread([&] {
    if (geteuid() == 0 && syscall(SYS_setresuid, 65534, 65534, 65534) != 0) return;
    changed = true;
    status = OutputFile::Create(dir / "shut/f", true, {}).status();
  }).join();
  if (!changed || status.error_number() == ENOENT) return;
  CHECK(status.code() == StatusCode::kPermissionDenied);
  CHECK(status.error_number() == EACCES);
  CHECK(status.path() == dir / "shut/f");
}
