#include <random>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/device/fake_device.h"
#include "tests/writer/device/rig.h"

using namespace dsckpt;

namespace {

std::vector<std::byte> RandomBytes(size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random() & 0x0F);
  return bytes;
}

}  // namespace

TEST_CASE("whichever device call fails, no copy runs when its load has ended") {
  FakeRig rig;
  const TempDir dir;
  const auto source = RandomBytes(5'000'000, 1);
  State saved;
  saved.AddConstTensor("t", source.data(), kU8, std::vector<int64_t>{5'000'000},
                       {.encoding = GENERATE(Encoding::kRaw, Encoding::kZstd)});
  REQUIRE(SaveFile(dir / "f", saved).ok());
  const auto file = File::Open(dir / "f");
  REQUIRE(file.ok());
  const Queue stream(rig, 0);
  const Block block(rig, 0, source.size());
  State state;
  state.AddDeviceTensor("t", block.data(), kU8, {5'000'000}, stream.get());
  bool whole = false;
  int call = 0;
  for (; !whole && call < 100; ++call) {
    INFO("call " << call);
    const auto open = rig.Hold(0, stream.get());
    rig.OnHostWait(open);
    rig.FailFrom(call);
    whole = file->Restore(state).ok();
    CHECK(rig.copies_in_flight() == 0);
    open();
    rig.FailFrom(-1);
  }
  CHECK(whole);
  CHECK(call > 5);
  CHECK(rig.Download(0, block.data(), source.size()) == source);
}

TEST_CASE("loading into device memory") {
  const std::string name = GENERATE(std::string("simulated"), std::string("cuda"));
  INFO(name);
  const auto rig = MakeRig(name);
  if (rig == nullptr) return;
  const TempDir dir;
  const Encoding encoding = GENERATE(Encoding::kRaw, Encoding::kZstd);
  std::vector<std::vector<std::byte>> sources;
  State saved;
  for (const size_t size :
       {size_t{9'000'001}, size_t{0}, size_t{1}, size_t{4096}, size_t{70'001}}) {
    sources.push_back(RandomBytes(size, static_cast<unsigned>(size)));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    saved.AddConstTensor("t" + std::to_string(i), sources[i].data(), kU8,
                         std::vector<int64_t>{static_cast<int64_t>(sources[i].size())},
                         {.encoding = encoding});
  }
  REQUIRE(SaveFile(dir / "f", saved).ok());

  const Queue stream(*rig, 0);
  std::vector<std::unique_ptr<Block>> blocks;
  State state;
  for (size_t i = 0; i < sources.size(); ++i) {
    blocks.push_back(std::make_unique<Block>(*rig, 0, sources[i].size() + 1));
    state.AddDeviceTensor("t" + std::to_string(i), blocks[i]->at(1), kU8,
                          {static_cast<int64_t>(sources[i].size())}, stream.get());
  }
  const auto file = File::Open(dir / "f");
  REQUIRE(file.ok());

  SECTION("a whole state, after what its stream holds") {
    const auto open = rig->Hold(0, stream.get());
    for (const auto& block : blocks) {
      rig->FillLater(0, stream.get(), block->data(), block->bytes(), 0xEE);
    }
    open();
    const Status status = file->Restore(state);
    INFO(status.ToString());
    REQUIRE(status.ok());
    for (size_t i = 0; i < sources.size(); ++i) {
      CHECK(rig->Download(0, blocks[i]->at(1), sources[i].size()) == sources[i]);
    }
  }
  SECTION("chosen tensors, one to the host as well") {
    std::vector<std::byte> host(sources[0].size());
    const LoadRequest requests[] = {
        {.name = "t0", .data = host.data(), .bytes = host.size()},
        {.name = "t0",
         .data = blocks[0]->at(1),
         .bytes = host.size(),
         .device = 0,
         .stream = stream.get()},
        {.name = "t2", .data = blocks[2]->at(1), .bytes = 1, .device = kDeviceOfPointer}};
    const Status status = file->Load(requests);
    INFO(status.ToString());
    REQUIRE(status.ok());
    CHECK(host == sources[0]);
    CHECK(rig->Download(0, blocks[0]->at(1), host.size()) == sources[0]);
    CHECK(rig->Download(0, blocks[2]->at(1), 1) == sources[2]);
  }
  SECTION("a flipped bit is found") {
    std::string bytes = ReadWholeFile(dir / "f");
    bytes[file->FindTensor("t0")->offset + 12'345] ^= 1;
    WriteWholeFile(dir / "g", bytes);
    const auto broken = File::Open(dir / "g");
    REQUIRE(broken.ok());
    CHECK(broken->Restore(state).code() == StatusCode::kCorrupt);
  }
  SECTION("strided device memory is refused") {
    const int64_t strides[] = {2};
    const LoadRequest request{.name = "t4",
                              .data = blocks[0]->at(1),
                              .bytes = 1'000'000,
                              .strides = strides,
                              .device = 0};
    CHECK(file->Load(std::span(&request, 1)).code() == StatusCode::kInvalidArgument);
  }
}
