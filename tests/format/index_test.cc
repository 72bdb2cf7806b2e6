#include "format/index/index.h"

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "format/layout.h"
#include "index_generated.h"
#include "tests/support/catch.h"
#include "tests/support/index_sample.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

template <typename A, typename B>
bool Equal(const A& a, const B& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

TEST_CASE("index: round trip") {
  Sample sample = MakeSample();
  IndexColumns& c = sample.columns;
  c.tree.nodes = {{.kind = NodeKind::kDict, .children = 1, .payload = 1},
                  {.kind = NodeKind::kInt, .key_kind = Key::Kind::kInt, .tag = 1, .payload = 5}};
  c.tree.tags = {"tag"};
  const std::vector<std::byte> bytes = Encode(c);
  CHECK(bytes.size() % 8 == 0);
  CHECK(bytes.size() <= IndexBytesBound(c));
  CHECK(bytes == Encode(c));

  const Result<IndexView> parsed = ParseIndex(bytes, sample.geometry);
  REQUIRE(parsed.status().message() == "");
  const IndexView& v = *parsed;
  CHECK(Equal(v.dtypes, c.dtypes));
  CHECK(Equal(v.media_types, c.media_types));
  CHECK(Equal(v.tensor_names.bytes, c.tensor_names.bytes));
  CHECK(Equal(v.tensor_names.ends, c.tensor_names.ends));
  CHECK(v.alias_names[0] == "z");
  CHECK(v.object_names[0] == "o");
  CHECK(Equal(v.tensor_dtype, c.tensor_dtype));
  CHECK(Equal(v.dims, c.dims));
  CHECK(Equal(v.shape(0), std::vector<int64_t>{2, 3}));
  CHECK(Equal(v.shape(2), std::vector<int64_t>{0, 8}));
  CHECK(Equal(v.tensors.offset, c.tensors.offset));
  CHECK(Equal(v.tensors.raw_bytes, c.tensors.raw_bytes));
  CHECK(Equal(v.tensors.stored_bytes, c.tensors.stored_bytes));
  CHECK(Equal(v.tensors.encoding, c.tensors.encoding));
  CHECK(Equal(v.objects.offset, c.objects.offset));
  CHECK(Equal(v.chunk_sums.xxh3, c.chunk_sums));
  CHECK(v.tree.nodes.size() == 2);
  CHECK(v.tree.nodes[1].payload == 5);
  CHECK(v.tree.tags[0] == "tag");
  CHECK(v.attributes.nodes.empty());

  CHECK(TensorSums(v, 0).size() == 1);
  CHECK(TensorSums(v, 2).empty());
  CHECK(TensorSums(v, 4)[0] == Hash128{8208, 15});
  CHECK(ObjectSums(v, 0)[0] == Hash128{1, 2});
  CHECK(TensorStoredChunks(v, 3)[0].xxh3_64 == 77);
  CHECK(TensorStoredChunks(v, 0).empty());
  CHECK(ObjectStoredChunks(v, 0).empty());
}

TEST_CASE("index: an empty one") {
  const std::vector<std::byte> bytes = Encode({});
  CHECK(ParseIndex(bytes, {4096, 4096, 4096}).ok());
}

TEST_CASE("index: names are found by bytes") {
  NameColumns names;
  for (const char* name : {"", "a", "a/b", "b", "\xC3\xBC"}) names.Append(name);
  const NameView view{names.bytes, names.ends};
  for (uint32_t i = 0; i < names.size(); ++i) CHECK(view.Find(names[i]) == i);
  for (const char* absent : {"0", "a/", "aa", "c", "\xFF"}) CHECK(!view.Find(absent));
}

TEST_CASE("index: one broken rule at a time") {
  struct Case {
    const char* name;
    const char* message;
    std::function<void(IndexColumns&, Geometry&)> change;
  };
  using C = IndexColumns;
  using G = Geometry;
  const auto rename = [](NameColumns& names, std::vector<std::string> to) {
    names = {};
    for (const std::string& name : to) names.Append(name);
  };
  const std::vector<Case> cases = {
      {"dtype column", "tensors.dtype: entries: expected 5, found 4",
       [](C& c, G&) { c.tensor_dtype.pop_back(); }},
      {"dim_end column", "tensors.dim_end: entries", [](C& c, G&) { c.dim_end.pop_back(); }},
      {"offset column", "tensors.offset", [](C& c, G&) { c.tensors.offset.pop_back(); }},
      {"raw_bytes column", "tensors.raw_bytes", [](C& c, G&) { c.tensors.raw_bytes.pop_back(); }},
      {"stored_bytes column", "tensors.stored_bytes",
       [](C& c, G&) { c.tensors.stored_bytes.pop_back(); }},
      {"encoding column", "tensors.encoding", [](C& c, G&) { c.tensors.encoding.pop_back(); }},
      {"chunk_end column", "tensors.chunk_end", [](C& c, G&) { c.tensors.chunk_end.pop_back(); }},
      {"stored_chunk_end column", "tensors.stored_chunk_end",
       [](C& c, G&) { c.tensors.stored_chunk_end.push_back(1); }},
      {"target column", "aliases.target: entries", [](C& c, G&) { c.alias_target.clear(); }},
      {"media_type column", "objects.media_type: entries",
       [](C& c, G&) { c.object_media_type.push_back(0); }},
      {"object offset column", "objects.offset", [](C& c, G&) { c.objects.offset.clear(); }},
      {"object raw column", "objects.raw_bytes", [](C& c, G&) { c.objects.raw_bytes.clear(); }},
      {"object stored column", "objects.stored_bytes",
       [](C& c, G&) { c.objects.stored_bytes.clear(); }},
      {"object encoding column", "objects.encoding", [](C& c, G&) { c.objects.encoding.clear(); }},
      {"object chunk column", "objects.chunk_end", [](C& c, G&) { c.objects.chunk_end.clear(); }},
      {"object stored chunk column", "objects.stored_chunk_end",
       [](C& c, G&) { c.objects.stored_chunk_end.clear(); }},
      {"name end falls", "tensor name 1: end", [](C& c, G&) { c.tensor_names.ends[1] = 0; }},
      {"name end too far", "tensor name 4: end", [](C& c, G&) { c.tensor_names.ends[4] = 6; }},
      {"name bytes left", "tensor names: bytes: expected 5, found 6",
       [](C& c, G&) { c.tensor_names.bytes += 'x'; }},
      {"names out of order", "above 'b' in byte order",
       [&](C& c, G&) {
         rename(c.tensor_names, {"b", "a", "c", "e", "u"});
       }},
      {"name twice", "above 'a' in byte order",
       [&](C& c, G&) {
         rename(c.tensor_names, {"a", "a", "c", "e", "u"});
       }},
      {"NUL in a name", "legal item name",
       [&](C& c, G&) {
         rename(c.tensor_names, {std::string("a\0", 2), "b", "c", "e", "u"});
       }},
      {"name not UTF-8", "legal item name",
       [&](C& c, G&) {
         rename(c.tensor_names, {"a", "b", "c", "e", "\xFF"});
       }},
      {"reserved name", "'__dsckpt__'", [&](C& c, G&) { rename(c.object_names, {"__dsckpt__"}); }},
      {"long name", "legal item name",
       [&](C& c, G&) { rename(c.alias_names, {std::string(kMaxNameBytes + 1, 'z')}); }},
      {"alias named as a tensor", "alias 'a': name: expected unique",
       [&](C& c, G&) { rename(c.alias_names, {"a"}); }},
      {"object named as a tensor", "object 'u': name: expected unique",
       [&](C& c, G&) { rename(c.object_names, {"u"}); }},
      {"object named as an alias", "object 'z': name: expected unique",
       [&](C& c, G&) { rename(c.object_names, {"z"}); }},
      {"dtype without elements", "dtype 999: block_elements",
       [](C& c, G&) { c.dtypes[2].block_elements = 0; }},
      {"dtype without bytes", "dtype 999: block_bytes",
       [](C& c, G&) { c.dtypes[2].block_bytes = 0; }},
      {"known dtype, other size", "dtype 12: description: expected that of F32",
       [](C& c, G&) { c.dtypes[0].block_bytes = 2; }},
      {"dtype twice", "dtype 999: entries", [](C& c, G&) { c.dtypes.push_back(c.dtypes[2]); }},
      {"too many dtypes", "dtypes: entries: expected at most 256",
       [](C& c, G&) {
         c.dtypes.resize(257, {1000, 8, 1, 1});
       }},
      {"dtype ordinal", "tensor 'e': dtype: expected below 3, found 3",
       [](C& c, G&) { c.tensor_dtype[3] = 3; }},
      {"dim_end falls", "tensor 'b': dim_end", [](C& c, G&) { c.dim_end[1] = 1; }},
      {"dim_end too far", "tensor 'u': dim_end", [](C& c, G&) { c.dim_end[4] = 99; }},
      {"dims left", "dims: entries", [](C& c, G&) { c.dims.push_back(1); }},
      {"rank", "tensor 'a': dim_end",
       [](C& c, G&) {
         c.dims.insert(c.dims.begin(), kMaxRank, 1);
         for (uint32_t& end : c.dim_end) end += kMaxRank;
       }},
      {"negative dimension", "tensor 'a': shape", [](C& c, G&) { c.dims[0] = -2; }},
      {"C48: product wraps", "tensor 'a': shape",
       [](C& c, G&) {
         c.dims[0] = int64_t{1} << 62;
         c.dims[1] = 4;
       }},
      {"C48: product beyond 63 bits", "tensor 'a': shape",
       [](C& c, G&) {
         c.dims[0] = INT64_MAX;
         c.dims[1] = 2;
       }},
      {"product wraps beside a zero", "tensor 'c': shape",
       [](C& c, G&) {
         c.dims.insert(c.dims.begin() + 3, {INT64_MAX, INT64_MAX});
         for (int i : {2, 3, 4}) c.dim_end[i] += 2;
       }},
      {"bytes wrap", "tensor 'a': shape",
       [](C& c, G&) {
         c.dims[0] = int64_t{1} << 62;
         c.dims[1] = 1;
       }},
      {"raw_bytes", "tensor 'a': raw_bytes: expected 24, found 25",
       [](C& c, G&) { c.tensors.raw_bytes[0] = 25; }},
      {"chunk_end", "tensor 'b': chunk_end: expected 2, found 3",
       [](C& c, G&) { c.tensors.chunk_end[1] = 3; }},
      {"sums missing", "object 'o': chunk_end", [](C& c, G&) { c.chunk_sums.pop_back(); }},
      {"sums left", "chunk_sums: entries", [](C& c, G&) { c.chunk_sums.push_back({}); }},
      {"object of more chunks", "object 'o': chunk_end",
       [](C& c, G&) { c.objects.raw_bytes[0] = kChunkBytes + 1; }},
      {"stored_chunk_end", "tensor 'a': stored_chunk_end",
       [](C& c, G&) { c.tensors.stored_chunk_end[0] = 1; }},
      {"stored chunks left", "stored_chunks: entries",
       [](C& c, G&) {
         c.stored_chunks.push_back({0, 1, 0});
       }},
      {"raw, stored differently", "tensor 'a': stored_bytes: expected 24, found 23",
       [](C& c, G&) { c.tensors.stored_bytes[0] = 23; }},
      {"stored chunk empty", "tensor 'e': stored bytes of chunk 0",
       [](C& c, G&) { c.stored_chunks[0].stored_bytes = 0; }},
      {"stored chunk grows", "tensor 'e': stored bytes of chunk 0",
       [](C& c, G&) { c.stored_chunks[0].stored_bytes = 4097; }},
      {"stored chunk reserved", "tensor 'e': reserved",
       [](C& c, G&) { c.stored_chunks[0].reserved = 1; }},
      {"stored sum", "tensor 'e': stored_bytes: expected 100, found 99",
       [](C& c, G&) { c.tensors.stored_bytes[3] = 99; }},
      {"alias target", "alias 'z': target: expected below 5, found 5",
       [](C& c, G&) { c.alias_target[0] = 5; }},
      {"media type", "object 'o': media_type", [](C& c, G&) { c.object_media_type[0] = 1; }},
      {"too many media types", "media types: entries", [](C& c, G&) { c.media_types.resize(257); }},
      {"offset of a listed tensor", "tensor 'a': offset: expected 4096, found 4104",
       [](C& c, G&) { c.tensors.offset[0] = 4104; }},
      {"offset of an unlisted tensor", "tensor 'b': offset",
       [](C& c, G&) { c.tensors.offset[1] = 4096; }},
      {"offset of an unknown dtype", "tensor 'u': offset",
       [](C& c, G&) { c.tensors.offset[4] = 8192; }},
      {"offset of an encoded tensor", "tensor 'e': offset",
       [](C& c, G&) { c.tensors.offset[3] += 64; }},
      {"offset of an object", "object 'o': offset", [](C& c, G&) { c.objects.offset[0] = 12388; }},
      {"tail begin", "footer: tail_begin: expected 4120, found 4128",
       [](C&, G& g) { g.tail_begin = 4128; }},
      {"index offset", "footer: index_offset: expected 12480, found 12544",
       [](C&, G& g) { g.index_offset = 12544; }},
      {"log over the index", "object 'o': end", [](C&, G& g) { g.index_offset = 12420; }},
      {"regions out of order", "footer: regions", [](C&, G& g) { g.index_offset = 4100; }},
      {"data beyond a file", "footer: regions",
       [](C&, G& g) {
         g = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
       }},
      {"more bytes than the sums cover", "tensor 'u': chunk_end",
       [](C& c, G&) {
         c.dims.back() = INT64_MAX / 3;
         c.tensors.raw_bytes[4] = c.tensors.stored_bytes[4] = INT64_MAX / 3 * 3;
       }},
  };
  for (const Case& broken : cases) {
    INFO(broken.name);
    Sample sample = MakeSample();
    broken.change(sample.columns, sample.geometry);
    const Status status = ParseStatus(sample);
    CHECK(status.code() == StatusCode::kCorrupt);
    INFO(status.message());
    CHECK(status.message().find(broken.message) != std::string::npos);
  }
}

TEST_CASE("index: an unknown encoding is listed") {
  Sample sample = MakeSample();
  sample.columns.tensors.encoding[3] = 9;
  CHECK(ParseStatus(sample).message() == "");
  // Its chunks may even grow; what they add up to is still the extent.
  sample.columns.stored_chunks[0].stored_bytes = 5000;
  sample.columns.tensors.stored_bytes[3] = 5000;
  sample.columns.objects.offset[0] = 17344;
  sample.geometry.index_offset = 17408;
  CHECK(ParseStatus(sample).message() == "");
}

TEST_CASE("index: what is no index") {
  const Sample sample = MakeSample();
  std::vector<std::byte> bytes = Encode(sample.columns);
  const auto status = [&](std::span<const std::byte> part) {
    return ParseIndex(part, sample.geometry).status();
  };
  const std::span<const std::byte> all = bytes;
  CHECK(status(all.first(0)).code() == StatusCode::kCorrupt);
  for (size_t cut = 8; cut < all.size(); cut += 8) {
    CHECK(status(all.first(cut)).code() == StatusCode::kCorrupt);
  }
  std::vector<std::byte> padded = bytes;
  padded.resize(padded.size() + 8);
  CHECK(status(padded).ok());

  std::vector<std::byte> shifted(bytes.size() + 4);
  std::memcpy(shifted.data() + 4, bytes.data(), bytes.size());
  CHECK(status(std::span(shifted).subspan(4)).message().find("alignment") != std::string::npos);

  bytes[4] = std::byte{'X'};
  CHECK(status(bytes).message().find("\"DSCK\"") != std::string::npos);
}

TEST_CASE("index: every flipped byte is refused or harmless") {
  const Sample sample = MakeSample();
  const std::vector<std::byte> bytes = Encode(sample.columns);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xFF}}) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= mask;
      const Result<IndexView> parsed = ParseIndex(changed, sample.geometry);
      if (!parsed.ok()) continue;
      // Whatever passed must be safe to look at.
      for (uint32_t t = 0; t < parsed->tensor_names.size(); ++t) {
        CHECK(TensorSums(*parsed, t).size() + parsed->shape(t).size() < 10);
        CHECK(parsed->tensors.offset[t] < 13000);
      }
    }
  }
}

