#include "io/directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "io/lock_file.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;
namespace fs = std::filesystem;

namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("directories are made, listed in byte order and removed") {
  TempDir dir;
  REQUIRE(MakeDirectories(dir / "a/b").ok());
  CHECK(MakeDirectories(dir / "a/b").ok());
  CHECK(MakeDirectory(dir / "a/B").ok());
  CHECK(MakeDirectory(dir / "a/B").code() == StatusCode::kAlreadyExists);
  CHECK(MakeDirectory(dir / "no/c").code() == StatusCode::kNotFound);
  WriteWholeFile(dir / "a/file", "x");
  CHECK(MakeDirectories(dir / "a/file").code() == StatusCode::kIoError);
  CHECK(ListDirectory(dir / "a").value() == std::vector<std::string>{"B", "b", "file"});
  CHECK(ListDirectory(dir / "no").status().code() == StatusCode::kNotFound);
  CHECK(ListDirectory(dir / "a/file").status().error_number() == ENOTDIR);

  // A link is removed, not what it names.
  fs::create_directory_symlink(dir / "a", dir / "link");
  CHECK(RemoveAll(dir / "link").ok());
  CHECK(fs::exists(dir / "a/file"));
  CHECK(RemoveAll(dir / "a").ok());
  CHECK(RemoveAll(dir / "a").ok());
  CHECK_FALSE(fs::exists(dir / "a"));
}

TEST_CASE("what stands at a path") {
  TempDir dir;
  WriteWholeFile(dir / "file", "abc");
  fs::create_symlink("file", dir / "link");
  CHECK(KindOf(dir / "none").value() == PathKind::kNone);
  CHECK(KindOf(dir / "file/below").value() == PathKind::kNone);
  CHECK(KindOf(dir / "file").value() == PathKind::kFile);
  CHECK(KindOf(dir.path()).value() == PathKind::kDirectory);
  CHECK(KindOf(dir / "link").value() == PathKind::kOther);
  CHECK(FileBytes(dir / "file").value() == 3);
  CHECK(FileBytes(dir / "link").status().code() == StatusCode::kInvalidArgument);
  CHECK(FileBytes(dir / "none").status().code() == StatusCode::kNotFound);
}

TEST_CASE("renames that never replace") {
  TempDir dir;
  const bool known = GENERATE(true, false);
  FaultFs faults;
  if (!known) faults.Fail("rename_new", EINVAL);
  for (const char* name : {"a", "b"}) {
    fs::create_directory(dir / name);
    WriteWholeFile(dir / (std::string(name) + "/file"), name);
  }
  const Status refused = RenameNoReplace(dir / "a", dir / "b");
  CHECK(refused.code() == StatusCode::kAlreadyExists);
  CHECK(refused.path() == dir / "b");
  CHECK(ReadWholeFile(dir / "b/file") == "b");
  CHECK(RenameNoReplace(dir / "none", dir / "c").code() == StatusCode::kNotFound);
  CHECK(RenameNoReplace(dir / "a", dir / "c").ok());
  CHECK(ReadWholeFile(dir / "c/file") == "a");
  CHECK(RenameFile(dir / "c/file", dir / "b/file").ok());
  CHECK(ReadWholeFile(dir / "b/file") == "a");
}

TEST_CASE("small files are read whole, within a bound, and only where they are files") {
  TempDir dir;
  WriteWholeFile(dir / "file", "hello");
  CHECK(AsString(ReadSmallFile(dir / "file", 5).value()) == "hello");
  const auto large = ReadSmallFile(dir / "file", 4);
  CHECK(large.status().code() == StatusCode::kLimitExceeded);
  CHECK(large.status().path() == dir / "file");
  CHECK(ReadSmallFile(dir / "none", 5).status().code() == StatusCode::kNotFound);
  CHECK(ReadSmallFile(dir.path(), 5).status().code() == StatusCode::kInvalidArgument);
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK(ReadSmallFile(dir / "fifo", 5).status().code() == StatusCode::kInvalidArgument);
  FaultFs faults;
  faults.Shorten(2);
  CHECK(AsString(ReadSmallFile(dir / "file", 5).value()) == "hello");
}

TEST_CASE("small files appear whole and durable, or not at all") {
  TempDir dir;
  WriteWholeFile(dir / "outside", "outside");
  fs::create_symlink("outside", dir / "file");
  {
    FaultFs faults;
    faults.Shorten(3);
    REQUIRE(WriteSmallFile(dir / "file", Bytes("new content")).ok());
    CHECK(faults.Calls({"pwrite", "fsync", "rename", "fsync_dir"}) ==
          std::vector<std::string>{"pwrite", "pwrite", "pwrite", "pwrite", "fsync", "rename",
                                   "fsync_dir"});
  }
  // The link was replaced, not followed.
  CHECK(ReadWholeFile(dir / "outside") == "outside");
  CHECK(ReadWholeFile(dir / "file") == "new content");
  for (const char* call : {"open", "pwrite", "fsync", "rename"}) {
    FaultFs faults;
    faults.Fail(call, ENOSPC);
    INFO(call);
    CHECK(WriteSmallFile(dir / "file", Bytes("other")).code() == StatusCode::kNoSpace);
    CHECK(ReadWholeFile(dir / "file") == "new content");
    CHECK(Names(dir.path()) == std::vector<std::string>{"file", "outside"});
  }
  {
    FaultFs faults;
    faults.Fail("fsync_dir", EIO);
    CHECK(WriteSmallFile(dir / "file", Bytes("newer")).error_number() == EIO);
  }
  {
    FaultFs faults;
    REQUIRE(WriteValueFile(dir / "value", Bytes("v")).ok());
    CHECK(faults.Calls({"fsync", "fsync_dir"}).empty());
  }
  CHECK(ReadWholeFile(dir / "value") == "v");
}

