#include "io/append_file.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;

namespace {

Status Append(const std::string& path, std::string_view first, std::string_view second = {}) {
  DSCKPT_ASSIGN_OR_RETURN(const auto file, AppendFile::Open(path));
  DSCKPT_RETURN_IF_ERROR(file->Write(first));
  DSCKPT_RETURN_IF_ERROR(file->Write(second));
  return file->Finish();
}

}  // namespace

TEST_CASE("append: lines follow what is there, whose last line is ended") {
  TempDir dir;
  const std::string path = dir / "lines";
  REQUIRE(Append(path, "a\n", "b\n").ok());
  CHECK(ReadWholeFile(path) == "a\nb\n");
  WriteWholeFile(path, "cut");
  REQUIRE(Append(path, "c\n").ok());
  CHECK(ReadWholeFile(path) == "cut\nc\n");
  CHECK(AppendFile::Open(dir / "no/lines").status().code() == StatusCode::kNotFound);
  CHECK(AppendFile::Open(dir.path()).status().code() == StatusCode::kIoError);
}

TEST_CASE("append: what is not finished is taken away") {
  TempDir dir;
  const std::string path = dir / "lines";
  WriteWholeFile(path, "cut");
  {
    const auto file = AppendFile::Open(path);
    REQUIRE(file.ok());
    REQUIRE((*file)->Write("c\n").ok());
  }
  CHECK(ReadWholeFile(path) == "cut");
  FaultFs fs;
  for (const char* const call : {"open", "pread", "pwrite", "fsync", "fsync_dir"}) {
    CAPTURE(call);
    fs.Fail(call, EIO, 0, 1);
    CHECK(Append(path, "c\n").error_number() == EIO);
    // The name was not made durable, but the lines were.
    CHECK(ReadWholeFile(path) == (std::string_view(call) == "fsync_dir" ? "cut\nc\n" : "cut"));
  }
}

TEST_CASE("append: lines are durable when it is finished") {
  TempDir dir;
  const std::string path = dir / "lines";
  FaultFs fs;
  REQUIRE(Append(path, "a\n").ok());
  CHECK(fs.Count("fsync") == 1);
  CHECK(fs.Count("fsync_dir") == 1);
  fs.PowerCut();
  CHECK(ReadWholeFile(path) == "a\n");
}

TEST_CASE("append: one at a time, and others wait") {
  TempDir dir;
  const std::string path = dir / "lines";
  auto first = AppendFile::Open(path);
  REQUIRE(first.ok());
  Status of_second;
  std::thread second([&] { of_second = Append(path, "second\n"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE((*first)->Write("first\n").ok());
  REQUIRE((*first)->Finish().ok());
  first->reset();
  second.join();
  CHECK(of_second.ok());
  CHECK(ReadWholeFile(path) == "first\nsecond\n");
}
