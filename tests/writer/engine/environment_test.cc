// Saves under what real machines impose: small memlock, seccomp, file size limits, few descriptors.
// Each runs in a child process, because the limits cannot be taken back.

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "dsckpt/verify.h"
#include "tests/support/catch.h"
#include "tests/support/io_test_util.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

/// What a child saw: the save's outcome and its fall-back events, as one line of text.
std::string SaveInChild(const std::string& path, const StateProvider& state, EngineOptions options,
                        const std::function<bool()>& restrict_process) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string seen = "cannot restrict";
    if (restrict_process()) {
      int events = 0;
      options.on_event = [&](const Event& event) {
        events += event.kind == Event::Kind::kFallback;
      };
      const Status status = SaveFile(path, state, {}, options);
      seen = std::string(StatusCodeName(status.code())) + " errno " +
             std::to_string(status.error_number()) + " events " + std::to_string(events);
    }
    static_cast<void>(write(ends[1], seen.data(), seen.size()) == 0);
    _exit(0);
  }
  close(ends[1]);
  std::string seen(200, '\0');
  const ssize_t got = read(ends[0], seen.data(), seen.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  seen.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return seen;
}

struct Megabyte {
  Megabyte() { state.AddTensor("w", std::span(w)); }
  std::vector<float> w = std::vector<float>(300'000, 1.5f);
  State state;
};

bool DropToNobody() { return setgid(65534) == 0 && setuid(65534) == 0 && geteuid() == 65534; }

/// Makes io_uring_setup (425 on every architecture) fail with `error`.
bool ForbidRing(int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 425, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{.len = sizeof(code) / sizeof(code[0]), .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE("C22 a memlock limit of 64 KiB without privileges") {
  TempDir dir;
  Megabyte megabyte;
  REQUIRE(SaveFile(dir / "plain", megabyte.state).ok());
  chmod(dir.path().c_str(), 0777);
  const std::string seen = SaveInChild(dir / "s", megabyte.state, {.pool_bytes = 8 * kMiB}, [] {
    const rlimit limit{64 * 1024, 64 * 1024};
    return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && DropToNobody();
  });
  if (seen == "cannot restrict") {
    WARN("skipped: needs root to become another user");
    return;
  }
  CHECK(seen == "Ok errno 0 events 1");
  CHECK((ReadWholeFile(dir / "s") == ReadWholeFile(dir / "plain")));
}

TEST_CASE("C23 a seccomp filter that forbids io_uring") {
  TempDir dir;
  Megabyte megabyte;
  REQUIRE(SaveFile(dir / "plain", megabyte.state).ok());
  for (const int error : {EPERM, ENOSYS}) {
    INFO(error);
    const auto restrict_process = [error] { return ForbidRing(error); };
    CHECK(SaveInChild(dir / "s", megabyte.state, {.pool_bytes = 8 * kMiB}, restrict_process) ==
          "Ok errno 0 events 1");
    CHECK((ReadWholeFile(dir / "s") == ReadWholeFile(dir / "plain")));
    CHECK(SaveInChild(dir / "t", megabyte.state, {.pool_bytes = 8 * kMiB, .io = IoBackend::kUring},
                      restrict_process) ==
          "Unsupported errno " + std::to_string(error) + " events 0");
  }
  CHECK(Names(dir.path()) == std::vector<std::string>{"plain", "s"});
}

TEST_CASE("C25 a file size limit of 7 MiB") {
  TempDir dir;
  std::vector<float> w(3'000'000, 1.0f);
  State state;
  state.AddTensor("w", std::span(w));
  REQUIRE(SaveFile(dir / "s", Megabyte().state).ok());
  const std::string before = ReadWholeFile(dir / "s");
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kThreads}) {
    CHECK(SaveInChild(dir / "s", state,
                      {.pool_bytes = 6 * kMiB, .window_bytes = 3 * kMiB, .io = backend}, [] {
                        const rlimit limit{7 * kMiB, 7 * kMiB};
                        signal(SIGXFSZ, SIG_IGN);
                        return setrlimit(RLIMIT_FSIZE, &limit) == 0;
                      }) == "NoSpace errno " + std::to_string(EFBIG) + " events 0");
    CHECK((ReadWholeFile(dir / "s") == before));
    CHECK(Names(dir.path()) == std::vector<std::string>{"s"});
  }
}

TEST_CASE("C50 100,000 tensors under 64 descriptors, in a handful of writes") {
  TempDir dir;
  std::vector<uint16_t> elements(400'000, 0x3F80);
  State state;
  for (int i = 0; i < 100'000; ++i) {
    state.AddTensor("t" + std::to_string(i), elements.data() + 4 * i, kBF16, {4});
  }
  CHECK(SaveInChild(dir / "s", state, {.pool_bytes = 64 * kMiB}, [] {
          const rlimit limit{64, 64};
          return setrlimit(RLIMIT_NOFILE, &limit) == 0;
        }) == "Ok errno 0 events 0");
  const auto report = Verify(dir / "s");
  REQUIRE(report.ok());
  CHECK(report->ok);
  auto engine = Engine::Create({.pool_bytes = 64 * kMiB}).value();
  REQUIRE(engine->Save(dir / "s", state)->WaitDurable().ok());
  CHECK(engine->statistics().write_calls <= 10);
}

TEST_CASE("C47 a hostile pickle is bytes, whoever reads it") {
  TempDir dir;
  // Protocol 0 pickle that would call os.system("touch <marker>").
  const std::string marker = dir / "X";
  const std::string pickle = "cos\nsystem\n(S'touch " + marker + "'\ntR.";
  const auto provider = MakeProvider([&](Description& d) {
    d.Object("optimizer", {.media_type = "application/x-python-pickle",
                           .bytes = pickle.data(),
                           .size = pickle.size()});
  });
  REQUIRE(SaveFile(dir / "s", *provider).ok());
  const auto file = File::Open(dir / "s");
  REQUIRE(file.ok());
  CHECK(file->object(0).media_type == "application/x-python-pickle");
  const auto bytes = file->ReadObject("optimizer").value();
  CHECK(AsString(bytes) == pickle);
  CHECK(Verify(dir / "s", {.decode = true})->ok);
  CHECK(Names(dir.path()) == std::vector<std::string>{"s"});
}

TEST_CASE("C02 empty tensors keep their shapes and share nothing") {
  TempDir dir;
  float one = 1;
  float unused[8] = {};
  State state;
  state.AddTensor("0", static_cast<void*>(unused), kF32, {0});
  state.AddTensor("2x0", static_cast<void*>(unused), kF32, {2, 0});
  state.AddTensor("0x8", static_cast<void*>(nullptr), kF32, {0, 8});
  const bool only_empty = GENERATE(true, false);
  if (!only_empty) state.AddTensor("one", static_cast<void*>(&one), kF32, {1});
  REQUIRE(SaveFile(dir / "s", state).ok());
  const auto file = File::Open(dir / "s").value();
  CHECK(file.tensor_count() == (only_empty ? 3u : 4u));
  CHECK(file.alias_count() == 0);
  const auto shape = [&](const char* name) {
    const auto info = file.FindTensor(name).value();
    return std::vector<int64_t>(info.shape.begin(), info.shape.end());
  };
  CHECK(shape("2x0") == std::vector<int64_t>{2, 0});
  CHECK(shape("0x8") == std::vector<int64_t>{0, 8});
  CHECK(file.View("0x8")->bytes().empty());
  CHECK(Verify(dir / "s")->ok);
}

TEST_CASE("C25 a tensor above 2 GiB, larger than one write may be", "[slow]") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  WARN("skipped: takes minutes under a sanitizer");
  return;
#endif
  TempDir dir;
  const uint64_t bytes = 2 * kGiB + 64 * kMiB;
  // Untouched private pages read as zeros and take no memory.
  void* zeros = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(zeros != MAP_FAILED);
  State state;
  const int64_t shape[] = {static_cast<int64_t>(bytes)};
  state.AddConstTensor("big", zeros, kU8, shape);
  const Status status = SaveFile(dir / "s", state, {}, {.pool_bytes = 64 * kMiB});
  INFO(status.ToString());
  REQUIRE(status.ok());
  const auto report = Verify(dir / "s");
  REQUIRE(report.ok());
  CHECK(report->ok);
  CHECK(report->checked_bytes > bytes);
  munmap(zeros, bytes);
}
