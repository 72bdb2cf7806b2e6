// What format 1.1 added to the index: the digest of the content, statistics, vendor data, sums of
// other hashes.

#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "format/index/content.h"
#include "index_generated.h"
#include "tests/support/catch.h"
#include "tests/support/index_sample.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

using Change = std::function<void(IndexColumns&)>;

StatisticsColumns TwoTensors() {
  return {.tensor = {0, 4},
          .nan = {1, 0},
          .inf = {2, 5},
          .zero = {3, 0},
          .min = {-1, 0},
          .max = {2, 0},
          .sum = {0.5, 0},
          .sum_squares = {4, 0}};
}

void AddTree(IndexColumns& c) {
  c.tree.heap = "keytext";
  c.tree.tags = {"tag", "other"};
  c.tree.nodes = {{.kind = NodeKind::kDict, .children = 2, .payload = 2},
                  {.kind = NodeKind::kString,
                   .key_kind = Key::Kind::kString,
                   .tag = 1,
                   .key = HeapRange(0, 3),
                   .payload = HeapRange(3, 4)},
                  {.kind = NodeKind::kInt, .key_kind = Key::Kind::kInt, .key = 7, .payload = 5}};
}

void AddPiece(IndexColumns& c) {
  const int64_t shape[] = {100};
  const Range box[] = {{3, 9}};
  REQUIRE(
      AppendPiece(c.pieces, 0, {.logical_name = "whole", .logical_shape = shape, .box = box}).ok());
}

Hash128 Content(const Change& change) {
  Sample sample = MakeSample();
  AddTree(sample.columns);
  AddPiece(sample.columns);
  change(sample.columns);
  return ContentDigest(ViewOf(sample.columns)).value();
}

Status Refused(const Change& change) {
  Sample sample = MakeSample();
  sample.columns.annotations.statistics = TwoTensors();
  sample.columns.annotations.vendor = {{"a", "1"}, {"b", ""}};
  change(sample.columns);
  return ParseStatus(sample);
}

/// An index of nothing with sums of a hash.
Status WithSums(uint8_t hash_id, uint8_t sum_bytes, size_t bytes_of_sums) {
  flatbuffers::FlatBufferBuilder b;
  const auto names = [&] {
    return fbs::CreateNames(b, b.CreateVector(std::vector<uint8_t>()),
                            b.CreateVector(std::vector<uint32_t>()));
  };
  const auto payload = [&] {
    const auto wide = [&] { return b.CreateVector(std::vector<uint64_t>()); };
    const auto narrow = [&] { return b.CreateVector(std::vector<uint32_t>()); };
    return fbs::CreatePayload(b, wide(), wide(), wide(), b.CreateVector(std::vector<uint8_t>()),
                              narrow(), narrow());
  };
  const auto tensors = fbs::CreateTensors(b, names(), b.CreateVector(std::vector<uint8_t>()),
                                          b.CreateVector(std::vector<uint32_t>()),
                                          b.CreateVector(std::vector<int64_t>()), payload());
  const auto aliases = fbs::CreateAliases(b, names(), b.CreateVector(std::vector<uint32_t>()));
  const auto objects =
      fbs::CreateObjects(b, names(), b.CreateVector(std::vector<uint8_t>()), payload());
  const auto dtypes = b.CreateVectorOfStructs<fbs::DType>(nullptr, 0);
  const auto media = b.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>());
  const auto sums = b.CreateVectorOfStructs<fbs::Hash128>(nullptr, 0);
  const auto stored = b.CreateVectorOfStructs<fbs::StoredChunk>(nullptr, 0);
  const auto other = b.CreateVector(std::vector<uint8_t>(bytes_of_sums));
  b.Finish(fbs::CreateIndex(b, hash_id, dtypes, media, tensors, aliases, objects, sums, stored, 0,
                            0, 0, 0, 0, nullptr, sum_bytes, other),
           fbs::IndexIdentifier());
  std::vector<std::byte> bytes(b.GetSize());
  std::memcpy(bytes.data(), b.GetBufferPointer(), bytes.size());
  return ParseIndex(bytes, {4096, 4096, 4096}).status();
}

}  // namespace

