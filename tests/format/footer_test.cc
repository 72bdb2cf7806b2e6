#include "format/footer/footer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "format/checksum.h"
#include "format/header/header.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;
using std::string_literals::operator""s;

namespace {

constexpr uint64_t kFooterAt = 4096 + 64 + 128;

Footer SmallFooter() {
  return {.file_bytes = kFooterAt + 128,
          .data_begin = 4096,
          .tail_begin = 4096,
          .index_offset = 4096 + 64,
          .index_bytes = 128,
          .index_xxh3_64 = 0x1111,
          .header_xxh3_64 = 0x2222,
          .compatible = 1};
}

std::string FooterText(const Footer& footer) {
  const auto bytes = EncodeFooter(footer);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A shard as far as Classify() looks.
std::string Shard(const Footer& footer = SmallFooter()) {
  bool listed = false;
  std::string file = HeaderBuilder(true, {}).Finish(&listed).value();
  PatchSizes(file, 4096, kFooterAt + 128);
  file.resize(kFooterAt, '\0');
  return file + FooterText(footer);
}

Result<Classified> ClassifyFile(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  return Classify(bytes.first(std::min<size_t>(file.size(), 4096)),
                  bytes.last(std::min<size_t>(file.size(), 128)), file.size());
}

struct Expectation {
  StatusCode code;
  std::string message;
};

void CheckRefused(const std::string& file, const Expectation& expected) {
  const Status status = ClassifyFile(file).status();
  INFO(status.ToString());
  CHECK(std::string(StatusCodeName(status.code())) == StatusCodeName(expected.code));
  CHECK(status.message().find(expected.message) != std::string::npos);
}

// The footer's own checksum made right again after a field was changed.
void Reseal(std::string& file) {
  char* footer = file.data() + file.size() - 128;
  const uint64_t hash = Hash64(std::as_bytes(std::span(footer, 112)));
  std::memcpy(footer + 112, &hash, 8);
}

}  // namespace

TEST_CASE("a footer, byte by byte") {
  const std::string text = FooterText({.file_bytes = 0x0807060504030201,
                                       .data_begin = 0x1000,
                                       .tail_begin = 0x2000,
                                       .index_offset = 0x3000,
                                       .index_bytes = 0x4000,
                                       .index_xxh3_64 = 0x5000,
                                       .header_xxh3_64 = 0x6000,
                                       .version_major = 0x0701,
                                       .version_minor = 0x0802,
                                       .must_understand = 0x9000,
                                       .compatible = 0xA000});
  std::string expected = "\1\2\3\4\5\6\7\x08"s;
  for (const char high : {'\x10', '\x20', '\x30', '\x40', '\x50', '\x60'}) {
    expected += '\0' + std::string(1, high) + std::string(6, '\0');
  }
  expected += "\1\7\2\x08\x80\0\0\0"s;
  for (const char high : {'\x90', '\xA0'}) {
    expected += '\0' + std::string(1, high) + std::string(6, '\0');
  }
  expected += std::string(32, '\0');
  CHECK(text.substr(0, 112) == expected);
  const uint64_t hash = Hash64(std::as_bytes(std::span(text.data(), 112)));
  CHECK(std::memcmp(text.data() + 112, &hash, 8) == 0);
  CHECK(text.substr(120) ==
        "\x89"
        "DSC\r\n\x1a\n");
}

TEST_CASE("a shard is a shard") {
  const auto classified = ClassifyFile(Shard());
  INFO(classified.status().ToString());
  REQUIRE(classified.ok());
  CHECK(classified.value().kind == FileKind::kShard);
  CHECK(FooterText(classified.value().footer) == FooterText(SmallFooter()));
}

TEST_CASE("a newer minor version and unknown compatible bits are read") {
  Footer footer = SmallFooter();
  footer.version_minor = 7;
  footer.compatible = ~uint64_t{0};
  CHECK(ClassifyFile(Shard(footer)).ok());
}

TEST_CASE("C36 a shard cut at any length") {
  const std::string shard = Shard();
  const std::string whole = std::to_string(shard.size());
  for (size_t cut = 0; cut < shard.size(); ++cut) {
    const Status status = ClassifyFile(shard.substr(0, cut)).status();
    INFO(cut << ": " << status.ToString());
    const std::string actual = std::to_string(cut);
    REQUIRE(status.message().find(actual) != std::string::npos);
    if (cut < 8) {
      REQUIRE(status.code() == StatusCode::kNotCheckpoint);
      continue;
    }
    REQUIRE(status.code() == StatusCode::kTruncated);
    REQUIRE(status.offset() == static_cast<int64_t>(cut));
    // The size stands behind the mark; before that the header length alone says what to expect.
    const size_t size_end = Shard().find("dsckpt.bytes") + 15 + 20;
    REQUIRE(status.message().find(cut < size_end ? "at least 4096" : whole) != std::string::npos);
  }
}

TEST_CASE("C36 bytes after a shard") {
  for (const size_t more : {1, 8, 128, 4096}) {
    const std::string file = Shard() + std::string(more, 'x');
    CheckRefused(file, {StatusCode::kTrailingBytes,
                        "declares 4416 bytes, the file has " + std::to_string(file.size())});
  }
  // Ends as a shard does, but is longer: the footer's own size decides.
  std::string twice = Shard() + FooterText(SmallFooter());
  CheckRefused(twice,
               {StatusCode::kTrailingBytes, "footer declares 4416 bytes, the file has 4544"});
}

TEST_CASE("the footer's size is larger than the file") {
  std::string file = Shard();
  file.erase(4096, 64);
  CheckRefused(file, {StatusCode::kTruncated, "footer declares 4416 bytes, the file has 4352"});
}

TEST_CASE("C37 every bit of the footer counts") {
  const std::string shard = Shard();
  for (size_t bit = 0; bit < 128 * 8; ++bit) {
    std::string file = shard;
    file[kFooterAt + bit / 8] = static_cast<char>(file[kFooterAt + bit / 8] ^ (1 << bit % 8));
    const Status status = ClassifyFile(file).status();
    INFO(bit << ": " << status.ToString());
    REQUIRE(status.code() == StatusCode::kCorrupt);
    REQUIRE(status.message().starts_with("footer: "));
    REQUIRE(status.offset() >= static_cast<int64_t>(kFooterAt));
  }
}

TEST_CASE("C37 damage in the fixed part of the header") {
  const std::string shard = Shard();
  const size_t size_at = shard.find("dsckpt.bytes") + 15;
  for (size_t byte = 0; byte < size_at + 20; ++byte) {
    if (byte >= 35 && byte < 43) continue;  // The version's text means nothing to readers.
    std::string file = shard;
    file[byte] = static_cast<char>(file[byte] ^ 1);
    const Status status = ClassifyFile(file).status();
    INFO(byte << ": " << status.ToString());
    REQUIRE(status.code() == StatusCode::kCorrupt);
    REQUIRE(status.message().starts_with("header: "));
    REQUIRE(status.offset() < 4096);
  }
}

TEST_CASE("one end without the other") {
  std::string no_footer = Shard();
  no_footer.replace(no_footer.size() - 8, 8, "12345678");
  CheckRefused(no_footer, {StatusCode::kCorrupt, "no dsckpt footer ends it"});

  const std::string json = R"({"w":{"dtype":"U8","shape":[128],"data_offsets":[0,128]}})";
  std::string rewritten(8, '\0');
  rewritten[0] = static_cast<char>(json.size());
  rewritten += json + FooterText(SmallFooter());
  CheckRefused(rewritten, {StatusCode::kCorrupt, "no dsckpt header begins it; another tool"});

  std::string longer = Shard();
  longer[1] = 0x1F;  // N = 8184
  CheckRefused(longer, {StatusCode::kCorrupt, "rewritten by another tool"});

  std::string no_size = Shard();
  no_size.replace(no_size.find("dsckpt.bytes"), 12, "other.member");
  CheckRefused(no_size, {StatusCode::kCorrupt, "header: declares unreadable"});
  no_size.pop_back();
  CheckRefused(no_size, {StatusCode::kCorrupt, "size is unreadable"});
}

TEST_CASE("a save that did not finish begins with zeros") {
  std::string file = Shard();
  std::fill_n(file.begin(), 4096, '\0');
  CheckRefused(file, {StatusCode::kNotCheckpoint, "a save that was not finished"});
  CheckRefused(std::string(1 << 20, '\0'), {StatusCode::kNotCheckpoint, "not finished"});
}

TEST_CASE("versions and features that this release does not know") {
  Footer footer = SmallFooter();
  footer.version_major = 2;
  CheckRefused(Shard(footer), {StatusCode::kUnsupported, "format version 2.1"});
  footer = SmallFooter();
  footer.must_understand = uint64_t{1} << 63 | 2;
  CheckRefused(Shard(footer), {StatusCode::kUnsupported, "feature bit 1, 63"});
}

TEST_CASE("hostile footers with a right checksum") {
  struct Case {
    const char* message;
    std::function<void(Footer&)> change;
  };
  const Case cases[] = {
      {"data_begin is 0", [](Footer& f) { f.data_begin = 0; }},
      {"data_begin", [](Footer& f) { f.data_begin = 8192; }},
      {"tail_begin is 0", [](Footer& f) { f.tail_begin = 0; }},
      {"tail_begin", [](Footer& f) { f.tail_begin = f.index_offset + 1; }},
      {"index_offset is 4161", [](Footer& f) { ++f.index_offset, --f.index_bytes; }},
      {"index_offset", [](Footer& f) { f.index_offset = ~uint64_t{63}; }},
      {"index_bytes is 120, expected 128", [](Footer& f) { f.index_bytes = 120; }},
      {"index_bytes", [](Footer& f) { f.index_bytes = ~uint64_t{0}; }},
      {"index_bytes is 0", [](Footer& f) { f.index_offset += 128, f.index_bytes = 0; }},
  };
  for (const Case& c : cases) {
    Footer footer = SmallFooter();
    c.change(footer);
    std::string file = Shard(footer);
    // Keep the header length in step, so that the footer's own rules are what refuses.
    const uint64_t json_bytes = footer.data_begin - 8;
    std::memcpy(file.data(), &json_bytes, 8);
    CheckRefused(file, {StatusCode::kCorrupt, std::string("footer: ") + c.message});
  }
  std::string reserved = Shard();
  reserved[kFooterAt + 80] = 1;
  Reseal(reserved);
  CheckRefused(reserved, {StatusCode::kCorrupt, "reserved byte 80 is not zero"});
  std::string length = Shard();
  length[kFooterAt + 60] = 64;
  Reseal(length);
  CheckRefused(length, {StatusCode::kCorrupt, "length is 64, expected 128"});
}

TEST_CASE("foreign files are named") {
  struct Case {
    std::string file;
    const char* kind;
  };
  const Case cases[] = {
      {"", "empty (0 bytes)"},
      {"abc", "too short: 3 bytes"},
      {"PK\x03\x04\x00\x00\x08\x08\x00\x00"s, "zip archive"},
      {"PK\x03\x04\x00\x00\x00\x00\x00\x00"s + std::string(100, 'x'), "zip archive"},
      {"PK\x03\x04", "zip archive"},
      {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", "pickle"},
      {"\x80\x05]\x94.", "pickle"},
      {"GGUF\3\0\0\0\1\0\0\0"s, "GGUF"},
      {"\x89HDF\r\n\x1a\n\0\0"s, "HDF5"},
      {"\x93NUMPY\1\0v\0"s, ".npy"},
      {"\x1f\x8b\x08\0\0\0\0\0\0\3"s, "gzip"},
      {"\x28\xb5\x2f\xfd\x24\0\0\0\0\0"s, "zstd"},
      {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
      {"{\"weight_map\": {}}", "JSON text"},
      {std::string(1000, 'z'), "this is text"},
      {std::string(1000, '\x81'), "header length 9331882296111890817 is above"},
      {"\x10\0\0\0DSCM"s + std::string(100, '\0'), "the manifest of a checkpoint"},
      {"\x64\0\0\0\0\0\0\0zzz"s, "header length 100 exceeds the file's 11 bytes"},
      {"\0\0\0\0\0\0\0\0{}"s, "header length, are 0"},
  };
  for (const Case& c : cases) CheckRefused(c.file, {StatusCode::kNotCheckpoint, c.kind});
}

TEST_CASE("C48 header lengths") {
  const auto file = [](uint64_t length) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text + "{}";
  };
  CHECK(ClassifyFile(file(2)).value().kind == FileKind::kSafetensors);
  CHECK(ClassifyFile(file(1)).ok());
  CheckRefused(file(3), {StatusCode::kTruncated, "header length declares at least 11 bytes"});
  CheckRefused(file(11), {StatusCode::kTruncated, "the file has 10"});
  CheckRefused(file(kMaxHeaderJsonBytes), {StatusCode::kTruncated, "at least 100000008"});
  for (const uint64_t length : {kMaxHeaderJsonBytes + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    CheckRefused(file(length),
                 {StatusCode::kCorrupt, "header length " + std::to_string(length) + " is above"});
  }
  // Some signatures are lengths that a safetensors file may have.
  std::string zip_like = "PK\x03\x04\0\0\0\0{}"s;
  zip_like.resize(8 + 0x04034B50, ' ');
  CHECK(ClassifyFile(zip_like).ok());
}
