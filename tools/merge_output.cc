#include "tools/merge_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/output_directory.h"
#include "dsckpt/run_layout.h"
#include "tools/checkpoint_health.h"
#include "tools/model_index.h"
#include "tools/save.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {

namespace {

namespace fs = std::filesystem;

constexpr auto kPoll = std::chrono::milliseconds(50);

/// Sources are read while the file is written: threads wait for storage as much as they compute.
EngineOptions MergeEngine() {
  EngineOptions options;
  options.pool_bytes = 64 * kMiB;
  options.workers = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 4u, 8u));
  return options;
}

Status Filesystem(const std::error_code& error, const std::string& what, const fs::path& path) {
  return Status(StatusCode::kIoError, "cannot " + what + ": " + error.message())
      .WithErrno(error.value())
      .WithPath(path.string());
}

/// Without a slash behind it, which would leave no name. kIoError: there is no current directory.
Result<fs::path> Absolute(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  if (error) return Filesystem(error, "find the current directory", path);
  return whole.has_filename() ? whole : whole.parent_path();
}

Status Sync(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Some file systems cannot sync a directory.
  const bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
  const std::error_code error(errno, std::generic_category());
  if (fd >= 0) close(fd);
  return synced ? Status() : Filesystem(error, "sync", path);
}

std::string Name(const MergePlan& plan, const MergeTarget& target, size_t file) {
  return target.safetensors
             ? Format("model-{:05}-of-{:05}.safetensors", file + 1, plan.file_count())
             : DefaultShardName(static_cast<int>(file));
}

SaveOptions OptionsFor(const MergeInput& input, const MergeTarget& target) {
  SaveOptions options;
  input.metadata.ApplyTo(options);
  if (target.safetensors) options.container = Container::kSafetensors;
  return options;
}

MergeProvider ProviderFor(const MergeInput& input, const MergeTarget& target, size_t file) {
  const bool rest = file == 0 && !target.safetensors;
  return MergeProvider(input.checkpoint, input.plan, input.tree, file, rest, !target.safetensors,
                       input.verify, input.overflows);
}

Status WriteOneFile(Console& console, const MergeInput& input, const MergeTarget& target) {
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(MergeEngine()));
  const MergeProvider provider = ProviderFor(input, target, 0);
  return SaveWithProgress(console, *engine, target.path, provider, OptionsFor(input, target),
                          input.plan.total_bytes());
}

/// The name that the output gets may say what the input does not.
int64_t StepFor(const MergeInput& input, const fs::path& output) {
  if (const auto step = input.plan.choice().step) return *step;
  if (input.checkpoint.step() != kUnknownStep) return input.checkpoint.step();
  return StepInName(output.filename().string()).value_or(kUnknownStep);
}

/// A checkpoint directory: its manifest makes it appear whole.
Status WriteCheckpoint(Console& console, const MergeInput& input, const MergeTarget& target) {
  // Before engine and writer: a refused save may still read from those of its shards that began.
  std::vector<std::unique_ptr<MergeProvider>> providers;
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(MergeEngine()));
  DSCKPT_ASSIGN_OR_RETURN(const fs::path path, Absolute(target.path));
  CheckpointWriterOptions options;
  options.run_directory = path.parent_path().string();
  options.standalone = true;
  DSCKPT_ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Create(*engine, options));
  std::vector<ShardSource> shards;
  for (size_t file = 0; file < input.plan.file_count(); ++file) {
    providers.push_back(std::make_unique<MergeProvider>(ProviderFor(input, target, file)));
    shards.push_back({Name(input.plan, target, file), providers.back().get()});
  }
  Status status;
  std::atomic<bool> done = false;
  std::jthread saving([&] {
    const auto handle = writer->Save(StepFor(input, path), shards,
                                     {.name = path.filename().string(),
                                      .replace = target.force,
                                      .file = OptionsFor(input, target)});
    status = handle.ok() ? handle->WaitDurable() : handle.status();
    done = true;
  });
  {
    ProgressBar bar(console, SafeText(target.path));
    while (!done) {
      std::this_thread::sleep_for(kPoll);
      bar.Update(engine->statistics().captured_bytes, input.plan.total_bytes());
    }
  }
  saving.join();
  return status;
}

Status WriteHuggingFaceIndex(const MergeInput& input, const MergeTarget& target,
                             const fs::path& path) {
  std::string text =
      Format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n", input.plan.total_bytes());
  text += "  \"weight_map\": {";
  bool first = true;
  for (size_t file = 0; file < input.plan.file_count(); ++file) {
    for (uint32_t i = 0; i < input.checkpoint.tensor_count(); ++i) {
      // Of tied names a safetensors file holds the smallest; the others are in its metadata.
      if (!input.plan.chosen(file)[i] || input.plan.owner(i) != i) continue;
      text += Format("{}\n    {}: {}", first ? "" : ",", JsonQuoted(input.plan.name(i)),
                     JsonQuoted(Name(input.plan, target, file)));
      first = false;
    }
  }
  text += "\n  }\n}\n";
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return Sync(path);
  return Status(StatusCode::kIoError, "cannot write the index of the shards")
      .WithPath(path.string());
}

