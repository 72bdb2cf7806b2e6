// RunDirectory.

#include <algorithm>
#include <optional>
#include <utility>

#include "dsckpt/checkpoint.h"
#include "io/directory.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "run/complete.h"
#include "run/manifest_file.h"
#include "run/run_layout.h"
#include "run/save_order.h"

namespace dsckpt {

namespace {

const CheckpointOptions kAtOnce{.file = {.map = false}, .retry = std::chrono::milliseconds(0)};

Result<Checkpoint> OpenComplete(const std::string& path, const CheckpointOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path, options));
  if (!checkpoint.has_manifest()) return checkpoint;
  DSCKPT_RETURN_IF_ERROR(run::CheckShards({checkpoint.path()}, checkpoint.impl().manifest));
  return checkpoint;
}

Result<RunEntry> Examine(const std::string& directory, const std::string& name) {
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                          OpenComplete(directory + "/" + name, kAtOnce));
  if (!checkpoint.has_manifest()) {
    DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint.OpenShard(0));
    if (file.format() != FileFormat::kDsckpt) {
      return Status(StatusCode::kNotCheckpoint, "a plain safetensors file");
    }
  }
  RunEntry entry;
  entry.name = name;
  if (checkpoint.step() != kUnknownStep) entry.step = checkpoint.step();
  entry.step_source = checkpoint.step_source();
  entry.serial = checkpoint.serial();
  entry.parent = checkpoint.parent();
  entry.shards = checkpoint.shard_count();
  for (uint32_t i = 0; i < entry.shards; ++i) entry.bytes += checkpoint.shard(i).file_bytes;
  return entry;
}

const char* WhyHidden(run::Mark mark) {
  switch (mark) {
    case run::Mark::kIncomplete:
      return "an attempt that was not completed";
    case run::Mark::kReplaced:
      return "what a newer checkpoint of this name replaced";
    case run::Mark::kRemoved:
      break;
  }
  return "about to be removed";
}

std::string WhyNot(const std::string& name, const Status& status) {
  if (status.code() != StatusCode::kIncomplete) return status.message();
  if (status.path().ends_with("/" + name)) return "a directory without a manifest";
  return "incomplete: " + status.path() + ": " + status.message();
}

run::SaveRecord RecordOf(const RunEntry& entry) {
  return {entry.name, entry.step, entry.serial, entry.parent};
}

std::vector<run::SaveRecord> RecordsOf(const std::vector<RunEntry>& entries) {
  std::vector<run::SaveRecord> records;
  for (const RunEntry& entry : entries) records.push_back(RecordOf(entry));
  return records;
}

/// In the order of saves, those without a step last; with what that order says of each.
void Order(std::vector<RunEntry>& entries, const std::optional<std::string>& latest) {
  std::sort(entries.begin(), entries.end(), [](const RunEntry& a, const RunEntry& b) {
    return run::SavedBefore(RecordOf(a), RecordOf(b));
  });
  const std::vector<bool> abandoned = run::FindAbandoned(RecordsOf(entries), latest);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].abandoned = abandoned[i];
  std::stable_partition(entries.begin(), entries.end(),
                        [](const RunEntry& entry) { return entry.step.has_value(); });
}

}  // namespace

Result<RunDirectory> RunDirectory::Open(const std::string& path) {
  RunDirectory run;
  run.path_ = path;
  while (run.path_.size() > 1 && run.path_.back() == '/') run.path_.pop_back();
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(run.path_));
  run.latest_name_ = run::ReadLatest(run.path_);
  for (const std::string& name : names) {
    if (const auto mark = run::ParseEntry(name).mark; mark && name[0] != '.') {
      run.ignored_entries_.emplace_back(name, WhyHidden(*mark));
      continue;
    }
    if (IsHiddenRunEntry(name)) continue;
    auto entry = Examine(run.path_, name);
    if (entry.ok()) {
      run.checkpoints_.push_back(std::move(entry).value());
    } else {
      run.ignored_entries_.emplace_back(name, WhyNot(name, entry.status()));
    }
  }
  Order(run.checkpoints_, run.latest_name_);
  return run;
}

bool RunDirectory::IsLeftOver(std::string_view name) {
  return run::ParseEntry(name).mark.has_value();
}

Result<Checkpoint> RunDirectory::Latest(const CheckpointOptions& options) const {
  std::vector<std::string> names;
  if (latest_name_) names.push_back(*latest_name_);
  // A replacement that was stopped between two renames has put it aside, whole.
  for (const auto& [entry, why] : ignored_entries_) {
    const auto marked = run::ParseMarkedEntry(entry);
    if (!latest_name_ || !marked || *marked->mark != run::Mark::kReplaced) continue;
    if (marked->name == *latest_name_) names.push_back(entry);
  }
  // Behind it the last save first, and those of which no save of a run tells behind all others.
  for (const size_t i : run::ResumeOrder(RecordsOf(checkpoints_))) {
    names.push_back(checkpoints_[i].name);
  }
  Status first;
  for (const std::string& name : names) {
    auto checkpoint = OpenComplete(path_ + "/" + name, options);
    if (checkpoint.ok()) return checkpoint;
    if (first.ok()) first = checkpoint.status();
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
