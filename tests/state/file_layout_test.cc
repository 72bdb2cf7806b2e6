#include "state/file_layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include "format/header/header.h"
#include "format/index/index.h"
#include "format/layout.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

const Metadata kPt = {{"format", "pt"}};

// Addresses to describe; layouts do not read them.
char memory[1 << 16];

TensorSource At(const void* data, DType dtype, std::span<const int64_t> shape,
                Encoding encoding = Encoding::kRaw, std::span<const int64_t> strides = {}) {
  return {.data = data, .dtype = dtype, .shape = shape, .strides = strides, .encoding = encoding};
}

// Tensors at distinct addresses.
class Describer {
 public:
  void Add(std::string_view name, DType dtype, std::vector<int64_t> shape,
           Encoding encoding = Encoding::kRaw) {
    description.Tensor(name, At(memory + next_, dtype, shape, encoding));
    next_ += 16;
  }
  Description description;

 private:
  size_t next_ = 0;
};

FileLayout Build(const Description& description, bool shard = true,
                 const Metadata& metadata = kPt) {
  Result<FileLayout> layout = BuildFileLayout(description.data(), shard, metadata);
  REQUIRE(layout.status().message() == "");
  return std::move(layout).value();
}

Status BuildStatus(const Description& description, bool shard = true) {
  return BuildFileLayout(description.data(), shard, kPt).status();
}

std::vector<std::string> Names(const NameColumns& names) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < names.size(); ++i) out.emplace_back(names[i]);
  return out;
}

std::vector<std::string> RawOrder(const FileLayout& layout) {
  std::vector<std::string> out;
  for (const TensorOrdinal i : layout.placed_order) {
    out.emplace_back(layout.columns.tensor_names[i.value()]);
  }
  return out;
}

uint64_t OffsetOf(const FileLayout& layout, std::string_view name) {
  const NameColumns& names = layout.columns.tensor_names;
  return layout.offset.at(*NameView{names.bytes, names.ends}.Find(name));
}

template <typename Position>
std::vector<uint32_t> Numbers(const std::vector<Position>& positions) {
  std::vector<uint32_t> numbers;
  for (const Position position : positions) numbers.push_back(position.value());
  return numbers;
}

