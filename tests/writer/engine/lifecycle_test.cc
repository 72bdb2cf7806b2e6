// What happens around a save: failures, waits, cancellation, process ends. Case ids as in the test
// names.

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "io/syscalls.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

/// A state of one tensor whose elements all are `value`.
struct Filled {
  explicit Filled(float value, size_t elements = 1'000'000) : w(elements, value) {
    state.AddTensor("w", std::span(w));
  }
  std::vector<float> w;
  State state;
};

float FirstElement(const std::string& path) {
  const auto file = File::Open(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  return file->View("w")->As<float>()->front();
}

std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}) {
  options.pool_bytes = std::min<uint64_t>(options.pool_bytes, 8 * kMiB);
  return Engine::Create(std::move(options)).value();
}

/// Runs `body` in a forked child and returns its wait status.
int InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("C13 mapped tensors saved over their own file") {
  TempDir dir;
  std::vector<float> w = {1, 2, 3};
  State state;
  state.AddTensor("w", std::span(w));
  REQUIRE(SaveFile(dir / "p", state).ok());
  const auto view = File::Open(dir / "p")->View("w").value();
  REQUIRE(view.mapped());
  State again;
  again.AddConstTensor("w", view.bytes().data(), kF32, std::array<int64_t, 1>{3});
  REQUIRE(SaveFile(dir / "p", again).ok());
  const auto reopened = File::Open(dir / "p")->View("w").value();
  for (const Tensor& tensor : {view, reopened}) {
    const auto values = tensor.As<float>().value();
    CHECK(std::vector<float>(values.begin(), values.end()) == w);
  }
}

namespace kill_points {
std::atomic<int> calls_left{0};
void Countdown() {
  if (calls_left.fetch_sub(1) == 1) kill(getpid(), SIGKILL);
}
int Fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return Countdown(), io::RealSyscalls().fallocate(fd, mode, offset, bytes);
}
ssize_t Pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return Countdown(), io::RealSyscalls().pwrite(fd, data, bytes, offset);
}
int Ftruncate(int fd, off_t bytes) { return Countdown(), io::RealSyscalls().ftruncate(fd, bytes); }
int Fsync(int fd) { return Countdown(), io::RealSyscalls().fsync(fd); }
int Rename(const char* from, const char* to) {
  return Countdown(), io::RealSyscalls().rename(from, to);
}
}  // namespace kill_points

TEST_CASE("C16 killed at every step: the old file or the new one, and nothing else stays") {
  TempDir dir;
  REQUIRE(SaveFile(dir / "s", Filled(1).state, {}, {.pool_bytes = 1 * kMiB}).ok());
  const std::string before = ReadWholeFile(dir / "s");
  io::Syscalls table = io::RealSyscalls();
  table.fallocate = kill_points::Fallocate;
  table.pwrite = kill_points::Pwrite;
  table.ftruncate = kill_points::Ftruncate;
  table.fsync = kill_points::Fsync;
  table.rename = kill_points::Rename;
  int killed = 0;
  int survived_at = 0;
  for (int step = 1; survived_at == 0; ++step) {
    REQUIRE(step < 100);
    const int status = InChild([&] {
      kill_points::calls_left = step;
      io::ReplaceSyscalls(&table);
      static_cast<void>(SaveFile(dir / "s", Filled(2).state, {},
                                 {.pool_bytes = 1 * kMiB, .io = IoBackend::kThreads}));
    });
    if (!WIFSIGNALED(status)) {
      survived_at = step;
      break;
    }
    ++killed;
    const std::string now = ReadWholeFile(dir / "s");
    if (now != before) {
      CHECK(FirstElement(dir / "s") == 2);  // Killed after the rename: the directory sync.
      REQUIRE(SaveFile(dir / "s", Filled(1).state, {}, {.pool_bytes = 1 * kMiB}).ok());
    }
  }
  CHECK(killed >= 8);  // Reservation, some writes, cut, sync, rename, directory sync.
  CHECK(FirstElement(dir / "s") == 2);
  CHECK(Names(dir.path()) ==
        std::vector<std::string>{"s"});  // The last save cleared what the dead left.
}