TEST_CASE("index: too large to encode") {
  IndexColumns columns;
  columns.tree.nodes.resize(1);
  columns.tree.heap.resize(kMaxIndexBytes - 100);
  CHECK(EncodeIndex(columns).status().code() == StatusCode::kLimitExceeded);
}

TEST_CASE("index: of nothing, and its empty vectors, are aligned like any other") {
  const auto bytes = EncodeIndex({}).value();
  CHECK(bytes.size() % 8 == 0);
  const auto parsed = ParseIndex(bytes, {4096, 4096, 4096});
  CHECK(parsed.status().ToString() == "Ok");
  const fbs::Index& index = *fbs::GetIndex(bytes.data());
  const auto* const payload = index.objects()->payload();
  for (const auto* const vector :
       {payload->offset(), payload->raw_bytes(), payload->stored_bytes()}) {
    CHECK(vector->size() == 0);
    CHECK(reinterpret_cast<uintptr_t>(vector->Data()) % 8 == 0);
  }
  CHECK(reinterpret_cast<uintptr_t>(index.chunk_sums()->Data()) % 8 == 0);
  CHECK(reinterpret_cast<uintptr_t>(index.stored_chunks()->Data()) % 8 == 0);
  CHECK(reinterpret_cast<uintptr_t>(index.tensors()->dims()->Data()) % 8 == 0);
}
