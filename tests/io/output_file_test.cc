#include "io/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;

namespace {

using Strings = std::vector<std::string>;

/// One whole save of `data` cut to `exact` bytes.
Status Save(const std::string& path, std::span<const std::byte> data, uint64_t exact,
            const Warn& warn = {}, bool direct = true) {
  auto queue = ThreadBackend();
  auto file = OutputFile::Create(path, direct, warn);
  DSCKPT_RETURN_IF_ERROR(file.status());
  DSCKPT_RETURN_IF_ERROR((*file)->Reserve(exact));
  const uint64_t half = data.size() / 2 / 4096 * 4096;
  DSCKPT_RETURN_IF_ERROR(Write(**file, *queue, data.subspan(half), half));
  DSCKPT_RETURN_IF_ERROR(Write(**file, *queue, data.first(half), 0));
  return (*file)->Publish(exact);
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  lstat(path.c_str(), &info);
  return info.st_mode & 07777;
}

}  // namespace

TEST_CASE("a file appears whole, at its exact size, when it is published") {
  TempDir dir;
  const std::string path = dir / "f";
  Memory data = Pattern(8 * 4096);
  for (bool direct : {true, false}) {
    WriteWholeFile(path, "old");
    Warnings warnings;
    auto queue = IoQueue::Create({.depth = 2}, {}).value();
    auto file = OutputFile::Create(path, direct, warnings.sink()).value();
    CHECK(file->path() == path);
    CHECK(file->Reserve(30'000).ok());
    CHECK(Write(*file, *queue, data.bytes(), 0).ok());
    CHECK(ReadWholeFile(path) == "old");
    CHECK(file->Publish(30'000).ok());
    CHECK(ReadWholeFile(path) == AsString(data.bytes().first(30'000)));
    CHECK(Names(dir.path()) == Strings{"f"});
    CHECK(warnings.seen().empty());
  }
}

TEST_CASE("a file that is not published leaves nothing") {
  TempDir dir;
  WriteWholeFile(dir / "f", "old");
  {
    auto file = OutputFile::Create(dir / "f", true, {}).value();
    CHECK(Names(dir.path()).size() == 2);
  }
  CHECK(Names(dir.path()) == Strings{"f"});
  auto file = OutputFile::Create(dir / "new", true, {}).value();
  file->Discard();
  CHECK(Names(dir.path()) == Strings{"f"});
  file->Discard();
  CHECK(ReadWholeFile(dir / "f") == "old");
  file = OutputFile::Create(dir / "f", true, {}).value();
  FaultFs fs;
  fs.Fail("fsync", EIO);
  CHECK(file->Publish(0).code() == StatusCode::kIoError);
  CHECK(Names(dir.path()) == Strings{"f"});
}

TEST_CASE("C26 order: data sync, close, rename, directory sync") {
  TempDir dir;
  Memory data = Pattern(4 * 4096);
  FaultFs fs;
  CHECK(Save(dir / "f", data.bytes(), 9'000).ok());
  CHECK(fs.Calls({"ftruncate", "fsync", "close", "rename", "fsync_dir", "close_dir"}) ==
        Strings{"ftruncate", "fsync", "close", "rename", "fsync_dir", "close_dir"});
  fs.PowerCut();
  CHECK(ReadWholeFile(dir / "f") == AsString(data.bytes().first(9'000)));
}

TEST_CASE("C26 C25 a failure before the rename keeps the old file and removes the temporary") {
  Memory data = Pattern(4 * 4096);
  struct Case {
    const char* call;
    int error;
    StatusCode code;
  };
  for (auto [call, error, code] :
       {Case{"fsync", EIO, StatusCode::kIoError}, Case{"close", EIO, StatusCode::kIoError},
        Case{"close", ENOSPC, StatusCode::kNoSpace}, Case{"ftruncate", EIO, StatusCode::kIoError},
        Case{"rename", EIO, StatusCode::kIoError},
        Case{"rename", EACCES, StatusCode::kPermissionDenied},
        Case{"fallocate", ENOSPC, StatusCode::kNoSpace},
        Case{"pwrite", ENOSPC, StatusCode::kNoSpace}, Case{"pwrite", EIO, StatusCode::kIoError},
        Case{"open_direct", EMFILE, StatusCode::kIoError}}) {
    TempDir dir;
    const std::string path = dir / "f";
    WriteWholeFile(path, "old");
    FaultFs fs;
    fs.Fail(call, error);
    const Status status = Save(path, data.bytes(), 9'000);
    INFO(call);
    CHECK(status.code() == code);
    CHECK(status.error_number() == error);
    CHECK(status.path() == path);
    CHECK(status.message().find(path) != std::string::npos);
    CHECK(fs.Count("fsync") <= 1);
    CHECK(Names(dir.path()) == Strings{"f"});
    fs.PowerCut();
    CHECK(ReadWholeFile(path) == "old");
  }
}

TEST_CASE("C26 a directory that cannot be synced: published, durability unknown") {
  Memory data = Pattern(4096);
  for (const char* call : {"open_dir", "fsync_dir", "close_dir"}) {
    TempDir dir;
    WriteWholeFile(dir / "f", "old");
    FaultFs fs;
    fs.Fail(call, EIO);
    const Status status = Save(dir / "f", data.bytes(), 100);
    CHECK(status.code() == StatusCode::kDurabilityUnknown);
    CHECK(status.error_number() == EIO);
    CHECK(status.path() == dir / "f");
    CHECK(ReadWholeFile(dir / "f") == AsString(data.bytes().first(100)));
    if (std::string(call) == "close_dir") continue;
    fs.PowerCut();
    CHECK(ReadWholeFile(dir / "f") == "old");
  }
  for (int error : {EINVAL, ENOTSUP}) {
    TempDir dir;
    FaultFs fs;
    fs.Fail("fsync_dir", error);
    Warnings warnings;
    CHECK(Save(dir / "f", data.bytes(), 100, warnings.sink()).ok());
    REQUIRE(warnings.seen().size() == 1);
    CHECK(warnings.seen()[0].code() == StatusCode::kDurabilityUnknown);
  }
}

TEST_CASE("a save that signals interrupt is a save") {
  Memory data = Pattern(4 * 4096);
  for (const char* call : {"open_direct", "fallocate", "pwrite", "ftruncate", "fsync", "close",
                           "rename", "open_dir", "fsync_dir", "close_dir"}) {
    TempDir dir;
    FaultFs fs;
    fs.Fail(call, EINTR, 0, 3);
    INFO(call);
    CHECK(Save(dir / "f", data.bytes(), 9'000).ok());
    CHECK(ReadWholeFile(dir / "f") == AsString(data.bytes().first(9'000)));
    CHECK(Names(dir.path()) == Strings{"f"});
  }
}

TEST_CASE("C24 O_DIRECT refused at open: buffered, one warning, same bytes") {
  Memory data = Pattern(4 * 4096);
  for (int error : {EINVAL, EOPNOTSUPP}) {
    TempDir dir;
    FaultFs fs;
    fs.Fail("open_direct", error);
    Warnings warnings;
    CHECK(Save(dir / "f", data.bytes(), 9'000, warnings.sink()).ok());
    REQUIRE(warnings.seen().size() == 1);
    CHECK(warnings.seen()[0].error_number() == error);
    CHECK(ReadWholeFile(dir / "f") == AsString(data.bytes().first(9'000)));
  }
}

TEST_CASE("C24 O_DIRECT refused at write: repeated buffered, one warning, same bytes") {
  Memory data = Pattern(4 * 4096);
  for (int error : {EINVAL, EOPNOTSUPP}) {
    TempDir dir;
    FaultFs fs;
    fs.Shorten(4096);
    fs.Fail("pwrite", error, 1, 1);
    Warnings warnings;
    CHECK(Save(dir / "f", data.bytes(), 9'000, warnings.sink()).ok());
    REQUIRE(warnings.seen().size() == 1);
    CHECK(warnings.seen()[0].error_number() == error);
    CHECK(ReadWholeFile(dir / "f") == AsString(data.bytes().first(9'000)));
    fs.Fail("pwrite", error);  // Not only of O_DIRECT: an error, no endless repetition.
    CHECK(Save(dir / "g", data.bytes(), 9'000).error_number() == error);
    CHECK(Save(dir / "g", data.bytes(), 9'000, {}, false).error_number() == error);
  }
}

TEST_CASE("C24 the kernel's own EINVAL at write, through whatever queue there is") {
  TempDir dir;
  Memory data = Pattern(16 * 4096);
  auto queue = IoQueue::Create({.depth = 4}, {}).value();
  Warnings warnings;
  auto file = OutputFile::Create(dir / "f", true, warnings.sink()).value();
  // Odd length, address and offset: what a device with larger sectors does to aligned writes.
  std::vector<std::promise<Status>> done(3);
  const uint64_t offsets[] = {0, 777, 20'000};
  const uint64_t lengths[] = {777, 19'223, 30'000};
  for (size_t i = 0; i < 3; ++i) {
    file->Write(*queue, data.bytes().subspan(offsets[i], lengths[i]), offsets[i], -1,
                [&, i](Status s) { done[i].set_value(std::move(s)); });
  }
  for (auto& each : done) CHECK(each.get_future().get().ok());
  CHECK(file->Publish(50'000).ok());
  CHECK(ReadWholeFile(dir / "f") == AsString(data.bytes().first(50'000)));
  CHECK(warnings.seen().size() <= 1);
}

TEST_CASE("C25 a failed write tells path, errno, offset and bytes") {
  TempDir dir;
  Memory data = Pattern(8 * 4096);
  auto queue = ThreadBackend();
  auto file = OutputFile::Create(dir / "f", true, {}).value();
  FaultFs fs;
  fs.Shorten(4096);
  fs.Fail("pwrite", ENOSPC, 3);
  const Status status = Write(*file, *queue, data.bytes(), 8192);
  CHECK(status.code() == StatusCode::kNoSpace);
  CHECK(status.error_number() == ENOSPC);
  CHECK(status.path() == dir / "f");
  CHECK(status.offset() == 8192 + 3 * 4096);
  CHECK(status.message().find("12288 of 32768 bytes at offset 8192") != std::string::npos);
}

TEST_CASE("reservation: optional where the file system has none") {
  TempDir dir;
  for (int error : {EOPNOTSUPP, ENOSYS, EINVAL}) {
    auto file = OutputFile::Create(dir / "f", true, {}).value();
    FaultFs fs;
    fs.Fail("fallocate", error);
    CHECK(file->Reserve(1 << 20).ok());
  }
  auto file = OutputFile::Create(dir / "f", true, {}).value();
  FaultFs fs;
  fs.Fail("fallocate", EINTR, 0, 2);
  CHECK(file->Reserve(1 << 20).ok());
  CHECK(fs.Count("fallocate") == 3);
  CHECK(file->Reserve(uint64_t{1} << 62).code() == StatusCode::kNoSpace);
}

TEST_CASE("C29 modes: the umask's for a new file, the old one's for a replaced file") {
  TempDir dir;
  Memory data = Pattern(4096);
  const mode_t before = umask(022);
  CHECK(Save(dir / "new", data.bytes(), 10).ok());
  CHECK(ModeOf(dir / "new") == 0644);
  for (mode_t mode : {0640, 0600, 0666, 0777, 0444}) {
    WriteWholeFile(dir / "old", "old");
    chmod((dir / "old").c_str(), mode);
    auto file = OutputFile::Create(dir / "old", true, {}).value();
    for (const std::string& name : Names(dir.path())) {
      if (name.starts_with(".dsckpt-")) CHECK(ModeOf(dir / name) == mode);
    }
    CHECK(file->Publish(0).ok());
    CHECK(ModeOf(dir / "old") == mode);
    std::filesystem::remove(dir / "old");
  }
  umask(before);
}

TEST_CASE("C29 names: non-ASCII, with a space, 250 bytes") {
  TempDir dir;
  Memory data = Pattern(4096);
  const std::string odd = "dir \xe6\xb5\x8b\xe8\xaf\x95";
  std::filesystem::create_directory(dir / odd);
  for (const std::string& name : {odd + "/ckpt \xc3\xbc.dsckpt", std::string(250, 'n')}) {
    CHECK(Save(dir / name, data.bytes(), 10).ok());
    CHECK(ReadWholeFile(dir / name).size() == 10);
  }
  CHECK(Save(dir / std::string(256, 'n'), data.bytes(), 10).error_number() == ENAMETOOLONG);
}

TEST_CASE("C29 a symbolic link stays, its target is replaced or created") {
  TempDir dir;
  Memory data = Pattern(4096);
  std::filesystem::create_directory(dir / "sub");
  WriteWholeFile(dir / "sub/real", "old");
  chmod((dir / "sub/real").c_str(), 0640);
  std::filesystem::create_symlink("sub/middle", dir / "link");
  std::filesystem::create_symlink("real", dir / "sub/middle");
  std::filesystem::create_symlink(dir / "sub/fresh", dir / "dangling");
  std::filesystem::create_symlink("loop", dir / "loop");
  CHECK(Save(dir / "link", data.bytes(), 10).ok());
  CHECK(std::filesystem::is_symlink(dir / "link"));
  CHECK(std::filesystem::is_symlink(dir / "sub/middle"));
  CHECK(ReadWholeFile(dir / "sub/real").size() == 10);
  CHECK(ModeOf(dir / "sub/real") == 0640);
  CHECK(Save(dir / "dangling", data.bytes(), 11).ok());
  CHECK(std::filesystem::is_symlink(dir / "dangling"));
  CHECK(ReadWholeFile(dir / "sub/fresh").size() == 11);
  CHECK(Save(dir / "loop", data.bytes(), 10).error_number() == ELOOP);
  CHECK(Names(dir.path()) == Strings{"dangling", "link", "loop", "sub"});
}

TEST_CASE("C27 what cannot be a file is refused by name") {
  TempDir dir;
  std::filesystem::create_directory(dir / "d");
  std::filesystem::create_symlink("d", dir / "to-d");
  WriteWholeFile(dir / "f", "old");
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  struct Case {
    std::string path;
    StatusCode code;
    int error;
    std::string says;
  };
  for (const Case& c : {Case{dir / "d", StatusCode::kInvalidArgument, 0, "a directory"},
                        Case{dir / "d/", StatusCode::kInvalidArgument, 0, "a directory"},
                        Case{dir / "to-d", StatusCode::kInvalidArgument, 0, "a directory"},
                        Case{dir / "..", StatusCode::kInvalidArgument, 0, "a directory"},
                        Case{dir / "fifo", StatusCode::kInvalidArgument, 0, "a FIFO"},
                        Case{"/dev/null", StatusCode::kInvalidArgument, 0, "a character device"},
                        Case{"", StatusCode::kInvalidArgument, 0, "empty"},
                        Case{dir / "none/f", StatusCode::kNotFound, ENOENT,
                             "the directory '" + (dir / "none") + "' does not exist"},
                        Case{dir / "f/g", StatusCode::kIoError, ENOTDIR, "Not a directory"}}) {
    const Status status = OutputFile::Create(c.path, true, {}).status();
    INFO(c.path);
    CHECK(status.code() == c.code);
    CHECK(status.error_number() == c.error);
    CHECK(status.path() == c.path);
    CHECK(status.message().find(c.says) != std::string::npos);
    CHECK(status.message().find("'" + c.path + "'") != std::string::npos);
  }
  CHECK(Names(dir.path()) == Strings{"d", "f", "fifo", "to-d"});
}

TEST_CASE("orphans of the same name are removed, those in use and of other names stay") {
  TempDir dir;
  std::filesystem::create_directory(dir / "work");
  auto temporary_of = [&](const std::string& name) {
    // A child that dies without cleaning up leaves its temporary.
    const pid_t child = fork();
    if (child == 0) {
      auto file = OutputFile::Create(dir / "work/" + name, true, {});
      _exit(file.ok() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    REQUIRE(status == 0);
  };
  temporary_of("a");
  temporary_of("b");
  const Strings orphans = Names(dir / "work");
  REQUIRE(orphans.size() == 2);
  auto in_use = OutputFile::Create(dir / "work/b", true, {}).value();  // Removes b's orphan.
  CHECK(Names(dir / "work").size() == 2);
  auto second = OutputFile::Create(dir / "work/b", true, {}).value();  // Spares the one in use.
  CHECK(Names(dir / "work").size() == 3);
  auto a = OutputFile::Create(dir / "work/a", true, {}).value();
  CHECK(Names(dir / "work").size() == 3);
  for (auto* file : {&in_use, &second, &a}) {
    CHECK((*file)->Publish(0).ok());
  }
  CHECK(Names(dir / "work") == Strings{"a", "b"});
}

TEST_CASE("a chdir between creation and publication changes nothing") {
  TempDir dir;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  auto file = OutputFile::Create("f", true, {}).value();
  CHECK(file->path() == "f");
  std::filesystem::current_path(before);
  CHECK(file->Publish(5).ok());
  CHECK(ReadWholeFile(dir / "f").size() == 5);
}

TEST_CASE("a forked child's copy of the file does nothing") {
  TempDir dir;
  auto file = OutputFile::Create(dir / "f", true, {}).value();
  const pid_t child = fork();
  if (child == 0) {
    file.reset();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  CHECK(Names(dir.path()).size() == 1);
  CHECK(file->Publish(3).ok());
  CHECK(Names(dir.path()) == Strings{"f"});
}