TEST_CASE("C17 destroying the engine drains it") {
  TempDir dir;
  {
    Filled filled(3);
    auto engine = MakeEngine();
    REQUIRE(engine->Save(dir / "s", filled.state).ok());
    engine.reset();
  }
  CHECK(FirstElement(dir / "s") == 3);
}

TEST_CASE("C17 C18 a background failure is reported once, and the next save is unaffected") {
  TempDir dir;
  Filled filled(1);
  std::vector<Event> events;
  auto engine = MakeEngine({.io = IoBackend::kThreads,
                            .on_event = [&](const Event& event) { events.push_back(event); }});
  {
    FaultFs faults;
    faults.Fail("pwrite", ENOSPC);
    faults.Fail("fallocate", EOPNOTSUPP);
    REQUIRE(engine->Save(dir / "full", filled.state).ok());
    // Wait without looking.
    while (engine->statistics().saves_failed == 0) std::this_thread::yield();
  }
  const auto second = engine->Save(dir / "fine", filled.state);
  REQUIRE(second.ok());
  CHECK(second->WaitDurable().ok());
  const Status status = engine->Fence();
  CHECK(status.code() == StatusCode::kNoSpace);
  CHECK(status.error_number() == ENOSPC);
  CHECK(status.path() == dir / "full");
  CHECK(engine->Fence().ok());
  CHECK(engine->WaitDurable().ok());
  CHECK(Names(dir.path()) == std::vector<std::string>{"fine"});
  CHECK(std::count_if(events.begin(), events.end(), [](const Event& event) {
          return event.kind == Event::Kind::kSaveFailed;
        }) == 1);
}

TEST_CASE("an error that the handle's owner saw is not reported again") {
  TempDir dir;
  Filled filled(1);
  auto engine = MakeEngine();
  const auto save = engine->Save(dir / "no/such/directory/s", filled.state);
  REQUIRE(save.ok());
  const Status status = save->WaitDurable();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message().find("no/such/directory") != std::string::npos);
  CHECK(save->WaitCaptured().code() == StatusCode::kNotFound);
  CHECK(engine->WaitDurable().ok());
}

TEST_CASE("C19 engines without saves, waits before any save, handles that outlive their engine") {
  { auto unused = MakeEngine(); }
  auto engine = MakeEngine();
  CHECK(engine->Fence().ok());
  CHECK(engine->WaitDurable().ok());
  CHECK(SaveHandle().WaitCaptured().ok());
  CHECK(SaveHandle().WaitDurable().ok());
  SaveHandle().Cancel();
  TempDir dir;
  Filled filled(1);
  const auto save = engine->Save(dir / "s", filled.state).value();
  engine.reset();
  CHECK(save.WaitDurable().ok());
  CHECK(save.progress().durable);
  CHECK(save.progress().captured_bytes == filled.w.size() * sizeof(float));
}

TEST_CASE("C19 every write fails: waits return, the destructor does not hang") {
  TempDir dir;
  Filled filled(1, 5'000'000);
  FaultFs faults;
  faults.Fail("pwrite", EIO);
  auto engine = MakeEngine({.pool_bytes = 64 * kKiB, .io = IoBackend::kThreads});
  const auto first = engine->Save(dir / "a", filled.state).value();
  const auto second = engine->Save(dir / "b", filled.state).value();
  CHECK(first.WaitCaptured().code() == StatusCode::kIoError);
  CHECK(second.WaitDurable().code() == StatusCode::kIoError);
  engine.reset();
  CHECK(Names(dir.path()).empty());
}

