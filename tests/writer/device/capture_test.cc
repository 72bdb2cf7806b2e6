#include <algorithm>
#include <atomic>
#include <map>
#include <random>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "dsckpt/verify.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/device/fake_device.h"
#include "tests/writer/device/rig.h"
#include "writer/device/streams.h"

using namespace dsckpt;

// What is simulated everywhere runs on a GPU too where there is one.
#define FOR_EACH_RIG(rig)                                                                 \
  const std::string rig##_name = GENERATE(std::string("simulated"), std::string("cuda")); \
  INFO(rig##_name);                                                                       \
  const std::unique_ptr<Rig> rig = MakeRig(rig##_name);                                   \
  if (rig == nullptr) return;

namespace {

constexpr uint8_t kOld = 7, kNew = 9;

std::vector<std::byte> RandomBytes(size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
  auto engine = Engine::Create(std::move(options));
  INFO(engine.status().ToString());
  REQUIRE(engine.ok());
  return std::move(engine).value();
}

void Check(const Status& status) {
  INFO(status.ToString());
  CHECK(status.ok());
}

SaveHandle MustSave(Engine& engine, const std::string& path, const StateProvider& state) {
  auto save = engine.Save(path, state);
  INFO(save.status().ToString());
  REQUIRE(save.ok());
  return *save;
}

void CheckTensor(const File& file, const std::string& name, std::span<const std::byte> expected) {
  INFO(name);
  const auto view = file.View(name);
  INFO(view.status().ToString());
  REQUIRE(view.ok());
  REQUIRE(view->bytes().size() == expected.size());
  CHECK(std::equal(expected.begin(), expected.end(), view->bytes().begin()));
}

/// Every tensor of the file holds `value` alone, and its sums agree.
void CheckFilled(const std::string& path, uint8_t value) {
  const auto file = File::Open(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  for (uint32_t i = 0; i < file->tensor_count(); ++i) {
    const auto view = file->View(file->tensor(i).name);
    REQUIRE(view.ok());
    const auto bytes = view->bytes();
    const auto wrong = std::count_if(bytes.begin(), bytes.end(),
                                     [&](std::byte b) { return b != std::byte{value}; });
    INFO(file->tensor(i).name);
    CHECK(wrong == 0);
  }
  const auto report = Verify(path, {.decode = true});
  REQUIRE(report.ok());
  CHECK(report->problems.empty());
}

/// Tensors of several sizes, unaligned ones among them, in one block of device memory.
struct Tensors {
  Block block;
  struct Item {
    std::string name;
    size_t offset, bytes;
  };
  std::vector<Item> items;

  Tensors(Rig& rig, int device, const std::vector<size_t>& sizes)
      : block(rig, device, Total(sizes)) {
    size_t offset = 1;  // Nothing is aligned unless it happens to be.
    for (size_t i = 0; i < sizes.size(); ++i) {
      items.push_back({std::string("t").append(std::to_string(i)), offset, sizes[i]});
      offset += sizes[i] + i % 5;
    }
  }
  static size_t Total(const std::vector<size_t>& sizes) {
    size_t total = 1;
    for (size_t i = 0; i < sizes.size(); ++i) total += sizes[i] + i % 5;
    return total;
  }
  void Register(State& state, Stream stream, const DeviceTensorOptions& options = {},
                const std::string& prefix = "") const {
    for (const Item& item : items) {
      state.AddDeviceTensor(prefix + item.name, block.at(item.offset), kU8,
                            {static_cast<int64_t>(item.bytes)}, stream, options);
    }
  }
  void CheckFile(const std::string& path, std::span<const std::byte> image,
                 const std::string& prefix = "") const {
    const auto file = File::Open(path);
    INFO(file.status().ToString());
    REQUIRE(file.ok());
    for (const Item& item : items) {
      CheckTensor(*file, prefix + item.name, image.subspan(item.offset, item.bytes));
    }
    const auto report = Verify(path, {.decode = true});
    REQUIRE(report.ok());
    CHECK(report->problems.empty());
  }
};

const std::vector<size_t> kSizes = {5'000'001, 0,      1,  4 * kMiB, 4 * kMiB + 1,
                                    65'536,    65'537, 13, 300};

}  // namespace

TEST_CASE("C30: a save holds what the producer's stream had written") {
  FOR_EACH_RIG(rig);
  const int device = GENERATE(0, 1);
  if (device >= rig->count()) return;
  const TempDir dir;
  const Queue stream(*rig, device);
  auto w = std::make_shared<Block>(*rig, device, 3'000'000);
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});

  const auto open = rig->Hold(device, stream.get());
  rig->FillLater(device, stream.get(), w->data(), w->bytes(), kOld);
  std::weak_ptr<Block> alive = w;
  SaveHandle save;
  {
    State state;
    state.AddDeviceTensor("w", w->data(), kU8, {static_cast<int64_t>(w->bytes())}, stream.get(),
                          {.owner = w});
    save = MustSave(*engine, dir / "f", state);
  }
  w.reset();
  // Nothing can have been read yet: the stream is held.
  CHECK(!alive.expired());
  open();
  Check(save.WaitCaptured());
  const Block reused(*rig, device, 3'000'000);
  rig->FillLater(device, stream.get(), reused.data(), reused.bytes(), kNew);
  Check(save.WaitDurable());
  CHECK(alive.expired());
  rig->Synchronize(device, stream.get());
  CheckFilled(dir / "f", kOld);
}

TEST_CASE("a fence on a stream holds the update back, not the host") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const bool default_stream = GENERATE(false, true);
  const Queue own(*rig, 0);
  const Stream stream = default_stream ? nullptr : own.get();
  const Tensors tensors(*rig, 0, kSizes);
  State state;
  tensors.Register(state, stream);
  const auto engine = MakeEngine({.pool_bytes = 32 * kMiB, .window_bytes = kMiB});

  const auto open = rig->Hold(0, stream);
  rig->FillLater(0, stream, tensors.block.data(), tensors.block.bytes(), kOld);
  const SaveHandle save = MustSave(*engine, dir / "f", state);
  // Returns although the copies cannot begin.
  Check(engine->FenceOnStream(stream));
  rig->FillLater(0, stream, tensors.block.data(), tensors.block.bytes(), kNew);
  CHECK(!save.progress().captured);
  open();
  Check(save.WaitDurable());
  CheckFilled(dir / "f", kOld);
  rig->Synchronize(0, stream);
  const auto after = rig->Download(0, tensors.block.data(), tensors.block.bytes());
  CHECK(std::count(after.begin(), after.end(), std::byte{kNew}) ==
        static_cast<ptrdiff_t>(after.size()));
}

