#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "dsckpt/checkpoint.h"
#include "format/manifest.h"
#include "format/names.h"
#include "io/directory.h"

namespace dsckpt {

namespace {

constexpr uint64_t kMaxLatestBytes = 4096;

const CheckpointOptions kAtOnce{.file = {.map = false}, .retry = std::chrono::milliseconds(0)};

/// All shards stand with the sizes that the manifest gives.
Status CheckShardSizes(const Checkpoint& checkpoint) {
  if (!checkpoint.has_manifest()) return Status();
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    const ShardInfo shard = checkpoint.shard(i);
    const std::string path = checkpoint.path() + "/" + std::string(shard.name);
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (!error && bytes == shard.file_bytes) continue;
    return Status(StatusCode::kIncomplete,
                  error ? "the shard of rank " + std::to_string(shard.rank) + " is missing"
                        : "the shard should have " + std::to_string(shard.file_bytes) +
                              " bytes but has " + std::to_string(bytes))
        .WithPath(path);
  }
  return Status();
}

Result<RunEntry> Examine(const std::string& directory, const std::string& name) {
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                          Checkpoint::Open(directory + "/" + name, kAtOnce));
  DSCKPT_RETURN_IF_ERROR(CheckShardSizes(checkpoint));
  if (!checkpoint.has_manifest()) {
    DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint.OpenShard(0));
    if (file.format() != FileFormat::kDsckpt) {
      return Status(StatusCode::kNotCheckpoint, "a plain safetensors file");
    }
  }
  RunEntry entry{name, checkpoint.step(), 0, checkpoint.shard_count()};
  for (uint32_t i = 0; i < entry.shards; ++i) entry.bytes += checkpoint.shard(i).file_bytes;
  return entry;
}

bool Contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

/// What only a commit leaves behind, by its name; null: something else.
const char* LeftOver(const std::string& name) {
  if (Contains(name, ".incomplete-")) return "an attempt that was not completed";
  if (Contains(name, ".replaced-")) return "what a newer checkpoint of this name replaced";
  if (Contains(name, ".removed-")) return "about to be removed";
  return nullptr;
}

std::string WhyNot(const std::string& name, const Status& status) {
  if (status.code() != StatusCode::kIncomplete) return status.message();
  if (status.path().ends_with("/" + name)) return "a directory without a manifest";
  return "incomplete: " + status.path() + ": " + status.message();
}

/// `latest` holds a bare name and a newline; anything else counts as absent.
std::optional<std::string> ReadLatest(const std::string& directory) {
  const auto bytes = io::ReadSmallFile(directory + "/latest", kMaxLatestBytes);
  if (!bytes.ok()) return std::nullopt;
  std::string name(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  if (name.empty() || name == "." || name == ".." || Contains(name, "/") ||
      name.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  return name;
}

Result<Checkpoint> OpenComplete(const std::string& path, const CheckpointOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path, options));
  DSCKPT_RETURN_IF_ERROR(CheckShardSizes(checkpoint));
  return checkpoint;
}

}  // namespace

Result<RunDirectory> RunDirectory::Open(const std::string& path) {
  RunDirectory run;
  run.path_ = path;
  while (run.path_.size() > 1 && run.path_.back() == '/') run.path_.pop_back();
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(run.path_));
  run.latest_name_ = ReadLatest(run.path_);
  for (const std::string& name : names) {
    if (name == "latest" || name.starts_with(".")) continue;
    if (const char* const left_over = LeftOver(name)) {
      run.strays_.emplace_back(name, left_over);
      continue;
    }
    auto entry = Examine(run.path_, name);
    if (entry.ok()) {
      run.checkpoints_.push_back(std::move(entry).value());
    } else {
      run.strays_.emplace_back(name, WhyNot(name, entry.status()));
    }
  }
  std::sort(run.checkpoints_.begin(), run.checkpoints_.end(),
            [](const RunEntry& a, const RunEntry& b) {
              return a.step != b.step ? a.step < b.step : a.name < b.name;
            });
  return run;
}

Result<Checkpoint> RunDirectory::Latest(const CheckpointOptions& options) const {
  Status first;
  const auto attempt = [&](const std::string& name) {
    auto checkpoint = OpenComplete(path_ + "/" + name, options);
    if (!checkpoint.ok() && first.ok()) first = checkpoint.status();
    return checkpoint;
  };
  if (latest_name_) {
    auto checkpoint = attempt(*latest_name_);
    if (checkpoint.ok()) return checkpoint;
  }
  for (auto entry = checkpoints_.rbegin(); entry != checkpoints_.rend(); ++entry) {
    if (entry->name == latest_name_) continue;
    auto checkpoint = attempt(entry->name);
    if (checkpoint.ok()) return checkpoint;
  }
  if (!first.ok()) return first;
  return Status(StatusCode::kNotFound,
                "the directory holds no complete checkpoint ('dsckpt ls' says what it holds)")
      .WithPath(path_);
}

Result<Checkpoint> RunDirectory::ByStep(int64_t step, const CheckpointOptions& options) const {
  for (auto entry = checkpoints_.rbegin(); entry != checkpoints_.rend(); ++entry) {
    if (entry->step == step) return OpenComplete(path_ + "/" + entry->name, options);
  }
  return Status(StatusCode::kNotFound, "no complete checkpoint of step " + std::to_string(step) +
                                           " ('dsckpt ls' lists the directory)")
      .WithPath(path_);
}

}  // namespace dsckpt
