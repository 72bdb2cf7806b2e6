#include "io/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "io/read_plan.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"
#include "tests/support/memory_source.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;

namespace {

std::string Read(const InputFile& file, uint64_t offset, uint64_t bytes, Status* status) {
  std::string out(bytes, '?');
  *status = file.ReadAt(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace

TEST_CASE("a file and a source read alike") {
  TempDir dir;
  WriteWholeFile(dir / "f", "0123456789");
  const auto file = InputFile::Open(dir / "f").value();
  const auto source = InputFile::Of(std::make_shared<MemorySource>("0123456789"));
  CHECK(file->path() == dir / "f");
  CHECK(file->descriptor()->fd() >= 0);
  CHECK(source->path().empty());
  CHECK(source->descriptor() == nullptr);
  for (const auto* input : {file.get(), source.get()}) {
    Status status;
    CHECK(input->size() == 10);
    CHECK(Read(*input, 3, 4, &status) == "3456");
    CHECK(status.ok());
    CHECK(Read(*input, 10, 0, &status).empty());
    CHECK(status.ok());
    Read(*input, 8, 5, &status);
    CHECK(status.code() == StatusCode::kTruncated);
    CHECK(status.offset() == 10);
    CHECK(status.message().find("expected 5 bytes at offset 8, found 2") != std::string::npos);
  }
}

TEST_CASE("reading resumes short reads and reports errors with path and offset") {
  TempDir dir;
  WriteWholeFile(dir / "f", "0123456789");
  const auto file = InputFile::Open(dir / "f").value();
  FaultFs fs;
  fs.Shorten(3);
  fs.Fail("pread", EINTR, 1, 2);
  Status status;
  CHECK(Read(*file, 1, 8, &status) == "12345678");
  CHECK(status.ok());
  CHECK(fs.Count("pread") == 5);
  fs.Fail("pread", EIO, 1);
  Read(*file, 1, 8, &status);
  CHECK(status.code() == StatusCode::kIoError);
  CHECK(status.error_number() == EIO);
  CHECK(status.path() == dir / "f");
  CHECK(status.offset() == 4);
}

TEST_CASE("only regular files open, and other kinds are named without waiting for them") {
  TempDir dir;
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  struct Case {
    std::string path;
    StatusCode code;
    std::string says;
  };
  for (const Case& c : {Case{dir.path(), StatusCode::kInvalidArgument, "a directory"},
                        Case{dir / "fifo", StatusCode::kInvalidArgument, "a FIFO"},
                        Case{"/dev/null", StatusCode::kInvalidArgument, "a character device"},
                        Case{dir / "none", StatusCode::kNotFound, "No such file"}}) {
    const Status status = InputFile::Open(c.path).status();
    CHECK(status.code() == c.code);
    CHECK(status.path() == c.path);
    CHECK(status.message().find(c.says) != std::string::npos);
  }
}

TEST_CASE("C33 a mapping shows the file, without mmap there is an error to act on") {
  TempDir dir;
  WriteWholeFile(dir / "f", "0123456789");
  WriteWholeFile(dir / "empty", "");
  const auto file = InputFile::Open(dir / "f").value();
  CHECK(AsString(Mapping::Map(*file).value()->bytes()) == "0123456789");
  CHECK(Mapping::Map(*InputFile::Open(dir / "empty").value()).value()->bytes().empty());
  CHECK(Mapping::Map(*InputFile::Of(std::make_shared<MemorySource>("x"))).status().code() ==
        StatusCode::kUnsupported);
  FaultFs fs;
  fs.Fail("mmap", ENODEV);
  CHECK(Mapping::Map(*file).status().error_number() == ENODEV);
}

TEST_CASE("of many files that were given back only a few stay open") {
  constexpr size_t kFiles = kReopenedFiles + 40;
  const auto open_now = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  };
  TempDir dir;
  std::vector<std::shared_ptr<const InputFile>> files;
  const size_t before = open_now();
  for (size_t i = 0; i < kFiles; ++i) {
    const std::string path = dir / std::to_string(i);
    WriteWholeFile(path, "file " + std::to_string(i));
    files.push_back(InputFile::Open(path).value());
    files.back()->Release(Mapping::Map(*files.back()).value());
  }
  CHECK(open_now() == before);
  const auto held = files[0]->descriptor();
  Status status;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kFiles; ++i) {
      const std::string text = "file " + std::to_string(i);
      CHECK(Read(*files[i], 0, text.size(), &status) == text);
      CHECK(status.ok());
    }
    CHECK(open_now() == before + kReopenedFiles + 1);
  }
  // The one that is in use was not closed, although others were used since.
  CHECK(files[0]->descriptor() != held);
  char first = 0;
  CHECK(pread(held->fd(), &first, 1, 0) == 1);
  CHECK(first == 'f');
  files.clear();
  CHECK(open_now() == before + 1);
}

