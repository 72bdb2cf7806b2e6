// VerifyCheckpoint(): the files that a path stands for, each of them, and all of them together.

#include "dsckpt/verify.h"

#include <utility>

#include "base/guarded.h"
#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "merge/checkpoint_health.h"
#include "merge/inputs.h"
#include "merge/model_index.h"
#include "merge/paths.h"

namespace dsckpt {
namespace merge {
namespace {

class Verification {
 public:
  explicit Verification(const VerifyCheckpointOptions& options) : options_(options) {}

  /// Finds files, and looks at checkpoints as wholes.
  void Add(const std::string& path) {
    const auto operand = ToOperand(path);
    if (!operand.ok()) return Fail(operand.status());
    switch (operand->kind) {
      case OperandKind::kFile:
        files_.push_back(operand->path);
        return;
      case OperandKind::kCheckpoint:
        return AddCheckpoint(operand->path);
      case OperandKind::kIndex:
        return AddModel(operand->path);
      case OperandKind::kRun:
        return AddRun(operand->path);
    }
  }

  /// Reads what Add() found.
  Result<VerifyCheckpointReport> Run() {
    report_.ok = report_.problems.empty();
    for (const std::string& path : files_) {
      if (options_.cancelled && options_.cancelled()) {
        return Status(StatusCode::kCancelled, "the verification was cancelled").WithPath(path);
      }
      FileVerification file = CheckFile(path);
      report_.ok = report_.ok && file.status.ok() && file.report.ok;
      report_.checked_bytes += file.report.checked_bytes;
      if (options_.on_file) options_.on_file(file);
      report_.files.push_back(std::move(file));
    }
    return std::move(report_);
  }

 private:
  FileVerification CheckFile(const std::string& path) const {
    VerifyOptions verify{.decode = options_.decode, .threads = options_.threads};
    if (options_.progress) {
      verify.progress = [&](uint64_t done, uint64_t total) {
        options_.progress(path, done, total);
      };
    }
    const auto start = std::chrono::steady_clock::now();
    auto report = Verify(path, verify);
    FileVerification file{.path = path, .status = report.status()};
    file.duration = std::chrono::steady_clock::now() - start;
    if (report.ok()) file.report = std::move(report).value();
    // Of a file that cannot be opened, the report says why; of a header that differs, too.
    const auto opened = File::Open(path, kWithoutHeaders.file);
    file.has_checksums = !opened.ok() || opened->format() == FileFormat::kDsckpt;
    return file;
  }

  void AddRun(const std::string& path) {
    const auto run = RunDirectory::Open(path);
    if (!run.ok()) return Fail(run.status());
    for (const RunEntry& entry : run->checkpoints()) Add(run->path() + "/" + entry.name);
    for (const auto& [name, why] : run->ignored_entries()) AddIgnored(run->path(), name);
    if (!run->checkpoints().empty()) return;
    // What a replacement that was stopped put aside is whole, and what others would read.
    if (const auto latest = run->Latest(kWithoutHeaders); latest.ok())
      return AddCheckpoint(latest->path());
    Fail(Status(StatusCode::kIncomplete, "no complete checkpoint").WithPath(path));
  }

  /// Checkpoints do not count for a run when they are bad; here they matter. Foreign files do not,
  /// nor what a commit leaves behind.
  void AddIgnored(const std::string& run, const std::string& name) {
    if (RunDirectory::IsLeftOver(name)) return;
    const std::string path = run + "/" + name;
    if (IsDirectory(path)) {
      if (IsCheckpointDirectory(path)) AddCheckpoint(path);
      return;
    }
    const StatusCode code = File::Open(path).status().code();
    const bool broken = code == StatusCode::kCorrupt || code == StatusCode::kTruncated ||
                        code == StatusCode::kTrailingBytes || code == StatusCode::kMismatch;
    if (broken) files_.push_back(path);
  }

  /// The files are there, and hold what the index says.
  void AddModel(const std::string& path) {
    const auto model = OpenModelIndex(path, kWithoutHeaders);
    if (!model.ok()) return Fail(model.status());
    for (uint32_t i = 0; i < model->checkpoint.shard_count(); ++i) {
      files_.push_back(std::string(model->checkpoint.shard(i).name));
    }
  }

  void AddCheckpoint(const std::string& path) {
    const auto checkpoint = Checkpoint::Open(path, kWithoutHeaders);
    if (!checkpoint.ok()) return Fail(checkpoint.status());
    const CheckpointHealth health = HealthOf(*checkpoint);
    for (const CheckpointHealth::Shard& shard : health.shards) {
      if (shard.status.ok()) {
        files_.push_back(checkpoint->path() + "/" + std::string(shard.info.name));
      } else {
        Fail(shard.status);
      }
    }
    for (const CheckpointHealth::Gap& gap : health.gaps) Fail(gap.status);
    for (uint32_t i = 0; i < checkpoint->tensor_count() && health.complete; ++i) {
      if (const Status copies = checkpoint->CompareCopies(i); !copies.ok()) Fail(copies);
    }
    for (const std::string& name : health.ignored_entries) {
      report_.ignored_entries.push_back(checkpoint->path() + "/" + name);
    }
  }

  void Fail(const Status& status) {
    if (options_.on_problem) options_.on_problem(status);
    report_.problems.push_back(status);
  }

  const VerifyCheckpointOptions& options_;
  std::vector<std::string> files_;
  VerifyCheckpointReport report_;
};

}  // namespace
}  // namespace merge

Result<VerifyCheckpointReport> VerifyCheckpoint(const std::string& path,
                                                const VerifyCheckpointOptions& options) {
  VerifyCheckpointReport report;
  DSCKPT_RETURN_IF_ERROR(Guarded([&]() -> Status {
    merge::Verification verification(options);
    verification.Add(path);
    DSCKPT_ASSIGN_OR_RETURN(report, verification.Run());
    return Status();
  }));
  return report;
}

}  // namespace dsckpt
