#include "dsckpt/engine.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "dsckpt/verify.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

std::vector<std::byte> RandomBytes(size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Repeats words, so that zstd shrinks it.
std::vector<std::byte> CompressibleBytes(size_t size, unsigned seed) {
  auto bytes = RandomBytes(size, seed);
  for (size_t i = 0; i < size; ++i) {
    if (i % 4 >= 2) bytes[i] = std::byte{0x3F};
  }
  return bytes;
}

/// A state of many kinds of items, owning its memory.
struct Mixed {
  std::map<std::string, std::vector<std::byte>> tensors, objects;

  void AddTensor(const std::string& name, size_t bytes) {
    tensors[name] = CompressibleBytes(bytes, static_cast<unsigned>(tensors.size()));
  }

  explicit Mixed(size_t large) {
    AddTensor("large", large);
    AddTensor("odd", large / 3 | 1);
    AddTensor("chunk", kChunkBytes);
    AddTensor("chunk+1", kChunkBytes + 1);
    AddTensor("empty", 0);
    for (int i = 0; i < 50; ++i)
      AddTensor("small." + std::to_string(i), static_cast<size_t>(1 + 37 * i));
    AddTensor("encoded.zstd", large / 2 / 4 * 4);
    AddTensor("encoded.plane", large / 4 * 4);
    objects["object"] = RandomBytes(large / 2 + 3, 77);
    objects["object.empty"] = {};
    objects["object.stream"] = RandomBytes(large + 5, 78);
    objects["object.zstd"] = CompressibleBytes(large / 2, 79);
  }

  void Describe(Description& d, bool callbacks, Capture capture = Capture::kUntilFence) const {
    for (const auto& [name, bytes] : tensors) {
      const bool plane = name == "encoded.plane", zstd = name == "encoded.zstd";
      const int64_t shape[] = {static_cast<int64_t>(plane ? bytes.size() / 4 : bytes.size())};
      d.Tensor(name, {.data = bytes.data(),
                      .dtype = plane ? kF32 : kU8,
                      .shape = shape,
                      .capture = capture,
                      .encoding = plane  ? Encoding::kBytePlaneZstd
                                  : zstd ? Encoding::kZstd
                                         : Encoding::kRaw});
    }
    for (const auto& [name, bytes] : objects) {
      ObjectSource source{.encoding = name == "object.zstd" ? Encoding::kZstd : Encoding::kRaw};
      if (name == "object.stream" && callbacks) {
        source.write = [&bytes = bytes](Sink& sink) {
          for (size_t begin = 0; begin < bytes.size(); begin += 100'001) {
            const size_t part = std::min<size_t>(100'001, bytes.size() - begin);
            DSCKPT_RETURN_IF_ERROR(sink.Write(std::span(bytes).subspan(begin, part)));
          }
          return Status();
        };
      } else {
        source.bytes = bytes.data();
        source.size = bytes.size();
      }
      d.Object(name, source);
    }
    d.Attribute("step", Value(int64_t{42}));
  }

  std::unique_ptr<StateProvider> Provider(bool callbacks = true,
                                          Capture capture = Capture::kUntilFence) const {
    return MakeProvider(
        [this, callbacks, capture](Description& d) { Describe(d, callbacks, capture); });
  }

  void CheckFile(const std::string& path) const {
    const auto opened = File::Open(path);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    REQUIRE(opened->tensor_count() == tensors.size());
    REQUIRE(opened->object_count() == objects.size());
    for (const auto& [name, bytes] : tensors) {
      INFO(name);
      const auto view = opened->View(name);
      REQUIRE(view.ok());
      REQUIRE(view->bytes().size() == bytes.size());
      CHECK(std::equal(bytes.begin(), bytes.end(), view->bytes().begin()));
    }
    for (const auto& [name, bytes] : objects) {
      INFO(name);
      const auto read = opened->ReadObject(name);
      REQUIRE(read.ok());
      CHECK(*read == bytes);
    }
    CHECK(std::get<int64_t>(opened->Attribute("step").value()) == 42);
    const auto report = Verify(path, {.decode = true});
    REQUIRE(report.ok());
    for (const auto& p : report->problems)
      UNSCOPED_INFO(p.item << ' ' << p.kind << ' ' << p.offset);
    CHECK(report->ok);
  }
};

class StringSink final : public Sink {
 public:
  Status Write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status();
  }
  std::string text;
};

}  // namespace

