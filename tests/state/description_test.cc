#include "state/description.h"

#include <functional>
#include <string>
#include <vector>

#include "dsckpt/provider.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using Data = Description::Data;

namespace {

// Stands for memory of any size: descriptions do not read it.
char memory[8];

TensorSource Source(DType dtype, std::span<const int64_t> shape,
                    std::span<const int64_t> strides = {}) {
  return {.data = memory, .dtype = dtype, .shape = shape, .strides = strides};
}

Status StatusOf(const std::function<void(Description&)>& describe) {
  Description description;
  describe(description);
  return description.status();
}

}  // namespace

TEST_CASE("description: names are escaped paths") {
  const int64_t shape[] = {2};
  const TensorSource source = Source(kF32, shape);
  Description d;
  d.Tensor("plain", source);
  d.Begin(NodeKind::kDict, "a/b");
  d.Tensor("~", source);
  d.Begin(NodeKind::kList, 5);
  d.Tensor({}, source);
  d.Begin(NodeKind::kTuple, {});
  d.Object({}, ObjectSource{});
  d.End();
  d.Tensor({}, source);
  d.End();
  d.Tensor("5", source);
  d.End();
  d.Tensor("", source);
  REQUIRE(d.status().message() == "");
  const Data& data = d.data();
  std::vector<std::string> names;
  for (uint32_t i = 0; i < data.identity.tensor_names.size(); ++i)
    names.emplace_back(data.identity.tensor_names[i]);
  CHECK(names ==
        std::vector<std::string>{"plain", "a~1b/~0", "a~1b/5/0", "a~1b/5/2", "a~1b/~s5", ""});
  CHECK(data.identity.object_names[0] == "a~1b/5/1/0");
  CHECK(data.walk.open.size() == 1);
  CHECK(data.tree.nodes[0].children == 3);
  CHECK(data.tree.nodes[0].payload == data.tree.nodes.size() - 1);
}

