#include "dsckpt/state.h"

#include <cstring>
#include <string>
#include <vector>

#include "state/description.h"
#include "state/file_layout.h"
#include "tests/support/catch.h"

using namespace dsckpt;

namespace {

Description Describe(const State& state) {
  Description description;
  state.Describe(description);
  return description;
}

std::vector<std::string> Names(const format::NameColumns& names) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < names.size(); ++i) out.emplace_back(names[i]);
  return out;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("state: paths become a tree in the order of registration") {
  float data[8] = {};
  std::vector<int64_t> vector = {1, 2, 3};
  State state;
  state.AddTensor("adam/m", data, kF32, {2});
  state.AddTensor("params", data + 2, kBF16, {2, 1});
  state.AddTensor("adam/v", data + 4, kF32, {2});
  state.AddTensor("adam/state/0/a~1b", std::span(vector));
  state.AddConstTensor("~s0", data + 6, kF32, std::vector<int64_t>{});
  const Description d = Describe(state);
  REQUIRE(d.status().message() == "");
  // A dict stands where its first member was registered; names are the paths.
  CHECK(Names(d.data().identity.tensor_names) ==
        Strings{"adam/m", "adam/v", "adam/state/0/a~1b", "params", "~s0"});
  CHECK(d.data().walk.open.size() == 1);
  const auto& nodes = d.data().tree.nodes;
  REQUIRE(nodes.size() == 9);
  CHECK(nodes[0].children == 3);
  CHECK(nodes[1].kind == NodeKind::kDict);
  CHECK(nodes[1].children == 3);
  CHECK(nodes[1].payload == 5);
  CHECK(nodes[5].key_kind == Key::Kind::kInt);
  const auto& sources = d.data().sources.tensors;
  CHECK(sources.at(0).data == data);
  CHECK(sources.at(0).writable);
  CHECK(sources.at(2).data == vector.data());
  CHECK(d.data().identity.dims == std::vector<int64_t>{2, 2, 3, 2, 1});
  CHECK(d.data().identity.tensors[SourceIndex(2)].dtype == kI64);
  CHECK(!sources.at(4).writable);
  CHECK(BuildFileLayout(d.data(), true, {}).ok());
}

TEST_CASE("state: options reach the description") {
  std::vector<float> data(1 << 17);
  const int64_t strides[] = {1, 256};
  const auto owner = std::make_shared<int>(0);
  State state;
  {
    // Borrowed for the call only.
    std::vector<int64_t> shape = {256, 512}, copied(strides, strides + 2);
    state.AddTensor("x", data.data(), kF32, shape,
                    {.encoding = Encoding::kZstd, .strides = copied, .owner = owner});
    shape[0] = copied[0] = 99;
  }
  const State moved = std::move(state);
  const Description d = Describe(moved);
  REQUIRE(d.status().message() == "");
  CHECK(d.data().sources.strides == std::vector<int64_t>{1, 256});
  CHECK(d.data().identity.dims == std::vector<int64_t>{256, 512});
  CHECK(d.data().identity.tensors[SourceIndex(0)].encoding == Encoding::kZstd);
  CHECK(d.data().sources.tensors[SourceIndex(0)].capture == Capture::kUntilFence);
  CHECK(d.data().sources.owners[0] == owner);
}

