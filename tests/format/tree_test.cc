#include "dsckpt/tree.h"

#include <bit>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "format/index/index.h"
#include "format/layout.h"
#include "format/tree/data.h"
#include "state/file_layout.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

// Encoded and parsed again; the views borrow from `bytes`.
struct Parsed {
  std::vector<std::byte> bytes;
  Result<IndexView> view{IndexView{}};

  Node Root(bool attributes = false) const {
    auto data = std::make_shared<TreeData>();
    data->view = attributes ? view->attributes : view->tree;
    data->tensors = view->tensor_names;
    data->aliases = view->alias_names;
    data->objects = view->object_names;
    return Node(std::move(data), 0);
  }
};

Parsed Parse(const IndexColumns& columns) {
  Parsed parsed;
  parsed.bytes = EncodeIndex(columns).value();
  parsed.view = ParseIndex(parsed.bytes, {4096, 4096, 4096});
  return parsed;
}

Parsed ParseTrees(const Description& description) {
  REQUIRE(description.status().message() == "");
  const FileLayout layout = BuildFileLayout(description.data(), true, {}).value();
  IndexColumns columns = layout.columns;
  columns.tree = ResolveTree(description.data(), layout);
  columns.attributes = description.data().attributes;
  for (const uint64_t bytes : layout.raw_bytes)
    columns.chunk_sums.resize(columns.chunk_sums.size() + (bytes > 0));
  const uint64_t objects = AlignUp(layout.appended_begin, 64);
  for (size_t i = 0; i < columns.objects.offset.size(); ++i) {
    columns.objects.offset[i] = objects;  // All empty.
    columns.objects.chunk_end[i] = static_cast<uint32_t>(columns.chunk_sums.size());
  }
  Parsed parsed;
  parsed.bytes = EncodeIndex(columns).value();
  parsed.view = ParseIndex(parsed.bytes, {layout.data_begin, layout.tail_begin, objects});
  REQUIRE(parsed.view.status().message() == "");
  return parsed;
}

std::vector<uint8_t> Magnitude(std::initializer_list<int> bytes) {
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

}  // namespace

TEST_CASE("tree: values come back as they were") {
  const BigInt big{true, Magnitude({0, 0, 0, 0, 0, 0, 0, 0, 1})};
  const std::vector<Value> values = {
      std::monostate(),
      false,
      true,
      int64_t{0},
      std::numeric_limits<int64_t>::min(),
      std::numeric_limits<int64_t>::max(),
      big,
      BigInt{false, Magnitude({0, 0, 0, 0, 0, 0, 0, 0x80})},
      BigInt{true, Magnitude({1, 0, 0, 0, 0, 0, 0, 0x80})},
      -0.0,
      std::numeric_limits<double>::infinity(),
      std::complex<double>(1.5, -2.5),
      std::string(),
      std::string("\xC3\xBC\0x", 4),
      std::vector<std::byte>(),
      std::vector<std::byte>{std::byte{0xFF}, std::byte{0}},
  };
  Description description;
  description.Begin(NodeKind::kList, "values");
  for (const Value& value : values) description.Leaf({}, value);
  description.End();
  for (size_t i = 0; i < values.size(); ++i) {
    description.Attribute("a" + std::to_string(i), values[i]);
  }
  const Parsed parsed = ParseTrees(description);
  const Node list = parsed.Root().Find("values").value();
  CHECK(list.kind() == NodeKind::kList);
  REQUIRE(list.size() == values.size());
  size_t i = 0;
  for (const Node& node : list) {
    INFO(i);
    CHECK(node.value() == values[i]);
    CHECK(parsed.Root(true).Find("a" + std::to_string(i)).value().value() == values[i]);
    CHECK(node.key() == Key());
    CHECK(node.size() == 0);
    CHECK(node.begin() == node.end());
    ++i;
  }
  CHECK(i == values.size());
}