TEST_CASE("C22 C23 C24 fall-backs: one warning each, the same bytes") {
  TempDir dir;
  Filled filled(4);
  REQUIRE(SaveFile(dir / "plain", filled.state).ok());
  struct Row {
    const char* call;
    int error;
    IoBackend backend;
    int times = 1 << 30;
  };
  const Row rows[] = {
      {"ring_register", ENOMEM, IoBackend::kAuto}, {"ring_register", EOPNOTSUPP, IoBackend::kAuto},
      {"ring_init", EPERM, IoBackend::kAuto},      {"ring_init", ENOSYS, IoBackend::kAuto},
      {"open_direct", EINVAL, IoBackend::kAuto},   {"open_direct", EOPNOTSUPP, IoBackend::kAuto},
      {"pwrite", EINVAL, IoBackend::kThreads, 1},  {"pwrite", EOPNOTSUPP, IoBackend::kThreads, 1},
  };
  for (const Row& row : rows) {
    INFO(row.call << ' ' << row.error);
    FaultFs faults;
    faults.Fail(row.call, row.error, 0, row.times);
    std::vector<Event> events;
    const Status status =
        SaveFile(dir / "s", filled.state, {},
                 {.pool_bytes = 8 * kMiB, .io = row.backend, .on_event = [&](const Event& event) {
                    events.push_back(event);
                  }});
    INFO(status.ToString());
    REQUIRE(status.ok());
    REQUIRE(events.size() == 1);
    CHECK(events[0].kind == Event::Kind::kFallback);
    CHECK((ReadWholeFile(dir / "s") == ReadWholeFile(dir / "plain")));
  }
  FaultFs faults;
  faults.Fail("ring_init", EPERM);
  CHECK(Engine::Create({.pool_bytes = 8192, .io = IoBackend::kUring}).status().code() ==
        StatusCode::kUnsupported);
}