TEST_CASE(
    "a mixed state survives every pool, window, worker and backend choice, in the same bytes "
    "(C32)") {
  const TempDir dir;
  const Mixed state(9'000'001);
  struct Row {
    uint64_t pool, window;
    int workers;
    IoBackend io;
    bool direct;
  };
  const Row rows[] = {
      {1 * kGiB / 4, 16 * kMiB, 0, IoBackend::kAuto, true},
      {8192, 4096, 2, IoBackend::kAuto, true},  // Two windows of one page.
      {4 * kMiB, 16 * kMiB, 2, IoBackend::kAuto,
       true},  // Two windows; tensors larger than the pool.
      {3 * kMiB, 1 * kMiB, 3, IoBackend::kThreads, true},
      {4 * kMiB, 64 * kKiB, 1, IoBackend::kThreads, false},
      {40 * kMiB, 5 * kMiB, 4, IoBackend::kAuto, false},
  };
  std::string first;
  for (const Row& row : rows) {
    for (const Capture capture : {Capture::kUntilFence, Capture::kAtSave}) {
      INFO("pool " << row.pool << " window " << row.window);
      const auto path = dir / "state.dsckpt";
      const auto status = SaveFile(path, *state.Provider(true, capture), {},
                                   {.pool_bytes = row.pool,
                                    .window_bytes = row.window,
                                    .workers = row.workers,
                                    .io = row.io,
                                    .direct_io = row.direct});
      INFO(status.ToString());
      REQUIRE(status.ok());
      const std::string bytes = ReadWholeFile(path);
      if (first.empty()) {
        first = bytes;
        state.CheckFile(path);
      }
      CHECK(bytes.size() == first.size());
      CHECK((bytes == first));
    }
  }
}

TEST_CASE("SaveTo emits the bytes that Save writes") {
  const TempDir dir;
  const Mixed state(5'000'000);
  REQUIRE(SaveFile(dir / "a", *state.Provider(false)).ok());
  StringSink sink;
  REQUIRE(SaveTo(sink, *state.Provider(false)).ok());
  CHECK((sink.text == ReadWholeFile(dir / "a")));

  SECTION("but refuses callbacks, whose size is unknown, before the first byte") {
    StringSink refused;
    CHECK(SaveTo(refused, *state.Provider(true)).code() == StatusCode::kUnsupported);
    CHECK(refused.text.empty());
  }
}

TEST_CASE("plain safetensors: same from Save and SaveTo, and it opens") {
  const TempDir dir;
  std::vector<float> a(100'000, 1.5f), b(3, 2.5f);
  State state;
  state.AddTensor("a", std::span(a));
  state.AddTensor("b", std::span(b));
  const SaveOptions options{.container = Container::kSafetensors};
  REQUIRE(SaveFile(dir / "a", state, options).ok());
  StringSink sink;
  REQUIRE(SaveTo(sink, state, options).ok());
  CHECK((sink.text == ReadWholeFile(dir / "a")));
  const auto file = File::Open(dir / "a");
  REQUIRE(file.ok());
  CHECK(file->format() == FileFormat::kSafetensors);
  CHECK(file->View("b")->As<float>()->back() == 2.5f);
}

TEST_CASE(
    "memory captured at save may change when Save returns, lazy memory after the fence (C14)") {
  const TempDir dir;
  std::vector<float> w(1'000'000, 1.0f);
  float step = 1.0f;
  std::vector<float> buffer(3'000'000,
                            1.0f);  // Larger than what the small pool has for at-save copies.
  const uint64_t pool = GENERATE(uint64_t{2 * kMiB}, uint64_t{64 * kMiB});
  State state;
  state.AddTensor("w", std::span(w));
  state.AddTensor("step", &step, kF32, {});
  state.AddTensor("buffer", buffer.data(), kF32, {3'000'000}, {.capture = Capture::kAtSave});
  auto engine = Engine::Create({.pool_bytes = pool}).value();
  const auto save = engine->Save(dir / "s", state);
  REQUIRE(save.ok());
  step = 2.0f;
  std::fill(buffer.begin(), buffer.end(), 2.0f);
  REQUIRE(engine->Fence().ok());
  std::fill(w.begin(), w.end(), 2.0f);
  REQUIRE(save->WaitDurable().ok());
  const auto file = File::Open(dir / "s").value();
  for (const char* name : {"w", "step", "buffer"}) {
    INFO(name);
    const auto view = file.View(name);
    const auto values = view->As<float>().value();
    CHECK(std::count(values.begin(), values.end(), 1.0f) == static_cast<ptrdiff_t>(values.size()));
  }
}

TEST_CASE("repeated saves reuse the layout and carry the new values") {
  const TempDir dir;
  std::vector<int64_t> values(1000);
  State state;
  state.AddTensor("values", std::span(values));
  auto engine = Engine::Create({.pool_bytes = 1 * kMiB}).value();
  for (int64_t i = 0; i < 5; ++i) {
    std::fill(values.begin(), values.end(), i);
    REQUIRE(engine->Save(dir / "s", state).ok());
    REQUIRE(engine->WaitDurable().ok());
    CHECK(File::Open(dir / "s")->View("values")->As<int64_t>()->front() == i);
  }
  CHECK(engine->statistics().layouts_reused == 4);
  std::vector<int64_t> more(10, 7);
  state.AddTensor("more", std::span(more));
  REQUIRE(engine->Save(dir / "s", state)->WaitDurable().ok());
  CHECK(engine->statistics().layouts_reused == 4);
  CHECK(File::Open(dir / "s")->View("more")->As<int64_t>()->front() == 7);
}