TEST_CASE("a fence for a group lets its update run before later copies") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  // Three windows each, in the order of their names; every window is one copy.
  const Tensors first(rig, 0, {3 * kMiB}), second(rig, 0, {3 * kMiB});
  State state;
  second.Register(state, stream.get(), {}, "b/");
  first.Register(state, stream.get(), {}, "a/");
  const auto engine = MakeEngine({.pool_bytes = 32 * kMiB, .window_bytes = kMiB});
  const auto fill = [&](const Tensors& tensors, uint8_t value) {
    rig.FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), value);
  };
  const auto holds = [&](const Tensors& tensors, uint8_t value) {
    const auto bytes = rig.Download(0, tensors.block.data(), tensors.block.bytes());
    return std::count(bytes.begin(), bytes.end(), std::byte{value}) ==
           static_cast<ptrdiff_t>(bytes.size());
  };
  fill(first, kOld);
  fill(second, kOld);
  rig.Synchronize(0, stream.get());  // The host looks at them below.

  SECTION("the first group's copies are done, the second's are held") {
    const auto open = rig.HoldCopiesAfter(3);
    const SaveHandle save = MustSave(*engine, dir / "f", state);
    Check(engine->FenceOnStream(stream.get(), "a/"));
    fill(first, kNew);
    rig.Synchronize(0, stream.get());
    CHECK(holds(first, kNew));
    Check(engine->FenceOnStream(stream.get(), "none/"));
    Check(engine->FenceOnStream(stream.get(), "b/"));
    fill(second, kNew);
    CHECK(!save.progress().captured);
    CHECK(rig.copies_in_flight() == 3);
    open();
    Check(save.WaitDurable());
  }
  SECTION("all are held") {
    const auto open = rig.HoldCopiesAfter(0);
    const SaveHandle save = MustSave(*engine, dir / "f", state);
    Check(engine->FenceOnStream(stream.get(), "a/"));
    fill(first, kNew);
    Check(engine->FenceOnStream(stream.get(), "b/"));
    fill(second, kNew);
    CHECK(holds(first, kOld));
    open();
    Check(save.WaitDurable());
  }
  SECTION("on the host") {
    const auto open = rig.HoldCopiesAfter(3);
    const SaveHandle save = MustSave(*engine, dir / "f", state);
    Check(engine->Fence("a/"));
    rig.Upload(0, first.block.data(), std::vector<std::byte>(first.block.bytes(), std::byte{kNew}));
    CHECK(!save.progress().captured);
    open();
    Check(engine->Fence("b/"));
    rig.Upload(0, second.block.data(),
               std::vector<std::byte>(second.block.bytes(), std::byte{kNew}));
    Check(save.WaitDurable());
  }
  rig.Synchronize(0, stream.get());
  CHECK(holds(first, kNew));
  CHECK(holds(second, kNew));
  CheckFilled(dir / "f", kOld);
}

