#include "tools/save.h"

#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

// A small file needs no large pool, which takes its time to set up.
constexpr uint64_t kSmallestPool = 8 * kMiB;
constexpr uint64_t kLargestPool = 128 * kMiB;
constexpr auto kPoll = std::chrono::milliseconds(50);

// A save on a thread of its own, because Save() may block in its capture of small tensors and the
// caller has a bar to draw and signals to watch.
class BackgroundSave {
 public:
  BackgroundSave(Engine& engine, const std::string& output, const StateProvider& provider,
                 const SaveOptions& options)
      : thread_([=, this, &engine, &provider] { Run(engine, output, provider, options); }) {}
  ~BackgroundSave() { thread_.join(); }

  /// Waits a moment. True when the save has ended.
  bool Poll() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPoll, [this] { return done_; });
  }
  Progress progress() {
    std::lock_guard lock(mutex_);
    return handle_.progress();
  }
  void Cancel() {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    handle_.Cancel();
  }
  const Status& status() const { return status_; }

 private:
  void Run(Engine& engine, const std::string& output, const StateProvider& provider,
           const SaveOptions& options) {
    Result<SaveHandle> handle = engine.Save(output, provider, options);
    Status status = handle.status();
    if (handle.ok()) {
      {
        std::lock_guard lock(mutex_);
        handle_ = *handle;
        if (cancelled_) handle_.Cancel();
      }
      status = handle->WaitDurable();
    }
    std::lock_guard lock(mutex_);
    status_ = std::move(status);
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  SaveHandle handle_;
  Status status_;
  bool done_ = false;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace

void AddOutput(CommandLine& line, OutputOptions& options, const char* output_help) {
  line.Add("-o,--output", options.output, output_help).Required().Placeholder("OUT");
  line.AddFlag("--force", options.force, "Replace OUT if it exists");
}

void AddOutputOptions(CommandLine& line, OutputOptions& options, const char* input_help) {
  line.Add("FILE", options.input, input_help).Required().Placeholder(" ");
  AddOutput(line, options, "The file to write (required)");
}

Status CheckOutput(const OutputOptions& options) {
  struct stat input {
  }, output{};
  if (stat(options.output.c_str(), &output) != 0) {
    // A missing directory or the like is the save's to report; a dangling link is followed by it.
    return {};
  }
  if (stat(options.input.c_str(), &input) == 0 && input.st_dev == output.st_dev &&
      input.st_ino == output.st_ino) {
    return Status(StatusCode::kInvalidArgument,
                  Format("{} is the input {} itself: an input is never overwritten; name "
                         "another output",
                         options.output, options.input))
        .WithPath(options.output);
  }
  if (!S_ISREG(output.st_mode)) {
    return Status(StatusCode::kInvalidArgument,
                  options.output + " is not a regular file: name another output")
        .WithPath(options.output);
  }
  if (!options.force) {
    return Status(StatusCode::kAlreadyExists, options.output + " exists: --force replaces it")
        .WithPath(options.output);
  }
  return {};
}

Status SaveWithProgress(Console& console, const std::string& output, const StateProvider& provider,
                        const SaveOptions& options, uint64_t bytes) {
  EngineOptions engine_options;
  engine_options.pool_bytes = std::clamp(bytes, kSmallestPool, kLargestPool);
  auto engine = Engine::Create(std::move(engine_options));
  if (!engine.ok()) return engine.status();
  ProgressBar bar(console, SafeText(output));
  BackgroundSave save(**engine, output, provider, options);
  for (bool cancelled = false; !save.Poll();) {
    if (!cancelled && InterruptGuard::signal() != 0) {
      save.Cancel();
      cancelled = true;
    }
    // Source bytes, because of encoded tensors nobody knows the stored size; storage is at most one
    // pool behind.
    bar.Update(save.progress().captured_bytes, bytes);
  }
  return save.status();
}

int FailOutput(Console& console, const OutputOptions& options, const Status& status) {
  const int code = console.Fail(status);
  if (status.code() != StatusCode::kDurabilityUnknown) {
    struct stat output {};
    const bool exists = stat(options.output.c_str(), &output) == 0;
    console.Note(Format("{} {}", options.output, exists ? "is as it was" : "was not written"));
  }
  const int signal = InterruptGuard::signal();
  return status.code() == StatusCode::kCancelled && signal != 0 ? 128 + signal : code;
}

uint64_t FileBytes(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
}

}  // namespace dsckpt::tools