// The JSON header of `layout` as a reader of a file of this size sees it.
Header ParseRegion(const FileLayout& layout, uint64_t file_bytes) {
  std::string region = layout.header.region;
  if (layout.shard) {
    PatchSizes(region, layout.header.lists_tensors ? layout.tail_begin : layout.data_begin,
               file_bytes);
  }
  Result<Header> header =
      ParseHeader(std::string_view(region).substr(8), file_bytes - layout.data_begin);
  REQUIRE(header.status().message() == "");
  return std::move(header).value();
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("layout: raw tensors lie by falling alignment, then name") {
  Describer d;
  d.Add("one", kU8, {3});          // class 1
  d.Add("page", kU8, {8192});      // 4096
  d.Add("half", kU8, {2048});      // 2048
  d.Add("eight", kF64, {3});       // 8
  d.Add("empty", kF32, {0});       // 4096
  d.Add("sixteen", kF32, {4});     // 16
  d.Add("also_eight", kF32, {2});  // 8
  const FileLayout c = Build(d.description);
  CHECK(RawOrder(c) == Strings{"empty", "page", "half", "sixteen", "also_eight", "eight", "one"});
  CHECK(c.listed == 7);
  uint64_t next = c.data_begin;
  for (const TensorOrdinal i : c.placed_order) {
    CHECK(c.offset[i] == next);
    CHECK(next % (uint64_t{1} << AlignmentClass(c.raw_bytes[i])) == 0);
    next += c.raw_bytes[i];
  }
  CHECK(c.data_begin % kPageBytes == 0);
  CHECK(c.data_begin == c.header.region.size());
  CHECK(c.tail_begin == next);
  CHECK(c.placed_end == next);
  CHECK(c.appended_begin == AlignUp(next, kPageBytes));
  CHECK(Names(c.columns.tensor_names) ==
        Strings{"also_eight", "eight", "empty", "half", "one", "page", "sixteen"});
  for (const SourceIndex i : PositionsOf(c.tensor_ordinal)) {
    const uint32_t expected[] = {4, 5, 3, 1, 2, 6, 0};
    CHECK(!c.tensor_ordinal[i].is_alias());
    CHECK(c.tensor_ordinal[i].tensor().value() == expected[i.value()]);
  }
}

TEST_CASE("layout: C04, elements are aligned whatever order they come in") {
  Describer d;
  d.Add("a", kU8, {3});
  d.Add("b", kF32, {4});
  d.Add("c", kF64, {1});
  const FileLayout c = Build(d.description);
  CHECK(OffsetOf(c, "b") == 4096);
  CHECK(OffsetOf(c, "c") == 4096 + 16);
  CHECK(OffsetOf(c, "a") == 4096 + 24);
}

TEST_CASE("layout: unlisted dtypes and encoded items lie in the tail") {
  Describer d;
  d.Add("z", kF32, {1024}, Encoding::kZstd);
  d.Add("c128", kC128, {2});
  d.Add("i4", DType::kI4, {2});
  d.Add("f4", DType::kF4, {2});
  d.description.Object("a", ObjectSource{});
  d.description.Object("zz", {.encoding = Encoding::kZstd});
  const FileLayout c = Build(d.description);
  CHECK(RawOrder(c) == Strings{"f4", "c128", "i4"});
  CHECK(c.listed == 1);
  CHECK(c.tail_begin == c.data_begin + 1);
  CHECK(c.unlisted_begin == c.data_begin + 4096);
  CHECK(OffsetOf(c, "c128") == c.unlisted_begin);
  CHECK(OffsetOf(c, "i4") == c.unlisted_begin + 32);
  CHECK(c.placed_end == c.unlisted_begin + 33);
  CHECK(c.appended_begin == c.unlisted_begin + 4096);
  CHECK(OffsetOf(c, "z") == 0);
  REQUIRE(c.appended.size() == 3);
  CHECK((c.appended[0].is_object && c.appended[0].object.value() == 0));
  CHECK((!c.appended[1].is_object && c.appended[1].tensor.value() == 3));
  CHECK((c.appended[2].is_object && c.appended[2].object.value() == 1));
  CHECK(c.columns.tensors.stored_chunk_end == std::vector<uint32_t>{0, 0, 0, 1});
  CHECK(c.columns.tensors.chunk_end == std::vector<uint32_t>{1, 2, 3, 4});
  CHECK(c.columns.objects.encoding == std::vector<uint8_t>{0, 1});
}

TEST_CASE("layout: what it lays out, a reader accepts") {
  Describer d;
  d.Add("w", kF32, {1000});
  d.Add("c", kC128, {3});
  d.Add("z", kF32, {1024}, Encoding::kBytePlaneZstd);
  d.description.Object("o", {.bytes = memory, .size = 100});
  const FileLayout c = Build(d.description);
  IndexColumns columns = c.columns;
  columns.tree = ResolveTree(d.description.data(), c);
  columns.chunk_sums.resize(4);
  columns.objects = {{c.appended_begin}, {100}, {100}, {0}, {4}, {1}};
  columns.tensors.offset[2] = c.appended_begin + 128;
  columns.tensors.stored_bytes[2] = 50;
  columns.stored_chunks = {{1, 50, 0}};
  const std::vector<std::byte> bytes = EncodeIndex(columns).value();
  const Geometry geometry{c.data_begin, c.tail_begin, c.appended_begin + 192};
  CHECK(ParseIndex(bytes, geometry).status().message() == "");
}

TEST_CASE("layout: C02, empty tensors keep their shapes and are not shared") {
  Description d;
  const int64_t zero[] = {0}, two_zero[] = {2, 0}, zero_eight[] = {0, 8}, one[] = {1};
  d.Tensor("a", At(memory, kF32, zero));
  d.Tensor("b", At(memory, kF32, two_zero));
  d.Tensor("c", At(memory, kF32, zero_eight));
  d.Tensor("d", At(nullptr, kF32, zero, Encoding::kZstd));
  d.Tensor("e", At(memory, kF32, one));
  d.Tensor("f", At(memory, kF32, zero));
  const FileLayout c = Build(d);
  CHECK(c.aliases.empty());
  CHECK(c.columns.dims == std::vector<int64_t>{0, 2, 0, 0, 8, 0, 1, 0});
  CHECK(c.tail_begin == c.data_begin + 4);
  CHECK(c.listed == 6);
  const Header header = ParseRegion(c, c.appended_begin + 128);
  CHECK(header.entries.size() == 7);
  CHECK(header.entries[1].shape == std::vector<int64_t>{2, 0});
}

TEST_CASE("layout: C06, never a header that the stock loader refuses") {
  // 1.29 million names, as the report has them.
  Description d;
  const int64_t one[] = {1};
  std::vector<char> many(1'290'000);
  for (size_t i = 0; i < many.size(); ++i) {
    d.Tensor("model.tensor_" + std::to_string(i), At(&many[i], kU8, one));
  }
  const FileLayout c = Build(d);
  CHECK(!c.header.lists_tensors);
  CHECK(c.header.region.size() - 8 <= kMaxHeaderJsonBytes);
  // The layout is the same as with a list.
  CHECK(c.listed == many.size());
  CHECK(c.tail_begin == c.data_begin + many.size());
  const uint64_t file_bytes = c.appended_begin + 4096;
  const Header header = ParseRegion(c, file_bytes);
  REQUIRE(header.entries.size() == 1);
  CHECK(header.entries[0].name == kTailName);
  CHECK(header.entries[0].begin == 0);
  CHECK(header.entries[0].end == file_bytes - c.data_begin);

  CHECK(BuildStatus(d, false).code() == StatusCode::kLimitExceeded);
}

TEST_CASE("layout: aliases do not push the header over its cap") {
  Description d;
  const int64_t one[] = {1};
  // 1,200 names of 60 kB are 72 MB; as aliases they appear twice.
  const std::string target(60'000, '!');
  d.Tensor(target, At(memory, kU8, one));
  for (int i = 0; i < 1200; ++i) {
    d.Tensor(std::string(60'000, 'x') + std::to_string(i), At(memory, kU8, one));
  }
  const FileLayout c = Build(d);
  CHECK(c.aliases.size() == 1200);
  CHECK(c.header.lists_tensors);
  const Header header = ParseRegion(c, c.appended_begin + 4096);
  CHECK(header.entries.size() == 2);
  CHECK(header.metadata.size() == 3);
}

TEST_CASE("layout: C08, keys that look alike stay apart") {
  Describer d;
  d.Add("test/test", kF32, {1});
  d.description.Begin(NodeKind::kDict, "a");
  d.Add("b", kF32, {1});
  d.description.End();
  for (const char* name : {"a/b", "a.b", "a|b", "0"}) d.Add(name, kF32, {1});
  const int64_t one[] = {1};
  d.description.Tensor(0, At(memory + 4096, kF32, one));
  d.Add("", kF32, {1});
  d.description.Begin(NodeKind::kDict, "state");
  d.description.Begin(NodeKind::kDict, 0);
  d.Add("exp_avg", kF32, {1});
  d.description.End();
  d.description.End();
  const FileLayout c = Build(d.description);
  CHECK(Names(c.columns.tensor_names) ==
        Strings{"", "0", "a.b", "a/b", "a|b", "a~1b", "state/0/exp_avg", "test~1test", "~s0"});
}

TEST_CASE("layout: C10, tied tensors are stored once under the smallest name") {
  Description d;
  const int64_t shape[] = {8, 4}, other[] = {4, 8}, transposed[] = {1, 8};
  d.Tensor("lm_head", At(memory, kF32, shape));
  d.Tensor("embed", At(memory, kF32, shape));
  d.Tensor("third", At(memory, kF32, shape));
  d.Tensor("other_shape", At(memory, kF32, other));
  d.Tensor("other_dtype", At(memory, kI32, shape));
  d.Tensor("other_encoding", At(memory, kF32, shape, Encoding::kZstd));
  d.Tensor("other_strides", At(memory, kF32, shape, Encoding::kRaw, transposed));
  d.Tensor("same_strides", At(memory, kF32, shape, Encoding::kRaw, transposed));
  d.Tensor("other_address", At(memory + 4, kF32, shape));
  const FileLayout c = Build(d);
  CHECK(Names(c.columns.tensor_names) == Strings{"embed", "other_address", "other_dtype",
                                                 "other_encoding", "other_shape", "other_strides"});
  CHECK(Names(c.columns.alias_names) == Strings{"lm_head", "same_strides", "third"});
  CHECK(Numbers(c.alias_target) == std::vector<uint32_t>{0, 5, 0});
  CHECK(c.columns.alias_target == Numbers(c.alias_target));
  CHECK(Numbers(c.tensors) == std::vector<uint32_t>{1, 8, 4, 5, 3, 6});
  CHECK(Numbers(c.aliases) == std::vector<uint32_t>{0, 7, 2});
  for (const auto& [source, alias] : {std::pair(0, 0), std::pair(7, 1)}) {
    const TensorOrAlias item = c.tensor_ordinal[SourceIndex(source)];
    REQUIRE(item.is_alias());
    CHECK(item.alias() == AliasOrdinal(alias));
  }

  const TreeColumns tree = ResolveTree(d.data(), c);
  CHECK(tree.nodes[1].kind == NodeKind::kAlias);
  CHECK(tree.nodes[1].payload == 0);
  CHECK(tree.nodes[2].kind == NodeKind::kTensor);
  CHECK(tree.nodes[2].payload == 0);
  CHECK(tree.nodes[9].payload == 1);

  Metadata expected = {{"lm_head", "embed"}, {"third", "embed"}};
  const Header header = ParseRegion(c, c.appended_begin + 4096);
  for (const auto& member : expected) {
    CHECK(std::count(header.metadata.begin(), header.metadata.end(), member) == 1);
  }
}

TEST_CASE("layout: an alias and another metadata key of its name") {
  Description d;
  const int64_t one[] = {1};
  for (const char* name : {"a", "format", "dsckpt.bytes", "mine", "z"}) {
    d.Tensor(name, At(memory, kF32, one));
  }
  // The key would hide from stock tools what the tensor is tied to.
  for (const bool shard : {true, false}) {
    const Status status = BuildFileLayout(d.data(), shard, {{"mine", "value"}}).status();
    CHECK(status.code() == (shard ? StatusCode::kInvalidArgument : StatusCode::kUnsupported));
    CHECK(status.message().find(shard ? "'mine' is tied to 'a'" : "'dsckpt.bytes'") !=
          std::string::npos);
  }
  const FileLayout c = Build(d, true, {{"format", "pt"}, {"mine", "a"}});
  CHECK(c.aliases.size() == 4);
  const Metadata metadata = ParseRegion(c, c.appended_begin + 4096).metadata;
  REQUIRE(metadata.size() == 5);
  CHECK(metadata[2] == Metadata::value_type("format", "pt"));
  CHECK(metadata[3] == Metadata::value_type("mine", "a"));
  CHECK(metadata[4] == Metadata::value_type("z", "a"));

  // The builder's own default counts as well.
  const FileLayout bare = Build(d, true, {});
  const Metadata defaults = ParseRegion(bare, bare.appended_begin + 4096).metadata;
  CHECK(defaults[2] == Metadata::value_type("format", "pt"));
}

TEST_CASE("layout: C11, a view is as large as its own elements") {
  Description d;
  const int64_t thousand[] = {1000}, ten[] = {10}, two[] = {2};
  const auto* base = reinterpret_cast<const float*>(memory);
  d.Tensor("slice", At(base, kF32, thousand));
  d.Tensor("x[:10]", At(base, kF32, ten));
  d.Tensor("x[2:4]", At(base + 2, kF32, two));
  const FileLayout c = Build(d);
  CHECK(c.aliases.empty());
  CHECK(c.raw_bytes == std::vector<uint64_t>{4000, 8, 40});
  CHECK(c.placed_end - c.data_begin == 4048);
}

TEST_CASE("layout: names are unique among all items and nodes") {
  const int64_t one[] = {1};
  const auto tensor = At(memory, kF32, one);
  const auto refused = [&](auto&& describe) {
    Description d;
    describe(d);
    const Status status = BuildStatus(d);
    CHECK(status.code() == StatusCode::kAlreadyExists);
    return status.message();
  };
  CHECK(refused([&](Description& d) {
          d.Tensor("a", tensor);
          d.Tensor("b", tensor);
          d.Tensor("a", tensor);
        }).find("'a'") != std::string::npos);
  CHECK(refused([&](Description& d) {
          d.Object("a", {});
          d.Object("a", {});
        }).find("'a'") != std::string::npos);
  CHECK(refused([&](Description& d) {
          d.Object("b", {});
          d.Tensor("a", tensor);
          d.Tensor("b", tensor);
        }).find("'b'") != std::string::npos);
  CHECK(refused([&](Description& d) {
          d.Begin(NodeKind::kDict, "p");
          d.Begin(NodeKind::kList, "l");
          d.Begin(NodeKind::kDict, {});
          d.Leaf(5, true);
          d.Leaf("5", true);
          d.Leaf(5, true);
          for (int i = 0; i < 3; ++i) d.End();
        }).find("'p/l/-/5'") != std::string::npos);
  CHECK(refused([&](Description& d) {
          d.Leaf("a", true);
          d.Begin(NodeKind::kDict, "a");
          d.End();
        }).find("'a'") != std::string::npos);
  CHECK(refused([&](Description& d) {
          d.Attribute("step", int64_t{1});
          d.Attribute("step", int64_t{2});
        }).find("'step'") != std::string::npos);
}

TEST_CASE("layout: refusals") {
  const int64_t one[] = {1}, huge[] = {int64_t{1} << 62};
  Description open;
  open.Begin(NodeKind::kDict, "x");
  CHECK(BuildStatus(open).message().find("'x/' is not closed") != std::string::npos);

  Description failed;
  failed.Fail(Status(StatusCode::kMismatch, "mine"));
  CHECK(BuildStatus(failed).code() == StatusCode::kMismatch);

  Description large;
  large.Tensor("x", At(memory, kU8, huge));
  const Status status = BuildStatus(large);
  CHECK(status.code() == StatusCode::kLimitExceeded);
  CHECK(status.message().find("index") != std::string::npos);

  Description encoded;
  encoded.Tensor("x", At(memory, kU8, one, Encoding::kZstd));
  CHECK(BuildStatus(encoded, false).message().find("'x', encoded as zstd") != std::string::npos);
  Description dtype;
  dtype.Tensor("x", At(memory, kC128, one));
  CHECK(BuildStatus(dtype, false).message().find("'x', of dtype C128") != std::string::npos);
  Description object;
  object.Object("x", {});
  CHECK(BuildStatus(object, false).message().find("'x', an object") != std::string::npos);
  for (const Description* d : {&encoded, &dtype, &object}) {
    CHECK(BuildStatus(*d, false).code() == StatusCode::kUnsupported);
  }
}

TEST_CASE("layout: plain safetensors") {
  Describer d;
  d.Add("b", kF32, {3});
  d.Add("a", kU8, {5});
  const int64_t three[] = {3};
  d.description.Tensor("tied", At(memory, kF32, three));
  d.description.Leaf("ignored", true);
  const FileLayout c = Build(d.description, false);
  CHECK(c.data_begin % 8 == 0);
  CHECK(c.placed_end == c.data_begin + 17);
  CHECK(c.tail_begin == c.placed_end);
  const Header header = ParseRegion(c, c.placed_end);
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].name == "b");
  CHECK(header.entries[1].name == "a");
  CHECK(header.entries[1].begin == 12);
  CHECK(header.metadata == Metadata{{"format", "pt"}, {"tied", "b"}});
}

TEST_CASE("layout: when a cached one holds") {
  const int64_t two[] = {2}, four[] = {4}, strides[] = {2};
  struct Variation {
    size_t a = 0, b = 16, c = 0;  // offsets in `memory`
    std::span<const int64_t> shape, strides = {};
    const char* name = "b";
    DType dtype = kF32;
    Encoding encoding = Encoding::kRaw;
    const char* media_type = "x";
    double leaf = 1;
    const char* leaf_key = "leaf";
    std::string text = "short";
    const char* attribute = "step";
  };
  const auto describe = [](const Variation& v) {
    Description d;
    d.Tensor("a", At(memory + v.a, v.dtype, v.shape, v.encoding, v.strides));
    d.Tensor(v.name, At(memory + v.b, kF32, v.shape));
    d.Tensor("c", At(memory + v.c, v.dtype, v.shape, v.encoding, v.strides));
    d.Object("o", {.media_type = v.media_type});
    d.Attribute("text", v.text);
    d.Attribute(v.attribute, v.leaf);
    d.Leaf("text", v.text);
    d.Leaf(v.leaf_key, v.leaf);
    return d;
  };
  const Variation base{.shape = two};
  const Description first = describe(base);
  const FileLayout layout = Build(first);
  const auto holds = [&](auto&& change) {
    Variation v = base;
    change(v);
    return FileLayoutHolds(layout, first.data(), describe(v).data(), true, kPt);
  };
  CHECK(holds([](Variation&) {}));
  CHECK(holds([](Variation& v) { v.leaf = 2; }));
  CHECK(holds([](Variation& v) { v.text = "longer than before"; }));
  CHECK(holds([](Variation& v) { v.a = v.c = 64; }));  // Moved together.
  CHECK(!holds([](Variation& v) { v.c = 64; }));       // No longer tied.
  CHECK(!holds([](Variation& v) { v.b = 0; }));        // Tied now.
  CHECK(!holds([&](Variation& v) { v.shape = four; }));
  CHECK(holds([&](Variation& v) { v.strides = strides; }));  // a and c stay tied.
  CHECK(!holds([](Variation& v) { v.name = "B"; }));
  CHECK(!holds([](Variation& v) { v.dtype = kI32; }));
  CHECK(!holds([](Variation& v) { v.encoding = Encoding::kZstd; }));
  CHECK(!holds([](Variation& v) { v.media_type = "y"; }));
  CHECK(!holds([](Variation& v) { v.leaf_key = "other"; }));
  CHECK(!holds([](Variation& v) { v.attribute = "other"; }));
  CHECK(!FileLayoutHolds(layout, first.data(), first.data(), false, kPt));
  CHECK(!FileLayoutHolds(layout, first.data(), first.data(), true, {{"format", "np"}}));
  Description failed = describe(base);
  failed.Fail(Status(StatusCode::kInternal, "x"));
  CHECK(!FileLayoutHolds(layout, first.data(), failed.data(), true, kPt));
}

TEST_CASE("layout: equal states in another order give equal columns") {
  const int64_t one[] = {1}, two[] = {2};
  Description forward, backward;
  const auto add = [&](Description& d, int i) {
    if (i == 0) d.Tensor("x", At(memory, kF32, one));
    if (i == 1) d.Tensor("w", At(memory + 8, kBF16, two));
    if (i == 2) d.Object("p", {.media_type = "m1"});
    if (i == 3) d.Object("o", {.media_type = "m0"});
  };
  for (int i = 0; i < 4; ++i) add(forward, i);
  for (int i = 4; i-- > 0;) add(backward, i);
  const FileLayout a = Build(forward), b = Build(backward);
  CHECK(a.header.region == b.header.region);
  CHECK(EncodeIndex(a.columns).value() == EncodeIndex(b.columns).value());
}
