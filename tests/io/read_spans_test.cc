#include "io/read_spans.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"
#include "tests/support/memory_source.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::io;

namespace {

/// Random spans over `bytes`: adjacent, apart, tiny, as large as a read, empty.
std::vector<ReadSpan> RandomSpans(uint64_t bytes, uint64_t longest, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<ReadSpan> spans;
  uint64_t at = random() % 3 * 1000;
  while (true) {
    const uint64_t shapes[] = {0, 1, random() % 5000, random() % longest, longest};
    const uint64_t length = shapes[random() % 5];
    if (length > bytes || at > bytes - length) break;
    spans.push_back({at, length});
    const uint64_t gaps[] = {0, 0, random() % 5000, random() % 200'000};
    at += length + gaps[random() % 4];
  }
  // The end of the file, which no page boundary meets.
  if (at < bytes) spans.push_back({bytes - std::min<uint64_t>(bytes - at, 10), 0});
  if (at < bytes) spans.back().bytes = bytes - spans.back().offset;
  return spans;
}

/// Every span is handed over once, whole and right.
void CheckAll(const InputFile& file, const std::string& content, const StreamOptions& options,
              uint32_t seed) {
  const auto spans = RandomSpans(content.size(), options.read_bytes, seed);
  std::vector<std::atomic<int>> seen(spans.size());
  std::atomic<int> wrong = 0;
  const Status status =
      ReadSpans(file, spans, options, [&](size_t i, std::span<const std::byte> bytes) {
        ++seen[i];
        if (AsString(bytes) != content.substr(spans[i].offset, spans[i].bytes)) ++wrong;
        return Status();
      });
  CHECK(status.ok());
  CHECK(wrong == 0);
  CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<ptrdiff_t>(spans.size()));
}

/// Takes the file out of the page cache, as far as the kernel agrees.
void Evict(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

bool AnyResident(const InputFile& file) {
  const auto mapping = Mapping::Map(file).value();
  std::vector<unsigned char> pages((file.size() + 4095) / 4096);
  mincore(const_cast<std::byte*>(mapping->bytes().data()), file.size(), pages.data());
  return std::any_of(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
}

}  // namespace

TEST_CASE("spans arrive whole, once and right, on every way to read") {
  TempDir dir;
  Memory pattern = Pattern(10'000'123);
  const std::string content = AsString(pattern.bytes());
  WriteWholeFile(dir / "f", content);
  const auto file = InputFile::Open(dir / "f").value();
  const auto source = InputFile::Of(std::make_shared<MemorySource>(content));
  for (uint32_t seed = 1; seed < 6; ++seed) {
    StreamOptions options{.threads = static_cast<int>(seed % 3 + 1),
                          .read_bytes = seed % 2 == 0 ? 1'000'000u : 300'001u,
                          .depth = seed};
    CheckAll(*source, content, options, seed);
    CheckAll(*file, content, options, seed);  // Resident: just written.
    Evict(dir / "f");
    CheckAll(*file, content, options, seed);
    options.force_direct = true;
    CheckAll(*file, content, options, seed);
  }
}

TEST_CASE("pages that are not resident stay so") {
  TempDir dir;
  Memory pattern = Pattern(4 << 20);
  WriteWholeFile(dir / "f", AsString(pattern.bytes()));
  const auto file = InputFile::Open(dir / "f").value();
  Evict(dir / "f");
  const int direct = ::open((dir / "f").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0 || AnyResident(*file)) return;  // A file system in memory.
  ::close(direct);
  CheckAll(*file, AsString(pattern.bytes()), {.threads = 2, .read_bytes = 500'000}, 7);
  CHECK_FALSE(AnyResident(*file));
}

TEST_CASE("every fall-back of reading gives the same bytes") {
  TempDir dir;
  Memory pattern = Pattern(4'000'123);
  const std::string content = AsString(pattern.bytes());
  WriteWholeFile(dir / "f", content);
  const auto file = InputFile::Open(dir / "f").value();
  Evict(dir / "f");
  FaultFs fs;
  SECTION("O_DIRECT refused at open") { fs.Fail("open_direct", EINVAL); }
  SECTION("no ring") { fs.Fail("ring_init", EPERM); }
  SECTION("O_DIRECT refused at read") {
    fs.Fail("ring_init", EPERM);
    fs.Fail("pread", EINVAL, 2, 1);
  }
  SECTION("short reads") {
    fs.Fail("ring_init", EPERM);
    fs.Shorten(100'000);  // Not a multiple of a page: going on with O_DIRECT is refused.
  }
  SECTION("C33 no mmap") { fs.Fail("mmap", ENODEV, 0, 1); }
  CheckAll(*file, content, {.threads = 2, .read_bytes = 500'000, .depth = 3}, 3);
}

TEST_CASE("the first error stops the rest: of a consumer, of reading, of truncation") {
  TempDir dir;
  Memory pattern = Pattern(4 << 20);
  const std::string content = AsString(pattern.bytes());
  WriteWholeFile(dir / "f", content);
  const auto file = InputFile::Open(dir / "f").value();
  std::vector<ReadSpan> spans;
  for (uint64_t at = 0; at < content.size(); at += 65'536) spans.push_back({at, 65'536});
  for (bool direct : {false, true}) {
    StreamOptions options{.threads = 2, .read_bytes = 65'536, .depth = 4, .force_direct = direct};
    std::atomic<int> calls = 0;
    Status status = ReadSpans(*file, spans, options, [&](size_t i, std::span<const std::byte>) {
      ++calls;
      return i == 5 ? Status(StatusCode::kCorrupt, "five") : Status();
    });
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message() == "five");
    CHECK(calls < 64);
    {
      FaultFs fs;
      fs.Fail("ring_init", EPERM);
      fs.Fail("pread", EIO, 10);
      status = ReadSpans(*file, spans, options,
                         [](size_t, std::span<const std::byte>) { return Status(); });
      CHECK(status.code() == StatusCode::kIoError);
      CHECK(status.path() == dir / "f");
      fs.Fail("mmap", ENOMEM);
      status = ReadSpans(*file, spans, options,
                         [](size_t, std::span<const std::byte>) { return Status(); });
      CHECK(status.code() == StatusCode::kOutOfMemory);
    }
  }
  // Cut while it is open: no signal, and the place is named.
  REQUIRE(truncate((dir / "f").c_str(), 1'000'000) == 0);
  for (bool direct : {false, true}) {
    const Status status =
        ReadSpans(*file, spans, {.threads = 2, .read_bytes = 65'536, .force_direct = direct},
                  [](size_t, std::span<const std::byte>) { return Status(); });
    CHECK(status.code() == StatusCode::kTruncated);
    CHECK(status.offset() >= 1'000'000);
  }
}

TEST_CASE("nothing to read") {
  const auto source = InputFile::Of(std::make_shared<MemorySource>(""));
  int calls = 0;
  const auto count = [&](size_t, std::span<const std::byte> bytes) {
    calls += bytes.empty() ? 1 : 100;
    return Status();
  };
  CHECK(ReadSpans(*source, {}, {}, count).ok());
  CHECK(calls == 0);
  const std::vector<ReadSpan> empty = {{0, 0}, {0, 0}};
  CHECK(ReadSpans(*source, empty, {}, count).ok());
  CHECK(calls == 2);
}
