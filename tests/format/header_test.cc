#include "format/header/header.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "dsckpt/limits.h"
#include "format/footer/footer.h"
#include "format/names.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

const std::string kData = std::string(DSCKPT_SOURCE_DIR) + "/tests/data/safetensors/";

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A whole file, read the way File::Open does.
Result<Header> ParseSafetensors(const std::string& file) {
  const auto bytes = Bytes(file);
  const size_t size = bytes.size();
  DSCKPT_ASSIGN_OR_RETURN(const Classified kind,
                          Classify(bytes.first(std::min<size_t>(size, 4096)),
                                   bytes.last(std::min<size_t>(size, 128)), size));
  CHECK(kind.kind == FileKind::kSafetensors);
  uint64_t json = 0;
  std::memcpy(&json, file.data(), 8);
  return ParseHeader(std::string_view(file).substr(8, json), size - 8 - json);
}

std::string Listing(const Header& header) {
  std::string text = std::to_string(header.entries.size());
  for (const HeaderEntry& entry : header.entries) {
    text += " \"" + Printable(entry.name) + "\":" + std::string(entry.dtype.name) + "[";
    for (size_t i = 0; i < entry.shape.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(entry.shape[i]);
    }
    text += "]/" + std::to_string(entry.end - entry.begin);
  }
  return text;
}

std::string Build(bool shard, const Metadata& metadata,
                  const std::vector<std::pair<std::string, uint64_t>>& tensors) {
  HeaderBuilder builder(shard, metadata);
  uint64_t end = 0;
  for (const auto& [name, bytes] : tensors) {
    const int64_t shape[] = {static_cast<int64_t>(bytes)};
    builder.Add(name, "U8", shape, end, end + bytes);
    end += bytes;
  }
  bool listed = false;
  auto region = builder.Finish(&listed);
  REQUIRE(region.ok());
  CHECK(listed);
  return region.value();
}

uint64_t JsonBytes(const std::string& region) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, region.data(), 8);
  return bytes;
}

}  // namespace

TEST_CASE("safetensors files at the edges of the format") {
  std::istringstream table(ReadWholeFile(kData + "expected.tsv"));
  std::string line;
  std::getline(table, line);
  int files = 0;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string file, stock, code, detail;
    std::getline(fields, file, '\t');
    std::getline(fields, stock, '\t');
    std::getline(fields, code, '\t');
    std::getline(fields, detail);
    INFO(file);
    ++files;
    const auto header = ParseSafetensors(ReadWholeFile(kData + file));
    INFO(header.status().ToString());
    REQUIRE(StatusCodeName(header.status().code()) == code);
    if (header.ok()) {
      CHECK(stock == "accepts");
      CHECK(Listing(header.value()) == detail);
    } else {
      CHECK(header.status().message().find(detail) != std::string::npos);
    }
  }
  CHECK(files == 39);
}