TEST_CASE("tree: floats keep their bits") {
  const uint64_t nan = 0x7FF4'0000'DEAD'BEEF;
  Description description;
  description.Leaf("nan", std::bit_cast<double>(nan));
  description.Leaf("zero", -0.0);
  description.Leaf("z", std::complex<double>(std::bit_cast<double>(nan), -0.0));
  const Parsed parsed = ParseTrees(description);
  const auto value = [&](const char* key) { return parsed.Root().Find(key).value().value(); };
  CHECK(std::bit_cast<uint64_t>(std::get<double>(value("nan"))) == nan);
  CHECK(std::bit_cast<uint64_t>(std::get<double>(value("zero"))) == uint64_t{1} << 63);
  const auto z = std::get<std::complex<double>>(value("z"));
  CHECK(std::bit_cast<uint64_t>(z.real()) == nan);
  CHECK(std::bit_cast<uint64_t>(z.imag()) == uint64_t{1} << 63);
}

TEST_CASE("tree: a big integer that fits int64 is an int") {
  const auto stored = [](const BigInt& big) {
    Description description;
    description.Leaf("v", big);
    return ParseTrees(description).Root().Find("v").value().kind();
  };
  CHECK(stored({false, {}}) == NodeKind::kInt);
  CHECK(stored({false, Magnitude({255, 255, 255, 255, 255, 255, 255, 0x7F})}) == NodeKind::kInt);
  CHECK(stored({true, Magnitude({0, 0, 0, 0, 0, 0, 0, 0x80})}) == NodeKind::kInt);
  CHECK(stored({false, Magnitude({0, 0, 0, 0, 0, 0, 0, 0x80})}) == NodeKind::kBigInt);

  Description description;
  description.Leaf("min", BigInt{true, Magnitude({0, 0, 0, 0, 0, 0, 0, 0x80})});
  description.Leaf("-2", BigInt{true, Magnitude({2})});
  const Parsed parsed = ParseTrees(description);
  CHECK(parsed.Root().Find("min")->value() == Value(std::numeric_limits<int64_t>::min()));
  CHECK(parsed.Root().Find("-2")->value() == Value(int64_t{-2}));
}

TEST_CASE("tree: order, keys, tags and items") {
  const float data[4] = {};
  const auto tensor = [&data](const float* at) {
    return TensorSource{.data = at, .dtype = kF32, .shape = std::span<const int64_t>()};
  };
  Description description;
  description.Begin(NodeKind::kDict, "z", "OrderedDict");
  description.Tensor(3, tensor(data));
  description.Tensor("3", tensor(data + 1));
  description.Begin(NodeKind::kTuple, "t", "torch.Size");
  description.Leaf({}, int64_t{7}, "py.int");
  description.Begin(NodeKind::kList, {});
  description.Object({}, ObjectSource{});
  description.End();
  description.Tensor({}, tensor(data));  // Tied with z/3.
  description.End();
  description.End();
  description.Leaf("a", int64_t{1});
  const Parsed parsed = ParseTrees(description);
  const Node root = parsed.Root();
  CHECK(root.kind() == NodeKind::kDict);
  CHECK(root.size() == 2);
  const Node z = *root.begin();
  CHECK(z.key() == Key("z"));
  CHECK(z.tag() == "OrderedDict");
  CHECK(z.size() == 3);
  CHECK(z.Find(3)->item_name() == "z/3");
  CHECK(z.Find("3")->item_name() == "z/~s3");
  CHECK(!z.Find(4));
  const Node tuple = z.Find("t").value();
  CHECK(tuple.tag() == "torch.Size");
  std::vector<std::string> seen;
  for (const Node& node : tuple)
    seen.push_back(std::string(node.tag()) + "|" + std::string(node.item_name()));
  CHECK(seen == std::vector<std::string>{"py.int|", "|", "|z/t/2"});
  CHECK((*(*std::next(tuple.begin())).begin()).item_name() == "z/t/1/0");
  CHECK((*std::next(tuple.begin(), 2)).kind() == NodeKind::kAlias);
  CHECK(z.Find(3)->kind() == NodeKind::kTensor);
  CHECK((*std::next(root.begin())).key() == Key("a"));
}

