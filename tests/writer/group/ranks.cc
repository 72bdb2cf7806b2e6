#include "tests/writer/group/ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dsckpt/file.h"
#include "dsckpt/piece.h"
#include "run/manifest_file.h"
#include "run/run_layout.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "writer/group/publish.h"
#include "writer/group/report.h"
#include "writer/group/retention.h"

using namespace dsckpt;

namespace {

// Of this process; set before its engine starts.
std::string hook_step;
std::atomic<int> hook_count{0};
int hook_signal = 0;

void AtStep(const char* step) {
  if (hook_step == step && hook_count-- == 0) raise(hook_signal);
}

void SignalAt(const std::string& step, int count, int signal) {
  hook_step = step;
  hook_count = count;
  hook_signal = signal;
  SetCheckpointStepHook(AtStep);
}

void Tell(int pipe, const Status& status) {
  const std::string text = std::to_string(static_cast<int>(status.code())) + " " + status.message();
  static_cast<void>(write(pipe, text.data(), text.size()) == 0);
}

}  // namespace

void KillAt(const std::string& step, int count) { SignalAt(step, count, SIGKILL); }
void StopAt(const std::string& step, int count) { SignalAt(step, count, SIGSTOP); }

Ranks::Ranks(int size, std::function<Status(int rank)> body) {
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      close(ends[0]);
      Tell(ends[1], body(rank));
      _exit(0);
    }
    close(ends[1]);
    processes_.push_back({pid, ends[0], false});
  }
}

Ranks::~Ranks() {
  for (Process& process : processes_) {
    if (!process.reaped) {
      kill(process.pid, SIGKILL);
      waitpid(process.pid, nullptr, 0);
    }
    close(process.pipe);
  }
}

void Ranks::Signal(int rank, int signal) {
  kill(processes_[static_cast<size_t>(rank)].pid, signal);
}

void Ranks::AwaitStopped(int rank) {
  int status = 0;
  waitpid(processes_[static_cast<size_t>(rank)].pid, &status, WUNTRACED);
  REQUIRE(WIFSTOPPED(status));
}

Ended Ranks::Wait(int rank) {
  Process& process = processes_[static_cast<size_t>(rank)];
  std::string text;
  while (true) {
    pollfd wanted{process.pipe, POLLIN, 0};
    const int ready = poll(&wanted, 1, 60'000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      FAIL_CHECK("rank " << rank << " hangs");
      kill(process.pid, SIGKILL);
    }
    char buffer[4096];
    const ssize_t n = read(process.pipe, buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(process.pid, &status, 0);
  process.reaped = true;
  Ended ended;
  ended.killed = !WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty();
  if (!ended.killed) {
    ended.code = static_cast<StatusCode>(std::stoi(text));
    ended.message = text.substr(text.find(' ') + 1);
  }
  return ended;
}

std::vector<Ended> Ranks::WaitAll() {
  std::vector<Ended> all;
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    all.push_back(Wait(static_cast<int>(rank)));
  }
  return all;
}

std::unique_ptr<Engine> SmallEngine() {
  return Engine::Create({.pool_bytes = kMiB, .workers = 1, .io = IoBackend::kThreads}).value();
}

Status RankRun::Start() {
  engine = SmallEngine();
  if (!coordinate.empty()) {
    DSCKPT_ASSIGN_OR_RETURN(
        coordinator,
        JoinSharedDirectory(
            {.path = coordinate, .rank = rank, .size = size, .job = job, .timeout = timeout}));
  }
  CheckpointStep("joined");
  DSCKPT_ASSIGN_OR_RETURN(writer, CheckpointWriter::Create(*engine, {.run_directory = run,
                                                                     .coordinator = coordinator,
                                                                     .timeout = timeout,
                                                                     .retention = retention}));
  CheckpointStep("created");
  return Status();
}

Status RankRun::Save(int64_t step, float value, const CheckpointSaveOptions& options) {
  const Part part(rank, size, value);
  DSCKPT_ASSIGN_OR_RETURN(const auto handle, writer->Save(step, part.state(), options));
  static_cast<void>(handle.WaitCaptured().ok());  // Says less than the next.
  return handle.WaitDurable();
}

Part::Part(int rank, int size, float value, int64_t rows, int tensors) {
  const int64_t shape[] = {rows, 16};
  const auto box = SplitBox(shape, 0, rank, size);
  const int64_t mine = box[0].end - box[0].begin;
  elements_.assign(static_cast<size_t>(mine * 16 * tensors), value);
  for (int i = 0; i < tensors; ++i) {
    const std::string name = i == 0 ? "w" : "w" + std::to_string(i);
    const Piece piece{.logical_name = name, .logical_shape = shape, .box = box};
    state_.AddTensor(name, elements_.data() + i * mine * 16, kF32, {mine, 16},
                     {.pieces = std::span(&piece, 1)});
  }
}

std::vector<std::string> VisibleNames(const std::string& run) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (run::CheckCheckpointName(name, "").ok()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> LeftOvers(const std::string& run) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    std::string name = entry.path().filename().string();
    if (run::ParseMarkedEntry(name)) names.push_back(name);
    if (!entry.is_directory()) continue;
    for (const auto& inner : std::filesystem::directory_iterator(entry.path())) {
      const std::string below = inner.path().filename().string();
      if (run::ParseMarkedEntry(below)) names.push_back(name + "/" + below);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string WhyIncomplete(const std::string& directory) {
  const auto manifest = run::ReadManifest(directory);
  if (!manifest.ok()) return manifest.status().ToString();
  for (uint32_t i = 0; i < manifest->view.shard_count(); ++i) {
    const std::string name(manifest->view.shard_names[i]);
    const auto file = File::Open(directory + "/" + name);
    if (!file.ok()) return file.status().ToString();
    const auto again =
        SummaryOfFile(directory + "/" + name, name, static_cast<int>(manifest->view.shard_rank[i]));
    if (!again.ok()) return again.status().ToString();
    if (again->manifest.shard_index_xxh3_64[0] != manifest->view.shard_index_xxh3_64[i] ||
        again->manifest.shard_file_bytes[0] != manifest->view.shard_file_bytes[i]) {
      return name + " is not the shard of the manifest";
    }
  }
  return "";
}

std::vector<float> ShardValues(const std::string& directory) {
  std::vector<float> values;
  const auto manifest = run::ReadManifest(directory);
  REQUIRE(manifest.ok());
  for (const std::string_view name : manifest->view.shard_names) {
    const auto file = File::Open(directory + "/" + std::string(name)).value();
    values.push_back(file.View(file.tensor(0).name)->As<float>()->front());
  }
  return values;
}

std::string Latest(const std::string& run) {
  return std::filesystem::exists(run + "/latest") ? ReadWholeFile(run + "/latest") : "";
}