Status WriteHuggingFace(Console& console, const MergeInput& input, const MergeTarget& target) {
  // Before the engine: it is removed again when nothing writes into it any more.
  DSCKPT_ASSIGN_OR_RETURN(OutputDirectory output, OutputDirectory::Create(target.path));
  DSCKPT_ASSIGN_OR_RETURN(const auto engine, Engine::Create(MergeEngine()));
  const fs::path made = output.path();
  for (size_t file = 0; file < input.plan.file_count(); ++file) {
    const MergeProvider provider = ProviderFor(input, target, file);
    DSCKPT_RETURN_IF_ERROR(
        SaveWithProgress(console, *engine, (made / Name(input.plan, target, file)).string(),
                         provider, OptionsFor(input, target), input.plan.bytes(file)));
  }
  DSCKPT_RETURN_IF_ERROR(WriteHuggingFaceIndex(input, target, made / kModelIndexName));
  return output.Publish(target.force);
}

/// Whether `path`, as named or where its links lead, is the file or directory `output` or lies
/// anywhere in it. `seen`: directories that are known not to.
bool IsInside(const std::string& path, const struct stat& output, std::set<fs::path>& seen) {
  std::error_code unknown;  // Then the path is empty, and the other one decides.
  for (fs::path at :
       {fs::absolute(path, unknown).lexically_normal(), fs::canonical(path, unknown)}) {
    while (!at.empty() && seen.insert(at).second) {
      struct stat info {};
      if (stat(at.c_str(), &info) == 0 && info.st_dev == output.st_dev &&
          info.st_ino == output.st_ino) {
        return true;
      }
      at = at.parent_path();
    }
  }
  return false;
}

/// Something in the directory that no merge wrote, and that would go with the old output; empty:
/// nothing.
Result<std::string> ForeignEntry(const MergeTarget& target) {
  std::set<std::string, std::less<>> known;
  const auto old = target.safetensors ? Result<Checkpoint>(Checkpoint())
                                      : Checkpoint::Open(target.path, kAtOnce);
  for (uint32_t i = 0; old.ok() && old->valid() && i < old->shard_count(); ++i) {
    known.insert(std::string(old->shard(i).name));
  }
  const std::string_view mark = target.safetensors ? kModelIndexName : kManifestName;
  DSCKPT_ASSIGN_OR_RETURN(const auto names, EntriesOf(target.path));
  for (const std::string& name : names) {
    const bool ours = name == mark || (target.safetensors ? name.starts_with("model-") &&
                                                                name.ends_with(".safetensors")
                                                          : IsDefaultShardName(name));
    if (!ours && known.count(name) == 0) return name;
  }
  return std::string();
}

/// A directory that stands where the output is to go, and is to give way.
Status CheckReplaced(const MergeTarget& target) {
  const auto refuse = [&](const std::string& why) {
    return Status(StatusCode::kAlreadyExists, target.path + " " + why).WithPath(target.path);
  };
  const fs::path mark =
      fs::path(target.path) / (target.safetensors ? kModelIndexName : kManifestName);
  std::error_code error;
  const bool earlier = fs::exists(mark, error);
  if (error) return Filesystem(error, "look at", mark);
  if (!earlier) {
    return refuse("is a directory without " + mark.filename().string() +
                  ", no earlier output of this kind: not replaced");
  }
  DSCKPT_ASSIGN_OR_RETURN(const std::string foreign, ForeignEntry(target));
  if (foreign.empty()) return Status();
  return refuse("also holds '" + foreign +
                "', which no merge wrote: not replaced; move that away, or name another output");
}

}  // namespace

Status CheckMergeTarget(const MergeTarget& target, const std::vector<std::string>& inputs) {
  const auto refuse = [&](StatusCode code, const std::string& why) {
    return Status(code, target.path + " " + why).WithPath(target.path);
  };
  struct stat output {};
  if (stat(target.path.c_str(), &output) != 0) {
    std::error_code unknown;
    DSCKPT_ASSIGN_OR_RETURN(const fs::path whole, Absolute(target.path));
    const fs::path parent = whole.parent_path();
    if (fs::is_directory(parent, unknown)) return Status();
    return Status(StatusCode::kNotFound, "cannot write '" + target.path + "': the directory '" +
                                             parent.string() + "' does not exist; create it first")
        .WithPath(target.path);
  }
  std::set<fs::path> seen;
  for (const std::string& input : inputs) {
    if (IsInside(input, output, seen)) {
      return refuse(StatusCode::kInvalidArgument,
                    "is the input " + input +
                        " or holds it: an input is never overwritten; name "
                        "another output");
    }
  }
  if (S_ISDIR(output.st_mode) != target.directory) {
    return refuse(StatusCode::kInvalidArgument,
                  target.directory ? "is no directory: name another output"
                                   : "is a directory: name a file (or give --shards)");
  }
  if (!target.directory && !S_ISREG(output.st_mode)) {
    return refuse(StatusCode::kInvalidArgument, "is no regular file: name another output");
  }
  if (!target.force) return refuse(StatusCode::kAlreadyExists, "exists: --force replaces it");
  return target.directory ? CheckReplaced(target) : Status();
}

Status WriteMerged(Console& console, const MergeInput& input, const MergeTarget& target) {
  if (!target.directory) return WriteOneFile(console, input, target);
  return target.safetensors ? WriteHuggingFace(console, input, target)
                            : WriteCheckpoint(console, input, target);
}

}  // namespace dsckpt::tools