TEST_CASE("a fence for a group does not wait while an encoder reads another") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const Tensors lazy(rig, 0, {300'000}), packed(rig, 0, {300'000});
  State state;
  lazy.Register(state, stream.get(), {}, "a/");
  packed.Register(state, stream.get(), {.encoding = Encoding::kZstd}, "b/");
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});
  const auto open = rig.Hold(0, stream.get());
  rig.FillLater(0, stream.get(), lazy.block.data(), lazy.block.bytes(), kOld);
  rig.FillLater(0, stream.get(), packed.block.data(), packed.block.bytes(), kOld);
  std::atomic<int> waiting{0};
  rig.OnHostWait([&] {
    ++waiting;
    waiting.notify_all();
  });
  const SaveHandle save = MustSave(*engine, dir / "f", state);
  // The encoder's worker, whose memory is not pinned, and the thread that waits for windows.
  for (int now; (now = waiting) < 2;) waiting.wait(now);
  Check(engine->FenceOnStream(stream.get(), "a/"));
  rig.FillLater(0, stream.get(), lazy.block.data(), lazy.block.bytes(), kNew);
  CHECK(!save.progress().captured);
  open();
  Check(save.WaitDurable());
  CheckFilled(dir / "f", kOld);
}

TEST_CASE("with a snapshot no update waits for the bus or for storage") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const Tensors tensors(rig, 0, kSizes);
  State state;
  tensors.Register(state, stream.get(), {}, "a/");
  // The pool holds less than the state.
  const auto engine = MakeEngine(
      {.pool_bytes = 4 * kMiB, .window_bytes = kMiB, .device_snapshot_bytes = 32 * kMiB});
  const std::string prefix = GENERATE(std::string(), std::string("a/"));
  rig.FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kOld);
  const auto open = rig.HoldCopiesAfter(0);
  const SaveHandle save = MustSave(*engine, dir / "f", state);
  Check(engine->FenceOnStream(stream.get(), prefix));
  rig.FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kNew);
  rig.Synchronize(0, stream.get());
  // Read, although not a byte has reached the host.
  Check(save.WaitCaptured());
  CHECK(save.progress().flushed_bytes == 0);
  open();
  Check(save.WaitDurable());
  CheckFilled(dir / "f", kOld);
  Check(engine->WaitDurable());
  CHECK(engine->statistics().suggested_pool_bytes <= 4 * kMiB);
  CHECK(engine->statistics().window_stall.count() == 0);
}