TEST_CASE("C25 short writes resume, C26 failed syncs fail the save") {
  TempDir dir;
  Filled before(1), after(2);
  auto engine = MakeEngine({.io = IoBackend::kThreads});
  const auto save = [&](FaultFs&) { return engine->Save(dir / "s", after.state)->WaitDurable(); };
  REQUIRE(engine->Save(dir / "s", before.state)->WaitDurable().ok());
  SECTION("short") {
    FaultFs faults;
    faults.Shorten(12'288);
    CHECK(save(faults).ok());
    CHECK(FirstElement(dir / "s") == 2);
  }
  for (const char* call : {"fsync", "close", "rename", "ftruncate"}) {
    DYNAMIC_SECTION(call) {
      FaultFs faults;
      faults.Fail(call, EIO);
      const Status status = save(faults);
      CHECK(status.code() == StatusCode::kIoError);
      CHECK(status.error_number() == EIO);
      CHECK(FirstElement(dir / "s") == 1);
      CHECK(faults.Count("fsync") <= 1);  // Never retried.
    }
  }
  SECTION("directory sync: published, durability unknown") {
    FaultFs faults;
    faults.Fail("fsync_dir", EIO);
    CHECK(save(faults).code() == StatusCode::kDurabilityUnknown);
    CHECK(FirstElement(dir / "s") == 2);
  }
  SECTION("a power cut before the directory sync brings back the old file, whole") {
    FaultFs faults;
    faults.Fail("fsync_dir", EIO);
    CHECK(save(faults).code() == StatusCode::kDurabilityUnknown);
    faults.PowerCut();
    CHECK(FirstElement(dir / "s") == 1);
  }
  SECTION("after a durable save a power cut loses nothing") {
    FaultFs faults;
    CHECK(save(faults).ok());
    faults.PowerCut();
    CHECK(FirstElement(dir / "s") == 2);
    CHECK(faults.Calls({"fsync", "rename", "fsync_dir"}) ==
          std::vector<std::string>{"fsync", "rename", "fsync_dir"});
  }
  engine.reset();
  CHECK(Names(dir.path()) == std::vector<std::string>{"s"});
}

TEST_CASE("C29 odd paths and modes") {
  TempDir dir;
  Filled filled(1, 10);
  std::filesystem::create_directory(dir / "dir \xE6\xB5\x8B\xE8\xAF\x95");
  const std::string odd = dir / "dir \xE6\xB5\x8B\xE8\xAF\x95/ckpt \xC3\xBC.dsckpt";
  const std::string lengthy = dir / std::string(250, 'n');
  for (const std::string& path : {odd, lengthy}) {
    CHECK(SaveFile(path, filled.state).ok());
    CHECK(FirstElement(path) == 1);
  }
  chmod(odd.c_str(), 0640);
  CHECK(SaveFile(odd, filled.state).ok());
  struct stat info;
  REQUIRE(stat(odd.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  CHECK(SaveFile(dir.path(), filled.state).code() == StatusCode::kInvalidArgument);
  CHECK(SaveFile("", filled.state).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("saves of one path are published in order") {
  TempDir dir;
  auto engine = MakeEngine({.max_in_flight = 4});
  std::vector<std::unique_ptr<Filled>> states;
  for (int i = 0; i < 8; ++i) {
    states.push_back(std::make_unique<Filled>(static_cast<float>(i), i % 2 == 0 ? 2'000'000 : 10));
    REQUIRE(engine->Save(dir / "s", states.back()->state).ok());
  }
  REQUIRE(engine->WaitDurable().ok());
  CHECK(FirstElement(dir / "s") == 7);
}

namespace {

/// An object whose bytes come when the test lets them: holds a save in its append stage.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  std::unique_ptr<StateProvider> Provider() {
    return MakeProvider([this](Description& d) {
      ObjectSource source;
      source.write = [opened = opened](Sink& sink) {
        opened.wait();
        const std::byte bytes[3] = {};
        return sink.Write(bytes);
      };
      d.Object("gate", source);
    });
  }
};

}  // namespace

TEST_CASE(
    "cancelled before it publishes: the old file stays, waits say so, and no error is raised") {
  TempDir dir;
  Gate gate;
  auto engine = MakeEngine();
  const auto save = engine->Save(dir / "s", *gate.Provider()).value();
  CHECK(!save.progress().captured);
  save.Cancel();
  gate.open.set_value();
  CHECK(save.WaitDurable().code() == StatusCode::kCancelled);
  CHECK(engine->WaitDurable().ok());
  save.Cancel();
  CHECK(Names(dir.path()).empty());
}

TEST_CASE("when busy: skip, or replace what is queued") {
  TempDir dir;
  Gate gate;
  Filled two(2), three(3);
  SECTION("skip") {
    auto engine = MakeEngine({.max_in_flight = 1, .when_busy = WhenBusy::kSkip});
    REQUIRE(engine->Save(dir / "s", *gate.Provider()).ok());
    CHECK(engine->Save(dir / "t", two.state)->WaitDurable().code() == StatusCode::kCancelled);
    gate.open.set_value();
    REQUIRE(engine->WaitDurable().ok());
    CHECK(Names(dir.path()) == std::vector<std::string>{"s"});
  }
  SECTION("skip: who has waited for a save finds room for the next") {
    auto engine = MakeEngine({.max_in_flight = 1, .when_busy = WhenBusy::kSkip});
    for (int i = 0; i < 100; ++i) {
      INFO(i);
      REQUIRE(engine->Save(dir / "s", two.state)->WaitDurable().ok());
      REQUIRE(engine->Save(dir / "t", three.state).ok());
      REQUIRE(engine->WaitDurable().ok());
    }
    CHECK(FirstElement(dir / "t") == 3);
  }
  SECTION("wait") {
    auto engine = MakeEngine({.max_in_flight = 1});
    REQUIRE(engine->Save(dir / "s", *gate.Provider()).ok());
    auto blocked =
        std::async(std::launch::async, [&] { return engine->Save(dir / "t", two.state).ok(); });
    gate.open.set_value();
    CHECK(blocked.get());
    REQUIRE(engine->WaitDurable().ok());
    CHECK(FirstElement(dir / "t") == 2);
  }
}

TEST_CASE("what on_event throws ends neither the process nor the save") {
  TempDir dir;
  int heard = 0;
  EngineOptions options;
  options.on_event = [&heard](const Event&) {
    ++heard;
    throw std::runtime_error("from the callback");
  };
  auto engine = MakeEngine(options);
  const auto failing = MakeProvider([](Description& d) {
    ObjectSource source;
    source.write = [](Sink&) { return Status(StatusCode::kInternal, "cannot serialize"); };
    d.Object("o", source);
  });
  CHECK(engine->Save(dir / "s", *failing)->WaitDurable().code() == StatusCode::kInternal);
  CHECK(heard == 1);
  Filled two(2);
  CHECK(engine->Save(dir / "t", two.state)->WaitDurable().ok());
}

TEST_CASE("a callback's failure is the save's failure") {
  TempDir dir;
  auto engine = MakeEngine();
  const auto provider = MakeProvider([](Description& d) {
    ObjectSource source;
    source.write = [](Sink&) { return Status(StatusCode::kInternal, "cannot serialize"); };
    d.Object("o", source);
  });
  const Status status = engine->Save(dir / "s", *provider)->WaitDurable();
  CHECK(status.message() == "object 'o': cannot serialize");
  CHECK(status.path() == dir / "s");
  CHECK(Names(dir.path()).empty());
}

TEST_CASE("before_publish sees all read, runs once, and can still give the save up") {
  TempDir dir;
  auto engine = MakeEngine();
  Filled filled(1);
  for (const bool refuse : {false, true}) {
    const std::string path = dir / (refuse ? "refused" : "fine");
    int calls = 0;
    SaveOptions options;
    options.before_publish = [&]() -> Status {
      ++calls;
      CHECK_FALSE(std::filesystem::exists(path));
      return refuse ? Status(StatusCode::kFailedPrecondition, "it changed") : Status();
    };
    const auto handle = engine->Save(path, filled.state, options);
    REQUIRE(handle.ok());
    const Status status = handle->WaitDurable();
    CHECK(status.code() == (refuse ? StatusCode::kFailedPrecondition : StatusCode::kOk));
    CHECK(status.message() == (refuse ? "it changed" : ""));
    CHECK(calls == 1);
    CHECK(handle->progress().captured);
  }
  CHECK(Names(dir.path()) == std::vector<std::string>{"fine"});
}

TEST_CASE("a callback that throws fails its save and nothing else") {
  TempDir dir;
  auto engine = MakeEngine();
  const auto provider = MakeProvider([](Description& d) {
    ObjectSource source;
    source.write = [](Sink&) -> Status { throw std::bad_alloc(); };
    d.Object("o", source);
  });
  CHECK(engine->Save(dir / "s", *provider)->WaitDurable().code() == StatusCode::kOutOfMemory);
  Filled filled(1);
  CHECK(engine->Save(dir / "t", filled.state)->WaitDurable().ok());
  CHECK(Names(dir.path()) == std::vector<std::string>{"t"});
}

TEST_CASE("saves in flight do not starve each other of windows, however few there are") {
  TempDir dir;
  Filled tensors(1, 20'000);
  const std::string object(30'000, 'o');
  const auto both = MakeProvider([&](Description& d) {
    tensors.state.Describe(d);
    d.Object("o", {.bytes = object.data(), .size = object.size()});
  });
  for (const uint64_t windows : {2, 3, 4, 7, 16}) {
    for (const int in_flight : {2, 8}) {
      INFO(windows << " windows, " << in_flight << " saves");
      auto engine = Engine::Create({.pool_bytes = windows * 4096,
                                    .window_bytes = 4096,
                                    .workers = 2,
                                    .max_in_flight = in_flight})
                        .value();
      for (int i = 0; i < in_flight; ++i) {
        const bool with_object = i % 3 != 1;
        const StateProvider& provider =
            with_object ? *both : static_cast<const StateProvider&>(tensors.state);
        REQUIRE(engine->Save(dir / std::to_string(i), provider).ok());
      }
      REQUIRE(engine->WaitDurable().ok());
      CHECK(FirstElement(dir / "0") == 1);
    }
  }
}

TEST_CASE("options and names that would give a bad file are refused") {
  TempDir dir;
  Filled filled(1, 4);
  CHECK(SaveFile(dir / "s", filled.state, {.metadata_format = "\xff"}).code() ==
        StatusCode::kInvalidArgument);
  for (const char* key : {"dsckpt", "dsckpt.x", "\xff"}) {
    CHECK(SaveFile(dir / "s", filled.state, {.metadata = {{key, "x"}}}).code() ==
          StatusCode::kInvalidArgument);
  }
  CHECK(SaveFile(dir / "s", filled.state, {.metadata = {{"a", "x"}, {"a", "y"}}}).code() ==
        StatusCode::kInvalidArgument);
  CHECK(SaveFile(dir / "u", filled.state, {.metadata = {{"a", "x"}, {"format", "np"}}}).ok());
  filled.state.AddTensor("format",
                         std::span(filled.w));  // Tied; an alias of this name has no place.
  filled.state.AddTensor("a", std::span(filled.w));
  CHECK(SaveFile(dir / "s", filled.state, {.container = Container::kSafetensors}).code() ==
        StatusCode::kUnsupported);
  CHECK(SaveFile(dir / "t", filled.state).ok());
  CHECK(File::Open(dir / "t")->FindTensor("format").ok());
  CHECK(Names(dir.path()) == std::vector<std::string>{"t", "u"});
}

TEST_CASE("owners of a cancelled save are released when it is done") {
  TempDir dir;
  Gate gate;
  auto engine = MakeEngine();
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = memory;
  const auto save = engine
                        ->Save(dir / "s", *MakeProvider([&](Description& d) {
                                 ObjectSource source;
                                 source.write = [memory, opened = gate.opened](Sink&) {
                                   opened.wait();
                                   return Status();
                                 };
                                 d.Object("o", source);
                               }))
                        .value();
  memory.reset();
  save.Cancel();
  gate.open.set_value();
  CHECK(save.WaitDurable().code() == StatusCode::kCancelled);
  CHECK(watch.expired());
}

TEST_CASE("owners live until capture and no longer") {
  TempDir dir;
  Gate gate;
  auto engine = MakeEngine();
  auto memory = std::make_shared<std::vector<float>>(1'000'000, 5.0f);
  const std::weak_ptr<std::vector<float>> watch = memory;
  auto provider = MakeProvider([&](Description& d) {
    const int64_t shape[] = {1'000'000};
    d.Tensor("w", {.data = memory->data(),
                   .dtype = kF32,
                   .shape = shape,
                   .capture = Capture::kUntilFence,
                   .owner = memory});
  });
  const auto both = Combine({std::move(provider), gate.Provider()});
  const auto save = engine->Save(dir / "s", *both).value();
  memory.reset();
  CHECK(!watch.expired());  // The gate holds capture open.
  gate.open.set_value();
  REQUIRE(save.WaitCaptured().ok());
  while (!watch.expired()) std::this_thread::yield();  // Dropped just after waiters wake.
  REQUIRE(save.WaitDurable().ok());
  CHECK(FirstElement(dir / "s") == 5);
}

// AddressSanitizer's allocator, unlike libc's, may stay locked in a child that is forked while other
// threads allocate: the child would wait for ever.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a forked child leaves the parent's engine and save alone") {
  TempDir dir;
  Gate gate;
  auto engine = MakeEngine();
  const auto save = engine->Save(dir / "s", *gate.Provider()).value();
  const int status = InChild([&] {
    const bool inert = engine->Fence().code() == StatusCode::kFailedPrecondition &&
                       !engine->Save(dir / "t", Filled(1).state).ok();
    engine.reset();
    _exit(inert ? 7 : 1);
  });
  CHECK(WEXITSTATUS(status) == 7);
  gate.open.set_value();
  CHECK(save.WaitDurable().ok());
  CHECK(Names(dir.path()) == std::vector<std::string>{"s"});
}
#endif

TEST_CASE("options that cannot be meant are refused") {
  const EngineOptions rows[] = {
      {.window_bytes = 5000},
      {.pool_bytes = 4096},
      {.workers = -1},
      {.max_in_flight = 0},
  };
  for (const auto& row : rows) {
    CHECK(Engine::Create(row).status().code() == StatusCode::kInvalidArgument);
  }
}