TEST_CASE("header rules that the files do not cover") {
  struct Case {
    std::string json;
    uint64_t data_bytes;
    StatusCode code;
    const char* message;
  };
  const std::string deep(100000, '[');
  const std::string entry = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  const Case cases[] = {
      {"", 0, StatusCode::kCorrupt, "not valid JSON"},
      {"[]", 0, StatusCode::kCorrupt, "must be a JSON object, not an array"},
      {"7", 0, StatusCode::kCorrupt, "must be a JSON object, not the number 7"},
      {deep, 0, StatusCode::kCorrupt, "must be a JSON object, not an array"},
      {R"({"a":{"shape":)" + deep, 0, StatusCode::kCorrupt, "tensor 'a': shape must be an array"},
      {R"({"a":{"dtype":)" + deep, 0, StatusCode::kCorrupt, "tensor 'a': dtype must be a string"},
      {R"({"__metadata__":)" + deep, 0, StatusCode::kCorrupt, "object of strings, not an array"},
      {R"({"__metadata__":{"a":true}})", 0, StatusCode::kCorrupt, "not a boolean"},
      {R"({"__metadata__":{"k":"1","\u006b":"2"}})", 0, StatusCode::kCorrupt,
       "duplicate name 'k' in __metadata__"},
      {R"({"a":null})", 0, StatusCode::kCorrupt, "tensor 'a': must be an object, not null"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, StatusCode::kCorrupt,
       "field 'data_offsets' is missing"},
      {R"({"a":{)" + entry + R"(,"dtype":"U8"}})", 1, StatusCode::kCorrupt,
       "duplicate field 'dtype'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, StatusCode::kCorrupt,
       "two integers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, StatusCode::kCorrupt,
       "two integers"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, StatusCode::kCorrupt,
       "found the number 1.0"},
      {R"({"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}})", 1, StatusCode::kCorrupt,
       "found the number 1e0"},
      {R"({"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}})", 0, StatusCode::kCorrupt,
       "found a negative number"},
      {R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1, StatusCode::kCorrupt,
       "found a string"},
      {R"({"a":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       StatusCode::kCorrupt, "tensor 'a': shape [4611686018427387904, 4]: more than 2^63-1"},
      {R"({"a":{"dtype":"F64","shape":[9223372036854775807],"data_offsets":[0,0]}})", 0,
       StatusCode::kCorrupt, "more than 2^63-1 bytes of F64"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})", 1, StatusCode::kCorrupt,
       "data_offsets [0,1] hold 1 bytes, but dtype and shape take 2"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]}})",
       1, StatusCode::kCorrupt, "lie beyond any possible file"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, StatusCode::kCorrupt,
       "hole of 1 bytes before tensor 'a'"},
      {R"({"a":{)" + entry + R"(}}x)", 1, StatusCode::kCorrupt, "not valid JSON"},
      {R"({"a":{)" + entry, 1, StatusCode::kCorrupt, "not valid JSON"},
      {"{\"\xFF\":{" + entry + "}}", 1, StatusCode::kCorrupt, "not valid JSON at byte 2"},
      {"{\"\\ud800\":{" + entry + "}}", 1, StatusCode::kCorrupt, "not valid JSON"},
      {"{\"\x1b]8;;\":{\"dtype\":\"U8\"}}", 0, StatusCode::kCorrupt, "not valid JSON"},
      {"{\"\\u001b[2J\":{\"dtype\":\"U8\"}}", 0, StatusCode::kCorrupt, "tensor '\\x1b[2J'"},
      {"{}", 1, StatusCode::kTrailingBytes, "expected 10 bytes in the file, found 11"},
      {R"({"a":{)" + entry + R"(,"x":1}})", 1, StatusCode::kCorrupt, "unknown field 'x'"},
      {R"({"a":{"dtype":"C128","shape":[],"data_offsets":[0,16]}})", 16, StatusCode::kUnsupported,
       "unknown dtype 'C128'"},
  };
  for (const Case& c : cases) {
    INFO(c.json.substr(0, 120));
    const auto header = ParseHeader(c.json, c.data_bytes);
    REQUIRE_FALSE(header.ok());
    INFO(header.status().ToString());
    CHECK(header.status().code() == c.code);
    CHECK(header.status().message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("more dimensions than the limit") {
  std::string shape = "1";
  for (uint64_t i = 1; i < kMaxRank; ++i) shape += ",1";
  const auto json = [](const std::string& dims) {
    return R"({"a":{"dtype":"U8","shape":[)" + dims + R"(],"data_offsets":[0,1]}})";
  };
  CHECK(ParseHeader(json(shape), 1).ok());
  CHECK(ParseHeader(json(shape + ",1"), 1).status().code() == StatusCode::kLimitExceeded);
}

TEST_CASE("entries are sorted by place, whatever the order in the file") {
  const auto header = ParseHeader(
      R"( {"b":{"shape":[2],"data_offsets":[0,4],"dtype":"BF16"},
           "z":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},
           "__metadata__":{"k":"v\n","a":""},
           "a":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]},
           "e":{"dtype":"U8","shape":[],"data_offsets":[4,5]}} )",
      5);
  REQUIRE(header.ok());
  CHECK(Listing(header.value()) == R"(4 "b":BF16[2]/4 "a":F32[2, 0]/0 "z":F32[0, 3]/0 "e":U8[]/1)");
  CHECK(header.value().metadata == Metadata{{"k", "v\n"}, {"a", ""}});
}

TEST_CASE("a shard's header, byte by byte") {
  std::string region = Build(true, {{"zeta", "1"}, {"format", "np"}, {"alpha", "\"\x01\x7f"}},
                             {{"w\n", 12}, {"\xC3\xBC", 0}});
  REQUIRE(region.size() == 4096);
  CHECK(JsonBytes(region) == 4088);
  PatchSizes(region, 4096 + 12, 123456);
  const std::string expected =
      R"({"__metadata__":{"dsckpt":"1.1     ","dsckpt.bytes":"00000000000000123456",)"
      R"("format":"np","alpha":"\"\u0001)"
      "\x7f"
      R"(","zeta":"1"},"w\n":{"dtype":"U8","shape":[12],"data_offsets":[0,12]},)"
      "\"\xC3\xBC"
      R"(":{"dtype":"U8","shape":[0],"data_offsets":[12,12]},"__dsckpt__":{"dtype":"U8",)"
      R"("shape":[119348              ],"data_offsets":[12                  ,119360              ]}})";
  CHECK(region.substr(8, expected.size()) == expected);
  CHECK(region.find_first_not_of(' ', 8 + expected.size()) == std::string::npos);

  const auto header = ParseHeader(std::string_view(region).substr(8), 123456 - 4096);
  REQUIRE(header.ok());
  CHECK(Listing(header.value()) ==
        "3 \"w\\x0a\":U8[12]/12 \"\xC3\xBC\":U8[0]/0 \"__dsckpt__\":U8[119348]/119348");
}

TEST_CASE("patching again gives the same length, up to the largest numbers") {
  std::string region = Build(true, {}, {});
  const size_t size = region.size();
  PatchSizes(region, size, kMaxFileBytes);
  PatchSizes(region, size, size + 128);
  std::string once = Build(true, {}, {});
  PatchSizes(once, size, size + 128);
  CHECK(region == once);
  PatchSizes(region, size, kMaxFileBytes);
  const auto header = ParseHeader(std::string_view(region).substr(8), kMaxFileBytes - size);
  REQUIRE(header.ok());
  CHECK(header.value().entries[0].end == kMaxFileBytes - size);
}

