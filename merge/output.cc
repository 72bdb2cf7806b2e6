#include "merge/output.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/guarded.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/output_directory.h"
#include "dsckpt/run_layout.h"
#include "io/directory.h"
#include "merge/model_index.h"
#include "merge/paths.h"

namespace dsckpt::merge {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);

/// Sources are read while the file is written: threads wait for storage as much as they compute.
EngineOptions MergeEngine() {
  EngineOptions options;
  options.pool_bytes = 64 * kMiB;
  options.workers = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 4u, 8u));
  return options;
}

bool IsSafetensors(const MergeOptions& options) {
  return options.container == Container::kSafetensors;
}

std::string InFiveDigits(size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

std::string FileName(const MergeInput& input, size_t file) {
  if (!IsSafetensors(input.options)) return DefaultShardName(static_cast<int>(file));
  return "model-" + InFiveDigits(file + 1) + "-of-" + InFiveDigits(input.plan.file_count()) +
         ".safetensors";
}

SaveOptions OptionsFor(const MergeInput& input) {
  SaveOptions options;
  input.metadata.ApplyTo(options);
  options.container = input.options.container;
  return options;
}

/// Runs `save`, which returns when its output is durable, on a thread of its own. Meanwhile the
/// calling thread reports what `engine` has read, and asks whether to stop.
Status Watch(MergeInput& input, const Engine& engine, const std::function<Status()>& save) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Status status;
  std::jthread saving([&] {
    Status ended = Guarded(save);
    const std::lock_guard lock(mutex);
    status = std::move(ended);
    done = true;
    changed.notify_all();
  });
  Status stopped;
  const auto poll = [&]() -> Status {
    if (input.options.progress) {
      input.options.progress(engine.statistics().captured_bytes, input.plan.total_bytes());
    }
    return input.cancellation.Check();
  };
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, kPoll, [&] { return done; })) {
    if (!stopped.ok()) continue;
    lock.unlock();
    stopped = Guarded(poll);
    if (!stopped.ok()) input.cancellation.noted = true;
    lock.lock();
  }
  // What was published before it could be stopped is there.
  const bool published = status.ok() || status.code() == StatusCode::kDurabilityUnknown;
  return published || stopped.ok() ? status : stopped;
}

Status WriteOneFile(MergeInput& input, const std::string& output) {
  // Before the engine, whose threads may still read from it when a save has failed.
  const MergeProvider provider(input, 0);
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(MergeEngine()));
  return Watch(input, *engine, [&]() -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const SaveHandle handle,
                            engine->Save(output, provider, OptionsFor(input)));
    return handle.WaitDurable();
  });
}

/// The name that the output gets may say what the input does not.
int64_t StepFor(const MergeInput& input, const std::string& name) {
  for (const AttributeChange& change : input.options.attributes) {
    const auto* const step = change.value ? std::get_if<int64_t>(&*change.value) : nullptr;
    if (change.name == "step" && step != nullptr) return *step;
  }
  if (const auto step = input.plan.choice().step) return *step;
  if (input.checkpoint.step() != kUnknownStep) return input.checkpoint.step();
  return StepInName(name).value_or(kUnknownStep);
}

/// One for each output file; made before the engine, as above.
std::vector<std::unique_ptr<MergeProvider>> ProvidersOf(MergeInput& input) {
  std::vector<std::unique_ptr<MergeProvider>> providers;
  for (size_t file = 0; file < input.plan.file_count(); ++file) {
    providers.push_back(std::make_unique<MergeProvider>(input, file));
  }
  return providers;
}

/// A checkpoint directory: its manifest makes it appear whole.
Status WriteCheckpoint(MergeInput& input, const std::string& output) {
  const auto providers = ProvidersOf(input);
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(MergeEngine()));
  DSCKPT_ASSIGN_OR_RETURN(const std::string path, AbsolutePath(output));
  const std::string name(io::BaseName(path));
  CheckpointWriterOptions options;
  options.run_directory = io::ParentOf(path);
  options.standalone = true;
  DSCKPT_ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Create(*engine, options));
  std::vector<ShardSource> shards;
  for (size_t file = 0; file < providers.size(); ++file) {
    shards.push_back({FileName(input, file), providers[file].get()});
  }
  return Watch(input, *engine, [&]() -> Status {
    DSCKPT_ASSIGN_OR_RETURN(
        const auto handle,
        writer->Save(StepFor(input, name), shards,
                     {.name = name, .replace = input.options.replace, .file = OptionsFor(input)}));
    return handle.WaitDurable();
  });
}

Status WriteModelIndex(const MergeInput& input, const std::string& path) {
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = input.plan.total_bytes();
  auto& map = index["weight_map"] = nlohmann::ordered_json::object();
  // Not by key, each of which would be looked for among all others.
  auto& entries = map.get_ref<nlohmann::ordered_json::object_t&>();
  for (size_t file = 0; file < input.plan.file_count(); ++file) {
    const std::string name = FileName(input, file);
    for (uint32_t i = 0; i < input.checkpoint.tensor_count(); ++i) {
      // Of tied names a safetensors file holds the smallest; the others are in its metadata.
      if (!input.plan.chosen(file)[i] || input.plan.owner(i) != i) continue;
      entries.emplace_back(input.plan.name(i), name);
    }
  }
  using Errors = nlohmann::ordered_json::error_handler_t;
  const std::string text = index.dump(2, ' ', /*ensure_ascii=*/false, Errors::replace) + "\n";
  return io::WriteSmallFile(path, std::as_bytes(std::span(text)));
}