TEST_CASE("reads gather neighbours, skip large gaps, and cover what is needed") {
  constexpr uint64_t kRead = 1 << 20, kFile = uint64_t{1} << 40;
  struct Expected {
    uint64_t begin, end, needed_end;
    size_t first, last;
  };
  struct Case {
    std::vector<ReadSpan> spans;
    std::vector<Expected> reads;
  };
  const std::vector<Case> cases = {
      {{}, {}},
      {{{5, 0}}, {{0, 0, 0, 0, 1}}},
      {{{100, 50}}, {{0, 4096, 150, 0, 1}}},
      {{{4096, 4096}}, {{4096, 8192, 8192, 0, 1}}},
      {{{0, 10}, {10, 10}, {20, 4096}}, {{0, 8192, 4116, 0, 3}}},
      // A gap of 64 KiB is read, one byte more is not.
      {{{0, 10}, {10 + 65'536, 10}}, {{0, 69'632, 65'556, 0, 2}}},
      {{{0, 10}, {11 + 65'536, 10}}, {{0, 4096, 10, 0, 1}, {65'536, 69'632, 65'557, 1, 2}}},
      // Never above the size of one read.
      {{{0, kRead}, {kRead, 1}}, {{0, kRead, kRead, 0, 1}, {kRead, kRead + 4096, kRead + 1, 1, 2}}},
      {{{0, kRead / 2}, {kRead / 2, kRead / 2}}, {{0, kRead, kRead, 0, 2}}},
      {{{1, kRead}}, {{0, kRead + 4096, kRead + 1, 0, 1}}},
      // Empty spans go with any neighbour.
      {{{7, 0}, {9000, 1}, {0, 0}, {9001, 1}}, {{8192, 12'288, 9002, 0, 4}}},
  };
  for (const Case& c : cases) {
    const auto reads = PlanReads(c.spans, kRead, kFile, "f").value();
    REQUIRE(reads.size() == c.reads.size());
    for (size_t i = 0; i < reads.size(); ++i) {
      CHECK(reads[i].begin == c.reads[i].begin);
      CHECK(reads[i].end == c.reads[i].end);
      CHECK(reads[i].needed_end == c.reads[i].needed_end);
      CHECK(reads[i].first_span == c.reads[i].first);
      CHECK(reads[i].last_span == c.reads[i].last);
    }
  }
}

TEST_CASE("spans that cannot be meant are refused") {
  struct Case {
    std::vector<ReadSpan> spans;
    StatusCode code;
  };
  for (const Case& c :
       {Case{{{10, 10}, {15, 10}}, StatusCode::kInvalidArgument},
        Case{{{10, 10}, {5, 1}}, StatusCode::kInvalidArgument},
        Case{{{0, 4097}}, StatusCode::kInvalidArgument}, Case{{{99, 2}}, StatusCode::kTruncated},
        Case{{{~uint64_t{0}, 2}}, StatusCode::kTruncated}}) {
    CHECK(PlanReads(c.spans, 4096, 100, "f").status().code() == c.code);
  }
}