TEST_CASE("snapshots of all, some and none of the state, step after step") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const Queue stream(*rig, 0);
  const Tensors tensors(*rig, 0, kSizes), now(*rig, 0, {300'000, 7}), packed(*rig, 0, {300'000});
  State state;
  tensors.Register(state, stream.get(), {}, "a/");
  now.Register(state, stream.get(), {.capture = Capture::kAtSave}, "b/");
  packed.Register(state, stream.get(), {.encoding = Encoding::kZstd}, "c/");
  const uint64_t snapshot_bytes = GENERATE(64 * kMiB, 7 * kMiB, 1);
  const std::string prefix = GENERATE(std::string(), std::string("a/"));
  const bool refused = snapshot_bytes == 7 * kMiB && GENERATE(false, true);
  if (auto* const fake = dynamic_cast<FakeRig*>(rig.get())) {
    if (refused) fake->RefuseMemory();
  } else if (refused) {
    return;
  }
  std::atomic<int> warnings{0};
  const auto engine = MakeEngine({.pool_bytes = 4 * kMiB,
                                  .window_bytes = kMiB,
                                  .device_snapshot_bytes = snapshot_bytes,
                                  .on_event = [&](const Event& event) {
                                    const auto& text = event.status.message();
                                    if (text.find("no snapshots") != text.npos) ++warnings;
                                  }});
  for (uint8_t step = 1; step <= 3; ++step) {
    Check(engine->FenceOnStream(stream.get(), prefix));
    rig->FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), step);
    Check(engine->FenceOnStream(stream.get()));
    for (const Tensors* each : {&now, &packed}) {
      rig->FillLater(0, stream.get(), each->block.data(), each->block.bytes(), step);
    }
    static_cast<void>(MustSave(*engine, dir / std::to_string(step), state));
  }
  Check(engine->WaitDurable());
  for (uint8_t step = 1; step <= 3; ++step) CheckFilled(dir / std::to_string(step), step);
  CHECK(warnings == (refused ? 1 : 0));
}

TEST_CASE("groups of all kinds, step after step, with a pool smaller than the state") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const Queue stream(*rig, 0), other(*rig, 0);
  const std::vector<std::string> groups = {"layer.0/", "layer.1/", "layer.2/"};
  std::vector<std::unique_ptr<Tensors>> lazy, packed, now;
  State state;
  for (const std::string& group : groups) {
    lazy.push_back(std::make_unique<Tensors>(*rig, 0, kSizes));
    lazy.back()->Register(state, stream.get(), {}, group + "lazy/");
    packed.push_back(std::make_unique<Tensors>(*rig, 0, std::vector<size_t>{600'000, 7}));
    packed.back()->Register(state, stream.get(), {.encoding = Encoding::kZstd}, group + "packed/");
    now.push_back(std::make_unique<Tensors>(*rig, 0, std::vector<size_t>{100'000, 7}));
    now.back()->Register(state, stream.get(), {.capture = Capture::kAtSave}, group + "now/");
  }
  const uint64_t pool_bytes = GENERATE(4, 64) * kMiB;
  const auto engine = MakeEngine({.pool_bytes = pool_bytes, .window_bytes = kMiB});
  for (uint8_t step = 1; step <= 3; ++step) {
    for (size_t i = 0; i < groups.size(); ++i) {
      // One stream updates what the other produced.
      Check(engine->FenceOnStream(other.get(), groups[i]));
      for (const auto* tensors : {lazy[i].get(), packed[i].get(), now[i].get()}) {
        rig->FillLater(0, other.get(), tensors->block.data(), tensors->block.bytes(), step);
      }
    }
    rig->Synchronize(0, other.get());
    static_cast<void>(MustSave(*engine, dir / std::to_string(step), state));
  }
  Check(engine->WaitDurable());
  for (uint8_t step = 1; step <= 3; ++step) CheckFilled(dir / std::to_string(step), step);
}

TEST_CASE("C32: device tensors larger than the pool pass through it, step after step") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const Queue stream(*rig, 0);
  const std::vector<std::vector<size_t>> cases = {
      {4 * kMiB + 1}, {64 * kMiB}, {3 * kMiB, 3 * kMiB, 3 * kMiB}};
  for (const auto& sizes : cases) {
    const Tensors tensors(*rig, 0, sizes);
    State state;
    tensors.Register(state, stream.get());
    const auto engine = MakeEngine({.pool_bytes = 4 * kMiB, .window_bytes = 2 * kMiB});
    for (uint8_t step = 1; step <= 3; ++step) {
      Check(engine->FenceOnStream(stream.get()));
      rig->FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), step);
      static_cast<void>(MustSave(*engine, dir / std::to_string(step), state));
    }
    Check(engine->WaitDurable());
    for (uint8_t step = 1; step <= 3; ++step) CheckFilled(dir / std::to_string(step), step);
  }
}

TEST_CASE("an at-save device tensor may change right after the save, in its stream") {
  FOR_EACH_RIG(rig);
  // Within the room for at-save copies, and beyond it.
  const size_t large = GENERATE(size_t{100'003}, size_t{7'000'000});
  const Encoding encoding = GENERATE(Encoding::kRaw, Encoding::kZstd);
  const TempDir dir;
  const Queue stream(*rig, 0);
  const Tensors tensors(*rig, 0, {large, 5, 70'000});
  State state;
  tensors.Register(state, stream.get(), {.capture = Capture::kAtSave, .encoding = encoding});
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});
  for (uint8_t step = 1; step <= 3; ++step) {
    rig->FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), step);
    static_cast<void>(MustSave(*engine, dir / std::to_string(step), state));
    rig->FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kNew);
  }
  Check(engine->WaitDurable());
  for (uint8_t step = 1; step <= 3; ++step) CheckFilled(dir / std::to_string(step), step);
}

TEST_CASE("at-save copies do not make the host wait") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const Queue stream(*rig, 0);
  const Tensors tensors(*rig, 0, {100'003, 5});
  State state;
  tensors.Register(state, stream.get(), {.capture = Capture::kAtSave});
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});
  const auto open = rig->Hold(0, stream.get());
  rig->FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kOld);
  const SaveHandle save = MustSave(*engine, dir / "f", state);
  rig->FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kNew);
  open();
  Check(save.WaitDurable());
  CheckFilled(dir / "f", kOld);
}