TEST_CASE("a directory that cannot be synced is an error only where syncing means something") {
  TempDir dir;
  FaultFs faults;
  for (const auto& [error, ok] : {std::pair{EINVAL, true}, {ENOTSUP, true}, {EIO, false}}) {
    faults.Fail("fsync_dir", error);
    CHECK(SyncDirectory(dir.path()).ok() == ok);
  }
  CHECK(SyncDirectory(dir / "none").code() == StatusCode::kNotFound);
}

TEST_CASE("a lock file has one holder") {
  TempDir dir;
  CHECK_FALSE(LockFile::IsHeld(dir / "lock"));
  CHECK_FALSE(std::filesystem::exists(dir / "lock"));  // Looking leaves no trace.
  auto first = LockFile::Take(dir / "lock", std::chrono::milliseconds(0));
  CHECK(LockFile::IsHeld(dir / "lock"));
  CHECK(LockFile::IsHeld(dir / "lock"));  // Nor does it take what it looks at.
  REQUIRE(first.ok());
  const auto second = LockFile::Take(dir / "lock", std::chrono::milliseconds(30));
  CHECK(second.status().code() == StatusCode::kFailedPrecondition);
  CHECK(second.status().path() == dir / "lock");
  first.value().reset();
  CHECK(LockFile::Take(dir / "lock", std::chrono::milliseconds(0)).ok());
  CHECK(LockFile::Take(dir / "none/lock", std::chrono::milliseconds(0)).status().code() ==
        StatusCode::kNotFound);
}

TEST_CASE("a lock file that its holder removes keeps out whoever waited for it") {
  TempDir dir;
  using AtEnd = LockFile::AtEnd;
  const auto take = [&] {
    return LockFile::Take(dir / "lock", std::chrono::milliseconds(0), AtEnd::kRemoved);
  };
  auto first = take();
  REQUIRE(first.ok());
  CHECK(take().status().code() == StatusCode::kFailedPrecondition);
  first.value().reset();
  CHECK_FALSE(fs::exists(dir / "lock"));
  {
    const auto second = take();
    REQUIRE(second.ok());
    // Somebody removed the file: the name is free, whoever holds the old one.
    fs::remove(dir / "lock");
    CHECK(take().ok());
  }
  CHECK(Names(dir.path()).empty());
}

TEST_CASE("each directory that is made is synced in its parent") {
  TempDir dir;
  FaultFs faults;
  REQUIRE(MakeDirectories(dir / "a/b/c/").ok());
  CHECK(faults.Calls({"mkdir", "fsync_dir"}) ==
        std::vector<std::string>{"mkdir", "fsync_dir", "mkdir", "fsync_dir", "mkdir", "fsync_dir"});
  CHECK(MakeDirectories(dir / "a/b/c").ok());
  CHECK(faults.Count("mkdir") == 3);
  faults.Fail("fsync_dir", EIO);
  CHECK(MakeDirectories(dir / "d").error_number() == EIO);
  CHECK(ParentOf("/a//b//") == "/a");
  CHECK(ParentOf("a") == ".");
  CHECK(ParentOf("/a") == "/");
}

TEST_CASE("two directories change places in one step") {
  TempDir dir;
  for (const char* name : {"a", "b"}) {
    fs::create_directory(dir / name);
    WriteWholeFile(dir / (std::string(name) + "/file"), name);
  }
  REQUIRE(Exchange(dir / "a", dir / "b").ok());
  CHECK(ReadWholeFile(dir / "a/file") == "b");
  CHECK(ReadWholeFile(dir / "b/file") == "a");
  CHECK(Exchange(dir / "none", dir / "b").code() == StatusCode::kNotFound);
  FaultFs faults;
  for (const int error : {EINVAL, ENOSYS, ENOTSUP}) {
    faults.Fail("exchange", error);
    CHECK(Exchange(dir / "a", dir / "b").code() == StatusCode::kUnsupported);
  }
  faults.Fail("exchange", EIO);
  CHECK(Exchange(dir / "a", dir / "b").code() == StatusCode::kIoError);
}

TEST_CASE("calls that a signal interrupts are made again, closing is not") {
  TempDir dir;
  for (const char* call : {"open", "open_dir", "pwrite", "fsync", "fsync_dir", "rename", "close"}) {
    FaultFs faults;
    faults.Fail(call, EINTR, 0, 2);
    INFO(call);
    CHECK(WriteSmallFile(dir / "file", Bytes(call)).ok());
    CHECK(ReadWholeFile(dir / "file") == call);
    CHECK(Names(dir.path()) == std::vector<std::string>{"file"});
  }
  for (const char* call : {"mkdir", "rename_new", "exchange"}) {
    FaultFs faults;
    faults.Fail(call, EINTR, 0, 2);
    INFO(call);
    CHECK(MakeDirectory(dir / call).ok());
    CHECK(RenameNoReplace(dir / call, dir / "other").ok());
    CHECK(Exchange(dir / "other", dir / "file").ok());
    CHECK(RemoveAll(dir / "file").ok());
    CHECK(RenameFile(dir / "other", dir / "file").ok());
  }
}