TEST_CASE("tree: one broken rule at a time") {
  struct Case {
    const char* name;
    const char* message;
    std::function<void(TreeColumns&)> change;
  };
  using T = TreeColumns;
  // {"k": 1, 2: [null, "text"], "b": bytes-like}
  const auto sample = [] {
    T t;
    t.heap = std::string("ktextb\0\1\2\3\4\5\6\7\x08\x09", 16);
    t.tags = {"x"};
    t.nodes = {
        {NodeKind::kDict, Key::Kind::kNone, 0, 3, 0, 5},
        {NodeKind::kInt, Key::Kind::kString, 1, 0, HeapRange(0, 1), 1},
        {NodeKind::kList, Key::Kind::kInt, 0, 2, 2, 2},
        {NodeKind::kNull, Key::Kind::kNone, 0, 0, 0, 0},
        {NodeKind::kString, Key::Kind::kNone, 0, 0, 0, HeapRange(1, 4)},
        {NodeKind::kBigInt, Key::Kind::kString, 0, 0, HeapRange(5, 1), HeapRange(6, 10)},
    };
    return t;
  };
  const std::vector<Case> cases = {
      {"no nodes, but a tree", "", [](T&) {}},
      {"root is a leaf", "node 0: kind: expected a container",
       [](T& t) { t.nodes = {{.kind = NodeKind::kInt}}; }},
      {"root with a key", "node 0: key", [](T& t) { t.nodes[0].key_kind = Key::Kind::kInt; }},
      {"nodes below the root", "node 0: nodes below: expected 5, found 4",
       [](T& t) { t.nodes[0].payload = 4; }},
      {"children", "node 0: children: expected 3, found 2", [](T& t) { t.nodes[0].children = 2; }},
      {"children of a list", "node 2: children: expected 2, found 3",
       [](T& t) { t.nodes[2].children = 3; }},
      {"nodes below a list", "node 2: nodes below: expected at most 3, found 4",
       [](T& t) { t.nodes[2].payload = 4; }},
      {"children of a leaf", "node 1: children: expected 0 of a leaf",
       [](T& t) { t.nodes[1].children = 1; }},
      {"kind", "node 1: kind: expected 0 to 13, found 14",
       [](T& t) { t.nodes[1].kind = NodeKind{14}; }},
      {"key kind", "node 1: key_kind", [](T& t) { t.nodes[1].key_kind = Key::Kind{3}; }},
      {"no key in a dict", "node 1: key: expected a string or an int",
       [](T& t) { t.nodes[1].key_kind = Key::Kind::kNone; }},
      {"string key in a list", "node 3: key: expected none",
       [](T& t) { t.nodes[3].key_kind = Key::Kind::kString; }},
      {"int key in a list", "node 3: key: expected none",
       [](T& t) { t.nodes[3].key_kind = Key::Kind::kInt; }},
      {"key bits without a key", "node 3: key: expected 0", [](T& t) { t.nodes[3].key = 1; }},
      {"key range", "node 1: key: expected a range of the heap's 16 bytes",
       [](T& t) { t.nodes[1].key = HeapRange(16, 1); }},
      {"key range wraps", "node 1: key: expected a range",
       [](T& t) { t.nodes[1].key = HeapRange(UINT32_MAX, UINT32_MAX); }},
      {"tag", "node 1: tag: expected at most 1, found 2", [](T& t) { t.nodes[1].tag = 2; }},
      {"null with a payload", "node 3: payload", [](T& t) { t.nodes[3].payload = 1; }},
      {"bool of 2", "node 1: payload: expected at most 1, found 2",
       [](T& t) {
         t.nodes[1].kind = NodeKind::kBool;
         t.nodes[1].payload = 2;
       }},
      {"string range", "node 4: payload", [](T& t) { t.nodes[4].payload = HeapRange(13, 4); }},
      {"bytes range", "node 4: payload",
       [](T& t) {
         t.nodes[4].kind = NodeKind::kBytes;
         t.nodes[4].payload = HeapRange(17, 0);
       }},
      {"complex length", "node 4: length: expected 16, found 4",
       [](T& t) { t.nodes[4].kind = NodeKind::kComplex; }},
      {"complex range", "node 4: payload",
       [](T& t) {
         t.nodes[4].kind = NodeKind::kComplex;
         t.nodes[4].payload = HeapRange(1, 16);
       }},
      {"big integer range", "node 5: payload", [](T& t) { t.nodes[5].payload = HeapRange(6, 11); }},
      {"big integer without magnitude", "node 5: big integer",
       [](T& t) { t.nodes[5].payload = HeapRange(6, 0); }},
      {"big integer of int64", "node 5: big integer",
       [](T& t) { t.nodes[5].payload = HeapRange(6, 9); }},
      {"big integer, sign", "node 5: big integer", [](T& t) { t.heap[6] = 2; }},
      {"big integer, leading zero", "node 5: big integer", [](T& t) { t.heap[15] = 0; }},
      {"tensor ordinal", "node 1: ordinal: expected below 0, found 1",
       [](T& t) { t.nodes[1].kind = NodeKind::kTensor; }},
      {"alias ordinal", "node 1: ordinal", [](T& t) { t.nodes[1].kind = NodeKind::kAlias; }},
      {"object ordinal", "node 1: ordinal", [](T& t) { t.nodes[1].kind = NodeKind::kObject; }},
  };
  for (const Case& broken : cases) {
    INFO(broken.name);
    IndexColumns columns;
    columns.tree = sample();
    broken.change(columns.tree);
    const Status status = Parse(columns).view.status();
    CHECK(status.code() == (*broken.message ? StatusCode::kCorrupt : StatusCode::kOk));
    INFO(status.message());
    CHECK(status.message().find(broken.message) != std::string::npos);
  }
}