TEST_CASE("20,000 small device tensors at any address") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const Queue stream(*rig, 0);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 20'000; ++i) sizes.push_back(i % 7 == 0 ? 4096 : 1 + i * 31 % 5000);
  sizes.push_back(9 * kMiB);
  const Tensors tensors(*rig, 0, sizes);
  const auto image = RandomBytes(tensors.block.bytes(), 3);
  rig->Upload(0, tensors.block.data(), image);
  State state;
  tensors.Register(state, stream.get());
  const bool registered = GENERATE(true, false);
  if (auto* const fake = dynamic_cast<FakeRig*>(rig.get()); fake != nullptr && !registered) {
    fake->RefuseRegistration();
  }
  std::atomic<int> warnings{0};
  const auto engine = MakeEngine(
      {.pool_bytes = 32 * kMiB, .window_bytes = 2 * kMiB, .on_event = [&](const Event& event) {
         if (event.status.message().find("pinned") != std::string::npos) {
           ++warnings;
         }
       }});
  Check(MustSave(*engine, dir / "f", state).WaitDurable());
  Check(MustSave(*engine, dir / "f", state).WaitDurable());
  tensors.CheckFile(dir / "f", image);
  if (auto* const fake = dynamic_cast<FakeRig*>(rig.get())) {
    CHECK((fake->gathers() > 0) == registered);
    CHECK(warnings == (registered ? 0 : 1));
  }
}

TEST_CASE("a tensor across neighbouring windows is one copy a batch") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  // 24 batches a save, of 16 windows each.
  const Tensors tensors(rig, 0, {24 * kMiB - 100});
  const auto image = RandomBytes(tensors.block.bytes(), 5);
  rig.Upload(0, tensors.block.data(), image);
  State state;
  tensors.Register(state, stream.get());
  const auto engine = MakeEngine({.pool_bytes = 32 * kMiB, .window_bytes = 64 * kKiB});
  for (int save = 1; save <= 3; ++save) {
    const int before = rig.copies();
    Check(MustSave(*engine, dir / "f", state).WaitDurable());
    CHECK(rig.copies() - before >= 24);
    // A window that comes back late breaks a row in two. Without rows it would be one a window:
    // 384.
    CHECK(rig.copies() - before <= 2 * 24);
    tensors.CheckFile(dir / "f", image);
  }
}

TEST_CASE("no copy is to span two registrations of the pool") {
  FakeRig rig;
  const Block block(rig, 0, 1);
  const auto pool = io::WindowPool::Create(3 * kMiB, 48 * kKiB);
  REQUIRE(pool.ok());
  DeviceStreams queues(
      **pool, 0, [](const Status&) {}, kMiB);
  REQUIRE(queues.Open(0).ok());
  queues.RegisterPool(0);
  const auto ranges = rig.registered();
  REQUIRE(ranges.size() == 4);
  const auto range_of = [&](const std::byte* at) {
    return std::count_if(ranges.begin(), ranges.end(),
                         [&](auto range) { return range.data() <= at; });
  };
  const auto& windows = (*pool)->windows();
  for (size_t i = 1; i < windows.size(); ++i) {
    const std::byte *const a = windows[i - 1].data(), *const b = windows[i].data();
    CHECK(queues.RegisteredTogether(a, b) == (range_of(a) == range_of(b)));
  }
}