Status WriteModel(MergeInput& input, const std::string& output) {
  // Before the engine: it is removed again when nothing writes into it any more.
  DSCKPT_ASSIGN_OR_RETURN(OutputDirectory directory, OutputDirectory::Create(output));
  const auto providers = ProvidersOf(input);
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(MergeEngine()));
  const Status written = Watch(input, *engine, [&]() -> Status {
    for (size_t file = 0; file < providers.size(); ++file) {
      const std::string path = directory.path() + "/" + FileName(input, file);
      DSCKPT_ASSIGN_OR_RETURN(const SaveHandle handle,
                              engine->Save(path, *providers[file], OptionsFor(input)));
      DSCKPT_RETURN_IF_ERROR(handle.WaitDurable());
    }
    return WriteModelIndex(input, directory.path() + "/" + kModelIndexName);
  });
  DSCKPT_RETURN_IF_ERROR(written);
  return directory.Publish(input.options.replace);
}

/// Whether `path`, as named or where its links lead, is the file or directory `output` or lies
/// anywhere in it. `seen`: directories that are known not to.
bool IsInside(const std::string& path, const struct stat& output, std::set<std::string>& seen) {
  const auto whole = AbsolutePath(path);  // If it is not known the other one decides.
  for (std::string at : {whole.ok() ? *whole : std::string(), CanonicalPath(path)}) {
    while (!at.empty() && seen.insert(at).second) {
      struct stat info {};
      if (stat(at.c_str(), &info) == 0 && info.st_dev == output.st_dev &&
          info.st_ino == output.st_ino) {
        return true;
      }
      at = io::ParentOf(at);
    }
  }
  return false;
}

/// Something in the directory that no merge wrote, and that would go with the old output; empty:
/// nothing.
Result<std::string> ForeignEntry(const std::string& output, bool safetensors) {
  std::set<std::string, std::less<>> known;
  const auto old =
      safetensors ? Result<Checkpoint>(Checkpoint()) : Checkpoint::Open(output, kAtOnce);
  for (uint32_t i = 0; old.ok() && old->valid() && i < old->shard_count(); ++i) {
    known.insert(std::string(old->shard(i).name));
  }
  const std::string_view mark = safetensors ? kModelIndexName : kManifestName;
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(output));
  for (const std::string& name : names) {
    const bool ours =
        name == mark || (safetensors ? name.starts_with("model-") && name.ends_with(".safetensors")
                                     : IsDefaultShardName(name) || IsManifestPartName(name));
    if (!ours && known.count(name) == 0) return name;
  }
  return std::string();
}

Status Refuse(StatusCode code, const std::string& output, const std::string& why) {
  return Status(code, output + " " + why).WithPath(output);
}

/// A directory that stands where the output is to go, and is to give way.
Status CheckReplaced(const std::string& output, bool safetensors) {
  const std::string mark(safetensors ? kModelIndexName : kManifestName);
  if (!FileExists(output + "/" + mark)) {
    return Refuse(
        StatusCode::kAlreadyExists, output,
        "is a directory without " + mark + ", no earlier output of this kind: not replaced");
  }
  DSCKPT_ASSIGN_OR_RETURN(const std::string foreign, ForeignEntry(output, safetensors));
  if (foreign.empty()) return Status();
  return Refuse(
      StatusCode::kAlreadyExists, output,
      "also holds '" + foreign +
          "', which no merge wrote: not replaced; move that away, or name another output");
}

/// The file `latest` of a run says where training goes on: no checkpoint can bear its name.
Status CheckNoLatest(const std::string& path) {
  if (io::BaseName(path) != kLatestName) return Status();
  const auto run = RunDirectory::Open(io::ParentOf(path));
  if (!run.ok() || (run->checkpoints().empty() && !run->latest_name())) return Status();
  return Refuse(StatusCode::kInvalidArgument, path,
                "is the file that names the latest checkpoint of a run: name another output");
}

}  // namespace

Status CheckOutput(const std::string& output, const MergeOptions& options,
                   const std::vector<std::string>& inputs) {
  DSCKPT_ASSIGN_OR_RETURN(const std::string whole, AbsolutePath(output));
  DSCKPT_RETURN_IF_ERROR(CheckNoLatest(whole));
  struct stat there {};
  if (stat(output.c_str(), &there) != 0) {
    const std::string parent = io::ParentOf(whole);
    if (IsDirectory(parent)) return Status();
    return Status(StatusCode::kNotFound, "cannot write '" + output + "': the directory '" + parent +
                                             "' does not exist; create it first")
        .WithPath(output);
  }
  const bool directory = options.makes_directory();
  std::set<std::string> seen;
  for (const std::string& input : inputs) {
    if (!IsInside(input, there, seen)) continue;
    return Refuse(StatusCode::kInvalidArgument, output,
                  "is the input " + input +
                      " or holds it: an input is never overwritten; name another output");
  }
  if (S_ISDIR(there.st_mode) != directory) {
    return Refuse(StatusCode::kInvalidArgument, output,
                  directory ? "is no directory: name another output"
                            : "is a directory: name a file, or ask for several files");
  }
  if (!directory && !S_ISREG(there.st_mode)) {
    return Refuse(StatusCode::kInvalidArgument, output, "is no regular file: name another output");
  }
  if (!options.replace) {
    return Refuse(StatusCode::kAlreadyExists, output,
                  "exists, and it was not asked for that it is replaced");
  }
  return directory ? CheckReplaced(output, IsSafetensors(options)) : Status();
}

Status WriteOutput(MergeInput& input, const std::string& output) {
  if (!input.options.makes_directory()) return WriteOneFile(input, output);
  return IsSafetensors(input.options) ? WriteModel(input, output) : WriteCheckpoint(input, output);
}

}  // namespace dsckpt::merge