TEST_CASE("tree: attributes are a dict of leaves under strings") {
  const auto status = [](std::vector<NodeRecord> nodes) {
    IndexColumns columns;
    columns.attributes.nodes = std::move(nodes);
    columns.attributes.heap = "k";
    return Parse(columns).view.status();
  };
  const NodeRecord dict{NodeKind::kDict, Key::Kind::kNone, 0, 1, 0, 1};
  const NodeRecord list{NodeKind::kList, Key::Kind::kNone, 0, 0, 0, 0};
  const NodeRecord leaf{NodeKind::kInt, Key::Kind::kString, 0, 0, HeapRange(0, 1), 7};
  NodeRecord int_key = leaf, container = leaf, tensor = leaf;
  int_key.key_kind = Key::Kind::kInt;
  container.kind = NodeKind::kList;
  container.payload = 0;
  tensor.kind = NodeKind::kTensor;
  tensor.payload = 0;
  CHECK(status({dict, leaf}).ok());
  for (const auto& nodes :
       {std::vector{list}, {dict, int_key}, {dict, container}, {dict, tensor}}) {
    CHECK(status(nodes).code() == StatusCode::kCorrupt);
  }
}

TEST_CASE("tree: depth") {
  const auto nested = [](uint64_t depth) {
    Description description;
    for (uint64_t i = 1; i < depth; ++i) description.Begin(NodeKind::kDict, "d");
    description.Leaf("leaf", int64_t{1});
    for (uint64_t i = 1; i < depth; ++i) description.End();
    return description;
  };
  CHECK(nested(kMaxTreeDepth + 1).status().code() == StatusCode::kLimitExceeded);
  const Parsed parsed = ParseTrees(nested(kMaxTreeDepth));
  Node node = parsed.Root();
  uint64_t depth = 1;
  while (const auto child = node.Find("d")) {
    node = *child;
    ++depth;
  }
  CHECK(depth == kMaxTreeDepth);
  CHECK(node.Find("leaf")->value() == Value(int64_t{1}));

  IndexColumns columns;
  for (uint64_t i = 0; i <= kMaxTreeDepth; ++i) {
    columns.tree.nodes.push_back(
        {NodeKind::kList, Key::Kind::kNone, 0, i < kMaxTreeDepth, 0, kMaxTreeDepth - i});
  }
  CHECK(Parse(columns).view.status().message().find("depth") != std::string::npos);
}