TEST_CASE("device and host tensors, encoded ones and objects share a file") {
  FOR_EACH_RIG(rig);
  const bool shard = GENERATE(true, false);
  const TempDir dir;
  const Queue stream(*rig, 0);
  const Tensors lazy(*rig, 0, kSizes), now(*rig, 0, kSizes), packed(*rig, 0, kSizes);
  std::map<const Tensors*, std::vector<std::byte>> images;
  for (const Tensors* tensors : {&lazy, &now, &packed}) {
    images[tensors] = RandomBytes(tensors->block.bytes(), static_cast<unsigned>(images.size()));
    rig->Upload(0, tensors->block.data(), images[tensors]);
  }
  auto host = RandomBytes(3'333'333, 9), object = RandomBytes(77'777, 10);
  State state;
  lazy.Register(state, stream.get(), {.device = 0}, "lazy/");
  now.Register(state, stream.get(), {.capture = Capture::kAtSave}, "now/");
  packed.Register(state, stream.get(), {.encoding = shard ? Encoding::kZstd : Encoding::kRaw},
                  "packed/");
  state.AddTensor("host", std::span(reinterpret_cast<uint8_t*>(host.data()), host.size()));
  if (shard) state.AddBytes("object", object.data(), object.size());
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});
  const auto save = engine->Save(
      dir / "f", state, {.container = shard ? Container::kDsckpt : Container::kSafetensors});
  REQUIRE(save.ok());
  Check(engine->FenceOnStream(stream.get()));
  Check(save->WaitDurable());
  if (shard) {
    lazy.CheckFile(dir / "f", images[&lazy], "lazy/");
    now.CheckFile(dir / "f", images[&now], "now/");
    packed.CheckFile(dir / "f", images[&packed], "packed/");
  }
  const auto file = File::Open(dir / "f");
  REQUIRE(file.ok());
  CheckTensor(*file, "host", host);
  CheckTensor(*file, "lazy/t3", std::span(images[&lazy]).subspan(lazy.items[3].offset, 4 * kMiB));
  CheckTensor(*file, "now/t8", std::span(images[&now]).subspan(now.items[8].offset, 300));

  // The same bytes whichever way they are written.
  struct Collect final : Sink {
    std::string bytes;
    Status Write(std::span<const std::byte> part) override {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      return {};
    }
  } sink;
  if (shard) {
    Check(SaveTo(sink, state));
    CHECK(sink.bytes == ReadWholeFile(dir / "f"));
  }
}

TEST_CASE("two devices in one save") {
  FOR_EACH_RIG(rig);
  if (rig->count() < 2) return;
  const TempDir dir;
  const Queue first(*rig, 0), second(*rig, 1);
  const Tensors a(*rig, 0, kSizes), b(*rig, 1, kSizes);
  State state;
  a.Register(state, first.get(), {}, "a/");
  b.Register(state, second.get(), {.capture = Capture::kUntilFence, .device = 1}, "b/");
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});
  for (uint8_t step = 1; step <= 3; ++step) {
    Check(engine->FenceOnStream(first.get()));
    Check(engine->FenceOnStream(second.get()));
    rig->FillLater(0, first.get(), a.block.data(), a.block.bytes(), step);
    rig->FillLater(1, second.get(), b.block.data(), b.block.bytes(), step);
    static_cast<void>(MustSave(*engine, dir / std::to_string(step), state));
  }
  Check(engine->WaitDurable());
  for (uint8_t step = 1; step <= 3; ++step) CheckFilled(dir / std::to_string(step), step);
}

TEST_CASE("a save that is called off leaves nothing in flight") {
  FOR_EACH_RIG(rig);
  const TempDir dir;
  const Queue stream(*rig, 0);
  const Tensors tensors(*rig, 0, kSizes);
  State state;
  tensors.Register(state, stream.get(),
                   {.capture = GENERATE(Capture::kUntilFence, Capture::kAtSave)});
  const auto engine = MakeEngine(
      {.pool_bytes = 64 * kMiB, .window_bytes = kMiB, .when_busy = WhenBusy::kReplaceQueued});
  const auto open = rig->Hold(0, stream.get());
  const SaveHandle save = MustSave(*engine, dir / "f", state);
  save.Cancel();
  open();
  CHECK(save.WaitDurable().code() == StatusCode::kCancelled);
  for (int i = 0; i < 6; ++i) static_cast<void>(MustSave(*engine, dir / "g", state));
  static_cast<void>(engine->WaitDurable());
  CHECK(File::Open(dir / "g").ok());
}