TEST_CASE("description: what cannot be meant is refused, with its path") {
  struct Case {
    const char* message;
    StatusCode code;
    std::function<void(Description&)> describe;
  };
  using D = Description;
  constexpr auto kInvalid = StatusCode::kInvalidArgument;
  constexpr auto kLongName = StatusCode::kInvalidArgument;
  constexpr auto kLimit = StatusCode::kLimitExceeded;
  static const int64_t two[] = {2}, negative[] = {-1}, huge[] = {int64_t{1} << 62, 4};
  static const int64_t four[] = {2, 2}, transposed[] = {1, 2}, far_away[] = {int64_t{1} << 62, 2};
  static const int64_t three[] = {3}, least[] = {INT64_MIN};
  static const std::vector<int64_t> rank65(65, 1);
  const std::vector<Case> cases = {
      {"'x': unknown dtype 99", kInvalid, [](D& d) { d.Tensor("x", Source(DType{99}, two)); }},
      {"'x': shape [-1]", kInvalid, [](D& d) { d.Tensor("x", Source(kF32, negative)); }},
      {"'x': shape [4611686018427387904,4]", kInvalid,
       [](D& d) { d.Tensor("x", Source(kU8, huge)); }},
      {"'x': 65 dimensions", kLimit, [](D& d) { d.Tensor("x", Source(kF32, rank65)); }},
      {"'x': shape [3]", kInvalid,  // C01: an odd count of 4-bit elements
       [](D& d) { d.Tensor("x", Source(DType::kF4, three)); }},
      {"'a/x': the data is null", kInvalid,
       [](D& d) {
         d.Begin(NodeKind::kDict, "a");
         d.Tensor("x", {.data = nullptr, .dtype = kF32, .shape = two});
       }},
      {"'x': 1 strides for 2 dimensions", kInvalid,
       [](D& d) { d.Tensor("x", Source(kF32, four, two)); }},
      {"'x': tensors of F4 must be contiguous", kInvalid,
       [](D& d) { d.Tensor("x", Source(DType::kF4, four, transposed)); }},
      {"'x': the strides reach beyond", kInvalid,
       [](D& d) { d.Tensor("x", Source(kF32, four, far_away)); }},
      {"'x': the strides reach beyond", kInvalid,
       [](D& d) { d.Tensor("x", Source(kU8, three, least)); }},
      {"'x': unknown encoding 9", kInvalid,
       [](D& d) {
         TensorSource source = Source(kF32, two);
         source.encoding = Encoding{9};
         d.Tensor("x", source);
       }},
      {"'x': byte planes need a floating dtype", kInvalid,
       [](D& d) {
         TensorSource source = Source(kI32, two);
         source.encoding = Encoding::kBytePlaneZstd;
         d.Tensor("x", source);
       }},
      {"'x': byte planes", kInvalid,
       [](D& d) { d.Object("x", {.encoding = Encoding::kBytePlaneZstd}); }},
      {"'__dsckpt__' is reserved", kInvalid,  // C07
       [](D& d) { d.Tensor("__dsckpt__", Source(kF32, two)); }},
      {"'__metadata__' is reserved", kInvalid, [](D& d) { d.Object("__metadata__", {}); }},
      {"NUL", kInvalid, [](D& d) { d.Tensor(std::string_view("\0", 1), Source(kF32, two)); }},
      {"UTF-8", kInvalid, [](D& d) { d.Leaf("\xFF", true); }},
      {"limit is 65536", kLongName,
       [](D& d) { d.Tensor(std::string(65530, 'x') + "~~~~", Source(kF32, two)); }},
      {"longer than 65536", kLimit, [](D& d) { d.Leaf(std::string(65537, 'x'), true); }},
      {"members of a dict need a key", kInvalid, [](D& d) { d.Leaf({}, true); }},
      {"'l/0': members of a list or tuple have no key", kInvalid,
       [](D& d) {
         d.Begin(NodeKind::kList, "l");
         d.Leaf("k", true);
       }},
      {"'x': Begin() takes", kInvalid, [](D& d) { d.Begin(NodeKind::kTensor, "x"); }},
      {"End() without", kInvalid, [](D& d) { d.End(); }},
      {"'x': an object has either", kInvalid,
       [](D& d) {
         d.Object("x", {.bytes = memory, .size = 1, .write = [](Sink&) { return Status(); }});
       }},
      {"'x': the bytes are null", kInvalid, [](D& d) { d.Object("x", {.size = 1}); }},
      {"'x': the media type", kInvalid, [](D& d) { d.Object("x", {.media_type = "\xFF"}); }},
      {"'256': more than 256 distinct media types", kLimit,
       [](D& d) {
         for (int i = 0; i <= 256; ++i) d.Object(i, {.media_type = std::to_string(i)});
       }},
      {"'x': the string is not valid UTF-8", kInvalid,
       [](D& d) { d.Leaf("x", std::string("\xFF")); }},
      {"'x': the big integer", kInvalid,
       [](D& d) {
         d.Leaf("x", BigInt{true, {}});
       }},
      {"'x': the big integer", kInvalid,
       [](D& d) {
         d.Leaf("x", BigInt{false, {1, 0}});
       }},
      {"'x': the tag", kInvalid, [](D& d) { d.Leaf("x", true, "\xFF"); }},
      {"attribute 'x': the string", kInvalid, [](D& d) { d.Attribute("x", std::string("\xFF")); }},
      {"unknown encoding 7", kInvalid,
       [](D& d) { CHECK(d.SetDefaultEncoding(Encoding{7}) == Encoding::kRaw); }},
      {"mine", StatusCode::kMismatch,
       [](D& d) {
         d.Fail(Status(StatusCode::kMismatch, "mine"));
         d.Leaf({}, true);  // Not reported: the first error stays.
         d.Fail(Status(StatusCode::kInternal, "later"));
       }},
  };
  for (const Case& refused : cases) {
    const Status status = StatusOf(refused.describe);
    INFO(refused.message << " / " << status.message());
    CHECK(status.code() == refused.code);
    CHECK(status.message().find(refused.message) != std::string::npos);
  }
}

TEST_CASE("description: after an error nothing is added") {
  Description d;
  d.Begin(NodeKind::kDict, "a");
  d.Leaf({}, true);
  d.End();
  d.Leaf("b", true);
  d.Attribute("c", true);
  CHECK(d.data().tree.nodes.size() == 2);
  CHECK(d.data().attributes.nodes.empty());
}

TEST_CASE("description: small tensors are captured at save, large ones as asked") {
  const int64_t small[] = {kSmallTensorBytes}, large[] = {kSmallTensorBytes + 1};
  Description d;
  for (const auto& shape : {small, large}) {
    for (const Capture capture : {Capture::kUntilFence, Capture::kAtSave}) {
      TensorSource source = Source(kU8, std::span(shape, 1));
      source.capture = capture;
      d.Tensor(static_cast<int64_t>(d.data().identity.tensors.size()), source);
    }
  }
  const auto& sources = d.data().sources.tensors;
  CHECK(sources.at(0).capture == Capture::kAtSave);
  CHECK(sources.at(1).capture == Capture::kAtSave);
  CHECK(sources.at(2).capture == Capture::kUntilFence);
  CHECK(sources.at(3).capture == Capture::kAtSave);
}

