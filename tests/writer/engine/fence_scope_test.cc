#include "writer/engine/fence_scope.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "io/syscalls.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "writer/engine/describe.h"

using namespace dsckpt;

namespace {

constexpr uint64_t kWindow = kMiB;

/// Holds back all writes from a save's first on.
class HeldStorage {
 public:
  HeldStorage() {
    table_.pwrite = [](int fd, const void* data, size_t bytes, off_t offset) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [] { return open_; });
      return io::RealSyscalls().pwrite(fd, data, bytes, offset);
    };
    open_ = false;
    io::ReplaceSyscalls(&table_);
  }
  ~HeldStorage() { io::ReplaceSyscalls(&io::RealSyscalls()); }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  io::Syscalls table_ = io::RealSyscalls();
  static inline std::mutex mutex_;
  static inline std::condition_variable changed_;
  static inline bool open_ = false;
};

void CheckFilled(const File& file, const std::string& name, char value) {
  const auto view = file.View(name);
  INFO(name << ": " << view.status().ToString());
  REQUIRE(view.ok());
  const auto bytes = view->bytes();
  CHECK(static_cast<size_t>(std::count(bytes.begin(), bytes.end(), std::byte(value))) ==
        bytes.size());
}

}  // namespace

TEST_CASE("where a group of tensors ends in the image and among the appended") {
  // Whole windows: in the image by name, from its first byte on.
  std::vector<char> memory(16 * kWindow);
  char* at = memory.data();
  State state;
  const auto host = [&](const char* name, uint64_t windows, const TensorOptions& options = {}) {
    state.AddTensor(name, at, kU8, {static_cast<int64_t>(windows * kWindow)}, options);
    at += windows * kWindow;
  };
  host("a/1", 2);                                   // windows 0, 1
  char* const tied = at;                            //
  host("a/2", 1);                                   // window 2
  host("b/now", 1, {.capture = Capture::kAtSave});  // window 3
  host("b/x", 2);                                   // windows 4, 5
  host("c/packed", 1, {.encoding = Encoding::kZstd});
  host("d/packed", 1, {.encoding = Encoding::kZstd});
  state.AddTensor("z/tied", tied, kU8, {kWindow});
  state.AddTensor("e/none", at, kU8, {0});
  state.AddBytes("c/object", memory.data(), 10);
  const auto described = Describe(state, {}, nullptr);
  REQUIRE(described.ok());

  struct Case {
    std::string prefix;
    uint64_t host_windows, appended_items;
  };
  const Case cases[] = {{"a/", 3, 0},     {"a/1", 2, 0},      {"a", 3, 0},   {"b/", 6, 0},
                        {"b/now", 0, 0},  {"c/", 0, 2},       {"c/o", 0, 0}, {"d", 0, 3},
                        {"z/tied", 3, 0}, {"z/tied/", 0, 0},  {"e", 0, 0},   {"nothing", 0, 0},
                        {"", 6, 3},       {"c/packed", 0, 2}, {"~", 0, 0}};
  for (const Case& each : cases) {
    INFO("'" << each.prefix << "'");
    const FenceScope ends = FindFenceScope(*(*described)->layout, std::as_const(**described).data(),
                                           each.prefix, kWindow);
    CHECK(ends.host_windows == each.host_windows);
    CHECK(ends.device_windows == 0);
    CHECK(ends.appended_items == each.appended_items);
  }
}

TEST_CASE("a fence for a group returns while storage holds back the others") {
  const TempDir dir;
  std::vector<char> a(2 * kWindow, 1), b(4 * kWindow, 1);
  State state;
  state.AddTensor("a/w", std::span(reinterpret_cast<uint8_t*>(a.data()), a.size()));
  state.AddTensor("b/w", std::span(reinterpret_cast<uint8_t*>(b.data()), b.size()));
  HeldStorage storage;
  {
    const auto engine = Engine::Create({.pool_bytes = 2 * kWindow,
                                        .window_bytes = kWindow,
                                        .io = IoBackend::kThreads,
                                        .direct_io = false});
    REQUIRE(engine.ok());
    const auto save = (*engine)->Save(dir / "f", state);
    REQUIRE(save.ok());
    CHECK((*engine)->Fence("a/").ok());
    CHECK((*engine)->Fence("none/").ok());
    std::fill(a.begin(), a.end(), 2);
    CHECK(!save->progress().captured);
    storage.Open();
    CHECK((*engine)->Fence("b/").ok());
    std::fill(b.begin(), b.end(), 2);
    CHECK(save->WaitDurable().ok());
    CHECK((*engine)->Fence("a/").ok());
  }
  const auto file = File::Open(dir / "f");
  REQUIRE(file.ok());
  CheckFilled(*file, "a/w", 1);
  CheckFilled(*file, "b/w", 1);
}

TEST_CASE("a fence for a group ends with its save") {
  const TempDir dir;
  std::vector<uint8_t> a(6 * kWindow, 1);
  State state;
  state.AddTensor("a/w", std::span(a));
  HeldStorage storage;
  const auto engine = Engine::Create({.pool_bytes = 2 * kWindow,
                                      .window_bytes = kWindow,
                                      .io = IoBackend::kThreads,
                                      .direct_io = false});
  REQUIRE(engine.ok());
  const auto save = (*engine)->Save(dir / "f", state);
  REQUIRE(save.ok());
  save->Cancel();
  storage.Open();
  CHECK((*engine)->Fence("a/").ok());
  CHECK(save->WaitDurable().code() == StatusCode::kCancelled);
}

TEST_CASE("an update that walks groups leaves every file at one step") {
  const TempDir dir;
  const Encoding encoding = GENERATE(Encoding::kRaw, Encoding::kZstd);
  constexpr int kGroups = 8;
  std::vector<std::vector<uint8_t>> layers(kGroups, std::vector<uint8_t>(3 * kWindow / 2, 0));
  State state;
  for (size_t i = 0; i < kGroups; ++i) {
    state.AddTensor("layers/" + std::to_string(i) + "/w", std::span(layers[i]),
                    {.encoding = encoding});
  }
  const auto engine = Engine::Create({.pool_bytes = 4 * kWindow, .window_bytes = kWindow / 2});
  REQUIRE(engine.ok());
  for (uint8_t step = 1; step <= 4; ++step) {
    for (size_t i = 0; i < kGroups; ++i) {
      CHECK((*engine)->Fence("layers/" + std::to_string(i) + "/").ok());
      std::fill(layers[i].begin(), layers[i].end(), step);
    }
    CHECK((*engine)->Save(dir / std::to_string(step), state).ok());
  }
  CHECK((*engine)->WaitDurable().ok());
  for (int step = 1; step <= 4; ++step) {
    const auto file = File::Open(dir / std::to_string(step));
    REQUIRE(file.ok());
    for (int i = 0; i < kGroups; ++i) {
      CheckFilled(*file, "layers/" + std::to_string(i) + "/w", static_cast<char>(step));
    }
  }
}