TEST_CASE("a failing copy fails its save and no other") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const Tensors tensors(rig, 0, kSizes);
  State state;
  tensors.Register(state, stream.get());
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB, .window_bytes = kMiB});
  rig.FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kOld);
  rig.FailCopies(true);
  const auto failed = engine->Save(dir / "f", state);
  REQUIRE(failed.ok());
  const Status status = failed->WaitDurable();
  CHECK(status.code() == StatusCode::kIoError);
  CHECK(status.message().find("simulated failure") != std::string::npos);
  CHECK(!File::Open(dir / "f").ok());
  rig.FailCopies(false);
  Check(MustSave(*engine, dir / "f", state).WaitDurable());
  CheckFilled(dir / "f", kOld);
}

TEST_CASE("whichever device call fails, no copy runs when its save has ended") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const Tensors tensors(rig, 0, {100'003, 5, 1'300'000, 70'000, 33, 44, 55, 66});
  const auto capture = GENERATE(Capture::kUntilFence, Capture::kAtSave);
  const auto encoding = GENERATE(Encoding::kRaw, Encoding::kZstd);
  const uint64_t snapshot_bytes = GENERATE(0, kMiB);
  State state;
  tensors.Register(state, stream.get(), {.capture = capture, .encoding = encoding});
  bool whole = false;
  int call = 0;
  for (; !whole && call < 1000; ++call) {
    INFO("call " << call);
    const auto engine = MakeEngine(
        {.pool_bytes = 8 * kMiB, .window_bytes = kMiB, .device_snapshot_bytes = snapshot_bytes});
    // Copies cannot begin before somebody waits for them; who does not wait leaves them in flight.
    const auto open = rig.Hold(0, stream.get());
    rig.OnHostWait(open);
    rig.FillLater(0, stream.get(), tensors.block.data(), tensors.block.bytes(), kOld);
    rig.FailFrom(call);
    const auto save = engine->Save(dir / "f", state);
    const Status status = save.ok() ? save->WaitDurable() : save.status();
    CHECK(rig.copies_in_flight() == 0);
    whole = status.ok();
    if (!whole) CHECK(status.code() == StatusCode::kIoError);
    open();
    rig.FailFrom(-1);
  }
  CHECK(whole);
  CHECK(call > 5);
  CheckFilled(dir / "f", kOld);
}

TEST_CASE("while a graph is captured from a stream, saves and fences on it are refused") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const Tensors tensors(rig, 0, {5});
  State state;
  tensors.Register(state, stream.get());
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB});
  const auto open = rig.Hold(0, stream.get());
  const SaveHandle before = MustSave(*engine, dir / "f", state);
  rig.SetCapturing(stream.get(), true);
  CHECK(engine->Save(dir / "g", state).status().code() == StatusCode::kFailedPrecondition);
  CHECK(engine->FenceOnStream(stream.get()).code() == StatusCode::kFailedPrecondition);
  rig.SetCapturing(stream.get(), false);
  Check(engine->FenceOnStream(stream.get()));
  open();
  Check(before.WaitDurable());
}

TEST_CASE("what cannot be a device tensor is refused with its name") {
  FakeRig rig;
  const TempDir dir;
  const Queue stream(rig, 0);
  const auto engine = MakeEngine({.pool_bytes = 8 * kMiB});
  std::vector<uint8_t> host(10);
  State wrong;
  wrong.AddDeviceTensor("a/b", host.data(), kU8, {10}, stream.get());
  const Status not_device = engine->Save(dir / "f", wrong).status();
  CHECK(not_device.code() == StatusCode::kInvalidArgument);
  CHECK(not_device.message().find("'a/b'") != std::string::npos);

  const Block block(rig, 0, 100);
  const auto strided = MakeProvider([&](Description& description) {
    const int64_t shape[] = {3, 2}, strides[] = {4, 1};
    description.Tensor("s", {.data = block.data(),
                             .dtype = kU8,
                             .shape = shape,
                             .strides = strides,
                             .device = 0,
                             .stream = stream.get()});
  });
  const Status status = engine->Save(dir / "f", *strided).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(status.message().find("'s'") != std::string::npos);
}