TEST_CASE("description: strides that say nothing new are dropped") {
  struct Case {
    std::vector<int64_t> shape, strides;
    bool contiguous;
  };
  const std::vector<Case> cases = {
      {{2, 3}, {3, 1}, true}, {{2, 3}, {1, 2}, false}, {{2, 3}, {}, true}, {{1, 3}, {99, 1}, true},
      {{0, 3}, {7, 5}, true}, {{3}, {-1}, false},      {{3}, {0}, false},  {{}, {}, true},
  };
  for (const Case& test : cases) {
    Description d;
    d.Tensor("x", Source(kF32, test.shape, test.strides));
    REQUIRE(d.status().message() == "");
    const auto& source = d.data().sources.tensors[SourceIndex(0)];
    CHECK((source.strides_begin == Data::kContiguous) == test.contiguous);
    CHECK(d.data().sources.strides == (test.contiguous ? std::vector<int64_t>() : test.strides));
  }
}

TEST_CASE("description: default encoding") {
  const int64_t two[] = {2}, none[] = {0};
  const std::shared_ptr<StateProvider> inner = MakeProvider([&](Description& d) {
    d.Tensor("f", Source(kF32, two));
    d.Tensor("i", Source(kI32, two));
    d.Tensor("four_bits", Source(DType::kF4, two));
    d.Tensor("empty", Source(kF32, none));
    TensorSource zstd = Source(kF32, two);
    zstd.encoding = Encoding::kZstd;
    d.Tensor("explicit", zstd);
    d.Object("object", ObjectSource{});
  });
  Description d;
  WithEncoding(Encoding::kBytePlaneZstd, inner)->Describe(d);
  d.Tensor("after", Source(kF32, two));
  REQUIRE(d.status().message() == "");
  std::vector<Encoding> encodings;
  for (const auto& tensor : d.data().identity.tensors) encodings.push_back(tensor.encoding);
  using enum Encoding;
  CHECK(encodings == std::vector<Encoding>{kBytePlaneZstd, kZstd, kZstd, kRaw, kZstd, kRaw});
  CHECK(d.data().identity.objects[ObjectIndex(0)].encoding == kZstd);
}

TEST_CASE("description: providers compose") {
  const int64_t two[] = {2};
  const std::shared_ptr<StateProvider> leaf =
      MakeProvider([&](Description& d) { d.Tensor("w", Source(kF32, two)); });
  const std::shared_ptr<StateProvider> a = WithPrefix("a", leaf);
  const std::shared_ptr<StateProvider> seven = WithPrefix("7", leaf);
  Description d;
  Combine({a, leaf, seven})->Describe(d);
  REQUIRE(d.status().message() == "");
  CHECK(d.data().identity.tensor_names.bytes == "a/ww~s7/w");
  CHECK(d.data().identity.tensor_names[2] == "~s7/w");
}

TEST_CASE("description: tags of tensors and objects") {
  Description d;
  const float element = 1;
  d.Tensor("array", {.data = &element, .dtype = kF32, .shape = {}}, "numpy.ndarray");
  d.Tensor("tensor", {.data = &element, .dtype = kF32, .shape = {}});
  d.Object("object", {.bytes = &element, .size = 4}, "py.pickle:a.B");
  REQUIRE(d.status().ok());
  const auto& tree = d.data().tree;
  REQUIRE(tree.nodes.size() == 4);
  CHECK(tree.tags == std::vector<std::string>{"numpy.ndarray", "py.pickle:a.B"});
  CHECK(tree.nodes[1].tag == 1);
  CHECK(tree.nodes[2].tag == 0);
  CHECK(tree.nodes[3].tag == 2);
}

TEST_CASE("description: owners are held") {
  const int64_t two[] = {2};
  auto owner = std::make_shared<int>(1);
  Description d;
  for (int i = 0; i < 3; ++i) {
    TensorSource source = Source(kF32, two);
    if (i != 1) source.owner = owner;
    d.Tensor(i, source);
  }
  std::weak_ptr<int> watched = owner;
  owner.reset();
  CHECK(!watched.expired());
  CHECK(!d.data().sources.tensors[SourceIndex(1)].owner);
  CHECK(d.data().sources.owners[d.data().sources.tensors[SourceIndex(2)].owner.value()] ==
        watched.lock());
  d = Description();
  CHECK(watched.expired());
}