TEST_CASE("a header of any length ends in a whole tail entry") {
  for (uint64_t length = 3700; length < 4000; ++length) {
    std::string region = Build(true, {}, {{std::string(length, 'n'), 1}});
    PatchSizes(region, region.size() + 1, region.size() + 1000);
    INFO(length << " " << region.size());
    REQUIRE(region.size() % 4096 == 0);
    REQUIRE(region.size() <= 8192);
    const auto header = ParseHeader(std::string_view(region).substr(8), 1000);
    REQUIRE(header.ok());
    REQUIRE(header.value().entries.back().end == 1000);
  }
}

TEST_CASE("a plain safetensors header") {
  const std::string expected =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  const std::string region = Build(false, {}, {{"a", 3}});
  CHECK(region.size() % 8 == 0);
  CHECK(region.substr(8, expected.size()) == expected);
  CHECK(region.size() - 8 - expected.size() < 8);
  CHECK(JsonBytes(region) == region.size() - 8);
  CHECK(ParseHeader(std::string_view(region).substr(8), 3).ok());
  CHECK(Build(false, {}, {}).substr(8, 32) == R"({"__metadata__":{"format":"pt"}})");
}

TEST_CASE("C06 above the cap a shard lists the tail alone, a plain file is refused") {
  constexpr uint64_t kTensors = 1'290'000;
  for (const bool shard : {true, false}) {
    HeaderBuilder builder(shard, {{"alias", "target"}});
    const int64_t shape[] = {1};
    for (uint64_t i = 0; i < kTensors; ++i) {
      builder.Add("model.layers." + std::to_string(i) + ".self_attn", "U8", shape, i, i + 1);
    }
    bool listed = true;
    auto region = builder.Finish(&listed);
    if (!shard) {
      CHECK(region.status().code() == StatusCode::kLimitExceeded);
      continue;
    }
    REQUIRE(region.ok());
    CHECK_FALSE(listed);
    CHECK(region.value().size() == 4096);
    PatchSizes(region.value(), 4096, 4096 + kTensors);
    const auto header = ParseHeader(std::string_view(region.value()).substr(8), kTensors);
    REQUIRE(header.ok());
    CHECK(Listing(header.value()) == "1 \"__dsckpt__\":U8[1290000]/1290000");
    CHECK(header.value().metadata.back().first == "alias");
  }
}

TEST_CASE("metadata above the cap has nowhere to go") {
  HeaderBuilder builder(true, {{"k", std::string(kMaxHeaderJsonBytes, 'x')}});
  bool listed = true;
  CHECK(builder.Finish(&listed).status().code() == StatusCode::kLimitExceeded);
}

TEST_CASE("JSON strings have pinned escapes and come back") {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  all += "\xC3\xBC\xE2\x80\xA8\xF0\x9F\x98\x80";
  std::string json;
  AppendJsonString(json, all);
  CHECK(json.substr(0, 80) ==
        R"("\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0)");
  const auto header = ParseHeader("{\"__metadata__\":{\"k\":" + json + "}}", 0);
  REQUIRE(header.ok());
  CHECK(header.value().metadata[0].second == all);
}

TEST_CASE("metadata that stand first are read without what is behind them") {
  const auto read = [](const std::string& json, uint64_t data_bytes) {
    const auto metadata = ParseMetadata(json, data_bytes);
    REQUIRE(metadata.ok());
    return *metadata;
  };
  const std::string tensor = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const std::string members = R"("__metadata__":{"k\"}":"{v\\","z":"1"})";
  const Metadata expected = {{"k\"}", "{v\\"}, {"z", "1"}};
  CHECK(read("{" + members + "," + tensor + "}", 2) == expected);
  CHECK(read("{" + members + ",and what no parser takes", 2) == expected);
  CHECK(read("{" + tensor + "," + members + "}", 2) == expected);
  CHECK(read("{ " + members + "," + tensor + "}", 2) == expected);
  CHECK(read("{\"__metadata__\":{}," + tensor + "}", 2).empty());
  CHECK(read("{" + tensor + "}", 2).empty());
  CHECK_FALSE(ParseMetadata(R"({"__metadata__":{"k":1},)" + tensor + "}", 2).ok());
  CHECK_FALSE(ParseMetadata(R"({"__metadata__":{"k":"v)", 2).ok());
}

TEST_CASE("100,000 entries come back") {
  std::vector<std::pair<std::string, uint64_t>> tensors;
  for (int i = 0; i < 100'000; ++i) tensors.emplace_back("t/" + std::to_string(i), i % 3);
  const std::string region = Build(false, {}, tensors);
  const auto header = ParseHeader(std::string_view(region).substr(8), 99'999);
  REQUIRE(header.ok());
  CHECK(header.value().entries.size() == 100'000);
  CHECK(header.value().entries.back().end == 99'999);
}