TEST_CASE("annotations: round trip") {
  Sample sample = MakeSample();
  AnnotationColumns& c = sample.columns.annotations;
  c.content = Hash128{1, 2};
  c.statistics = TwoTensors();
  c.statistics.min[1] = std::numeric_limits<double>::quiet_NaN();
  c.vendor = {{"com.example.a", std::string("\0\xFF", 2)}, {"com.example.b", ""}};
  const std::vector<std::byte> bytes = Encode(sample.columns);
  CHECK(bytes.size() <= IndexBytesBound(sample.columns));
  const auto parsed = ParseIndex(bytes, sample.geometry);
  REQUIRE(parsed.status().ToString() == "Ok");
  const AnnotationView& v = parsed->annotations;
  CHECK(v.content == Hash128{1, 2});
  REQUIRE(v.statistics.tensor.size() == 2);
  CHECK(v.statistics.tensor[1] == 4);
  CHECK(v.statistics.nan[0] == 1);
  CHECK(v.statistics.inf[1] == 5);
  CHECK(v.statistics.zero[0] == 3);
  CHECK(v.statistics.min[0] == -1);
  CHECK(std::isnan(v.statistics.min[1]));
  CHECK(v.statistics.max[0] == 2);
  CHECK(v.statistics.sum[0] == 0.5);
  CHECK(v.statistics.sum_squares[0] == 4);
  REQUIRE(v.vendor.size() == 2);
  CHECK(v.vendor[0].name == "com.example.a");
  CHECK(v.vendor[0].data == std::string_view("\0\xFF", 2));
  CHECK(v.vendor[1].data.empty());
}

TEST_CASE("annotations: an index without any has none of their fields") {
  const std::vector<std::byte> bytes = Encode(MakeSample().columns);
  const fbs::Index& index = *fbs::GetIndex(bytes.data());
  CHECK(index.content() == nullptr);
  CHECK(index.statistics() == nullptr);
  CHECK(index.vendor() == nullptr);
  CHECK(index.sums() == nullptr);
}

TEST_CASE("annotations: one broken rule at a time") {
  CHECK(Refused([](IndexColumns&) {}).ok());
  struct Case {
    const char* says;
    Change change;
  };
  const Case cases[] = {
      {"statistics.max: entries: expected 2, found 1",
       [](IndexColumns& c) { c.annotations.statistics.max.pop_back(); }},
      {"statistics.nan: entries: expected 2, found 3",
       [](IndexColumns& c) { c.annotations.statistics.nan.push_back(0); }},
      {"statistics: tensor: expected 0 to below 5, found 5",
       [](IndexColumns& c) {
         c.annotations.statistics.tensor = {5, 6};
       }},
      {"statistics: tensor: expected 1 to below 5, found 0",
       [](IndexColumns& c) {
         c.annotations.statistics.tensor = {0, 0};
       }},
      {"together at most 6", [](IndexColumns& c) { c.annotations.statistics.nan[0] = 2; }},
      {"together at most 5", [](IndexColumns& c) { c.annotations.statistics.zero[1] = ~0ull; }},
      {"vendor: names: expected ascending, found 'a' behind 'b'",
       [](IndexColumns& c) { std::swap(c.annotations.vendor[0], c.annotations.vendor[1]); }},
      {"vendor: names", [](IndexColumns& c) { c.annotations.vendor[1].name = "a"; }},
      {"vendor: name: expected 1 to 255 bytes",
       [](IndexColumns& c) { c.annotations.vendor[0].name = ""; }},
      {"vendor: name", [](IndexColumns& c) { c.annotations.vendor[0].name = "\x1B[2J"; }},
      {"vendor: name", [](IndexColumns& c) { c.annotations.vendor[0].name = "\xC0\x80"; }},
      {"vendor: name", [](IndexColumns& c) { c.annotations.vendor[0].name.assign(256, 'a'); }},
      {"vendor: entries: expected at most 32, found 33",
       [](IndexColumns& c) {
         c.annotations.vendor.clear();
         for (char i = 0; i < 33; ++i) c.annotations.vendor.push_back({std::string{'a', i}, ""});
       }},
  };
  for (const Case& c : cases) {
    const Status status = Refused(c.change);
    INFO(c.says << " in " << status.ToString());
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find(c.says) != std::string::npos);
  }
}