TEST_CASE("state: registration errors are reported by every use") {
  float data[2] = {};
  std::vector<char> bytes(8);
  struct Case {
    const char* message;
    StatusCode code;
    std::function<void(State&)> add;
  };
  const std::vector<Case> cases = {
      {"'a' is registered twice", StatusCode::kAlreadyExists,
       [&](State& s) { s.AddBytes("a", bytes.data(), 8); }},
      {"'d/x' is registered twice", StatusCode::kAlreadyExists,
       [&](State& s) { s.AddTensor("d/x", data, kF32, {2}); }},
      {"'a' is registered as an item and as the dict", StatusCode::kAlreadyExists,
       [&](State& s) { s.AddTensor("a/b", data, kF32, {2}); }},
      {"'d' is registered twice", StatusCode::kAlreadyExists,
       [&](State& s) { s.AddTensor("d", data, kF32, {2}); }},
      {"'~' is followed by neither", StatusCode::kInvalidArgument,
       [&](State& s) { s.AddTensor("x/~9/y", data, kF32, {2}); }},
      {"nested deeper than 1000", StatusCode::kLimitExceeded,
       [&](State& s) { s.AddTensor(std::string(60'000, '/'), data, kF32, {2}); }},
      {"'__metadata__' is reserved", StatusCode::kInvalidArgument,
       [&](State& s) { s.AddTensor("__metadata__", data, kF32, {2}); }},
      {"'n': shape [-1]", StatusCode::kInvalidArgument,
       [&](State& s) { s.AddTensor("n", data, kF32, {-1}); }},
      {"'n': the data is null", StatusCode::kInvalidArgument,
       [&](State& s) { s.AddTensor("n", nullptr, kF32, {1}); }},
  };
  for (const Case& refused : cases) {
    State state;
    state.AddTensor("a", data, kF32, {2});
    state.AddTensor("d/x", data, kF32, {2});
    refused.add(state);
    for (int use = 0; use < 2; ++use) {
      const Status status = Describe(state).status();
      INFO(status.message());
      CHECK(status.code() == refused.code);
      CHECK(status.message().find(refused.message) != std::string::npos);
    }
  }
}

TEST_CASE("state: AddBytes restores exactly its size") {
  uint64_t rng[2] = {1, 2};
  State state;
  state.AddBytes("rng", rng, sizeof rng);
  const Description d = Describe(state);
  REQUIRE(d.status().message() == "");
  const auto& object = d.data().sources.objects.at(0);
  CHECK(object.bytes == rng);
  CHECK(object.size == 16);
  const uint64_t stored[2] = {3, 4};
  CHECK(object.restore(std::as_bytes(std::span(stored))).ok());
  CHECK(rng[1] == 4);
  const Status status = object.restore(std::as_bytes(std::span(stored).first(1)));
  CHECK(status.code() == StatusCode::kMismatch);
  CHECK(status.message() == "object 'rng' has 8 bytes in the file, 16 in memory");
  CHECK(rng[0] == 3);
}

TEST_CASE("state: objects with callbacks") {
  std::string restored;
  State state;
  {
    const std::string media_type = "application/json";
    state.AddObject("dir/meta",
                    {.media_type = media_type,
                     .write = [](Sink&) { return Status(StatusCode::kNoSpace, "called"); },
                     .restore =
                         [&](std::span<const std::byte> bytes) {
                           restored.assign(reinterpret_cast<const char*>(bytes.data()),
                                           bytes.size());
                           return Status();
                         }});
  }
  const Description d = Describe(state);
  REQUIRE(d.status().message() == "");
  CHECK(d.data().identity.media_types == Strings{"application/json"});
  const auto& object = d.data().sources.objects.at(0);
  struct Null : Sink {
    Status Write(std::span<const std::byte>) override { return {}; }
  } sink;
  CHECK(object.write(sink).code() == StatusCode::kNoSpace);
  CHECK(object.restore(std::as_bytes(std::span("ab", 2))).ok());
  CHECK(restored == "ab");
}

TEST_CASE("state: attributes are read at Describe and written on restore") {
  int64_t step = 1;
  double loss = 0.5;
  std::string framework = "x";
  State state;
  state.AddAttribute("step", &step);
  state.AddAttribute("loss", &loss);
  state.AddAttribute("framework", &framework);
  step = 2;
  const Description d = Describe(state);
  REQUIRE(d.status().message() == "");
  REQUIRE(d.data().attributes.nodes.size() == 4);
  CHECK(d.data().attributes.nodes[1].payload == 2);
  CHECK(d.data().attributes.nodes[2].kind == NodeKind::kFloat);
  CHECK(d.data().attributes.heap == "steplossframeworkx");
  const auto& restore = d.data().attribute_restores;
  CHECK(restore.at(0)(Value(int64_t{7})).ok());
  CHECK(restore.at(1)(Value(1.25)).ok());
  CHECK(restore.at(2)(Value(std::string("long enough to allocate"))).ok());
  CHECK(step == 7);
  CHECK(loss == 1.25);
  CHECK(framework == "long enough to allocate");
  const Status status = restore.at(0)(Value(1.0));
  CHECK(status.code() == StatusCode::kMismatch);
  CHECK(status.message() == "attribute 'step' is a float in the file, an int in memory");
  CHECK(step == 7);
}

TEST_CASE("state: an empty one") {
  const State state;
  const Description d = Describe(state);
  CHECK(d.status().ok());
  CHECK(d.data().tree.nodes.size() == 1);
}