TEST_CASE("the digest of the content says what a shard holds, not how it is stored") {
  const Hash128 content = Content([](IndexColumns&) {});
  const Change differs[] = {
      [](IndexColumns& c) { c.tensor_names.bytes[0] = 'A'; },
      [](IndexColumns& c) { c.chunk_sums[0].low ^= 1; },
      [](IndexColumns& c) { c.chunk_sums.back().high ^= 1; },
      [](IndexColumns& c) { std::swap(c.dims[0], c.dims[1]); },
      [](IndexColumns& c) { c.tensor_dtype[0] = 1; },
      [](IndexColumns& c) { c.alias_names.bytes[0] = 'y'; },
      [](IndexColumns& c) { c.alias_target[0] = 1; },
      [](IndexColumns& c) { c.object_names.bytes[0] = 'p'; },
      [](IndexColumns& c) { c.media_types[0] = "text/plain"; },
      [](IndexColumns& c) { c.pieces = {}; },
      [](IndexColumns& c) { c.pieces.bounds[0] = 4; },
      [](IndexColumns& c) { c.pieces.logical_dims[0] = 101; },
      [](IndexColumns& c) { c.pieces.element_offset[0] = 1; },
      [](IndexColumns& c) { c.tree.heap[0] = 'K'; },
      [](IndexColumns& c) { c.tree.heap[3] = 'T'; },
      [](IndexColumns& c) { c.tree.nodes[1].tag = 2; },
      [](IndexColumns& c) { c.tree.nodes[2].key = 8; },
      [](IndexColumns& c) { c.tree.nodes[2].payload = 6; },
      [](IndexColumns& c) { std::swap(c.tree.nodes[1], c.tree.nodes[2]); },
      [](IndexColumns& c) { c.rank_own.Append("o"); },
  };
  for (const Change& change : differs) {
    INFO("change " << &change - differs);
    CHECK(Content(change) != content);
  }
  const Change equal[] = {
      [](IndexColumns& c) { c.tensors.offset[0] = 5; },
      [](IndexColumns& c) { c.tensors.encoding[0] = 1, c.tensors.stored_bytes[0] = 3; },
      [](IndexColumns& c) { c.stored_chunks[0].xxh3_64 = 5; },
      [](IndexColumns& c) { c.attributes = c.tree; },
      [](IndexColumns& c) { c.pieces.replica_group[0] = 9; },
      [](IndexColumns& c) { c.tree.heap += "unused", c.tree.tags.push_back("unused"); },
      [](IndexColumns& c) {
        std::swap(c.dtypes[0], c.dtypes[1]), c.tensor_dtype = {1, 0, 1, 1, 2};
      },
      [](IndexColumns& c) {
        c.annotations.vendor = {{"a", "1"}};
      },
      [](IndexColumns& c) { c.rank = 7; },
  };
  for (const Change& change : equal) {
    INFO("change " << &change - equal);
    CHECK(Content(change) == content);
  }
}

TEST_CASE("index: sums of a hash that is not known are counted, not read") {
  CHECK(WithSums(2, 0, 0).ok());
  CHECK(WithSums(2, 32, 0).ok());
  CHECK(WithSums(255, 64, 0).ok());
  struct Case {
    uint8_t hash_id, sum_bytes;
    size_t bytes;
    StatusCode code;
    const char* says;
  };
  const Case cases[] = {
      {0, 0, 0, StatusCode::kUnsupported, "hash id 0"},
      {2, 32, 64, StatusCode::kCorrupt, "chunk_sums: entries: expected 0, found 2"},
      {2, 32, 33, StatusCode::kCorrupt, "sums: bytes: expected a multiple of 32, found 33"},
      {2, 65, 0, StatusCode::kCorrupt, "sum_bytes: bytes: expected at most 64, found 65"},
      {1, 16, 0, StatusCode::kCorrupt, "sum_bytes: bytes: expected 0 for hash id 1"},
      {1, 0, 1, StatusCode::kCorrupt, "sums: bytes: expected 0, found 1"},
  };
  for (const Case& c : cases) {
    const Status status = WithSums(c.hash_id, c.sum_bytes, c.bytes);
    INFO(c.says << " in " << status.ToString());
    CHECK(status.code() == c.code);
    CHECK(status.message().find(c.says) != std::string::npos);
  }
}
