#include "writer/group/commit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "format/file_names.h"
#include "run/complete.h"
#include "run/manifest_file.h"
#include "writer/group/coordinator_store.h"
#include "writer/group/copies.h"
#include "writer/group/publish.h"
#include "writer/group/retention.h"

namespace dsckpt {
namespace {

/// Other ranks wait so much longer than rank 0: its answer says more than their own time-out.
constexpr std::chrono::milliseconds kGrace{500};

std::string StoreKey(const char* what, const Attempt& attempt) {
  return what + std::to_string(attempt.sequence);
}

Status OfRank(int rank, const Status& status) {
  return Status(status.code(), "rank " + std::to_string(rank) + ": " + status.message())
      .WithErrno(status.error_number())
      .WithPath(status.path())
      .WithOffset(static_cast<uint64_t>(status.offset()));  // -1 stays -1.
}

class Leader {
 public:
  Leader(Coordinator& coordinator, const Attempt& attempt, RankReport mine,
         const std::function<Status()>& begin_publishing, const io::Warn& warn)
      : coordinator_(coordinator),
        attempt_(attempt),
        mine_(std::move(mine)),
        begin_publishing_(begin_publishing),
        warn_(warn) {}

  Status Run(RunState* run) {
    format::ManifestColumns manifest;
    Status outcome = AsFailure(Prepare(run, manifest));
    if (outcome.ok()) {
      outcome = PublishAttempt(attempt_.paths, manifest, replaces_, attempt_.deadline, warn_);
    }
    const bool published = outcome.ok() || outcome.code() == StatusCode::kDurabilityUnknown;
    if (published && run != nullptr) {
      run->last_serial = run->latest_serial = manifest.serial;
      run->latest = attempt_.paths.name;
      const Status moved = run::WriteLatest(attempt_.paths.run, attempt_.paths.name);
      if (outcome.ok() && !moved.ok()) outcome = LatestUnknown(attempt_.paths, moved);
      CheckpointStep("latest");
    }
    RankReport answer;
    answer.status = outcome;
    Try(coordinator_
            .Broadcast(StoreKey("commit/", attempt_), EncodeReport(answer), attempt_.deadline)
            .status());
    CheckpointStep("answered");
    // Behind the answer, which nobody should have to wait for. Nothing older is removed while a
    // power cut may undo what is newer.
    if (outcome.ok() && run != nullptr) {
      Try(ApplyRetention(attempt_.paths.run, run->retention, attempt_.paths.name,
                         attempt_.paths.attempt));
    } else if (!published) {
      DiscardAttempt(attempt_.paths);
    }
    CheckpointStep("cleared");
    return outcome;
  }

 private:
  /// Everything before the attempt's manifest is written.
  Status Prepare(RunState* run, format::ManifestColumns& manifest) {
    DSCKPT_ASSIGN_OR_RETURN(
        const auto encoded,
        coordinator_.Gather(StoreKey("done/", attempt_), EncodeReport(mine_), attempt_.deadline));
    CheckpointStep("gathered");
    std::vector<RankReport> reports;
    for (const auto& bytes : encoded) {
      DSCKPT_ASSIGN_OR_RETURN(RankReport report, DecodeReport(bytes));
      reports.push_back(std::move(report));
    }
    DSCKPT_RETURN_IF_ERROR(CheckReports(reports));
    DSCKPT_ASSIGN_OR_RETURN(manifest, MergeReports(reports));
    DSCKPT_ASSIGN_OR_RETURN(replaces_,
                            CheckTarget(attempt_.paths, attempt_.replace, run != nullptr));
    if (run == nullptr) return begin_publishing_();
    DSCKPT_ASSIGN_OR_RETURN(manifest.serial, NextSerial(*run));
    manifest.parent = SerialOfLatest(*run);
    return begin_publishing_();
  }

  /// 0 where `latest` names no complete save of the run.
  uint64_t SerialOfLatest(const RunState& run) const {
    const auto latest = run::ReadLatest(attempt_.paths.run);
    if (!latest) return 0;
    if (*latest == run.latest) return run.latest_serial;
    const auto complete = run::ReadComplete(attempt_.paths.run, *latest);
    return complete.ok() ? complete->serial : 0;
  }

  Result<uint64_t> NextSerial(const RunState& run) const {
    if (run.last_serial) return *run.last_serial + 1;
    DSCKPT_ASSIGN_OR_RETURN(const auto complete, run::CompleteCheckpoints(attempt_.paths.run));
    return complete.empty() ? 1 : complete.back().serial + 1;
  }

  Status CheckReports(const std::vector<RankReport>& reports) const {
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      if (!reports[rank].status.ok()) return OfRank(static_cast<int>(rank), reports[rank].status);
    }
    std::vector<int> other;
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      const RankReport& report = reports[rank];
      const bool same = report.step == mine_.step && report.name == mine_.name &&
                        report.replace == mine_.replace && report.in_place == mine_.in_place;
      if (!same) other.push_back(static_cast<int>(rank));
    }
    if (other.empty()) return Status();
    const RankReport& first = reports[static_cast<size_t>(other[0])];
    return Status(StatusCode::kMismatch,
                  RankList(other) + " saved another checkpoint than rank 0 at the same time: '" +
                      first.name + "' of step " + std::to_string(first.step) + ", not '" +
                      mine_.name + "' of step " + std::to_string(mine_.step) +
                      ", or with other options");
  }

  Result<format::ManifestColumns> MergeReports(const std::vector<RankReport>& reports) const {
    std::vector<format::ManifestView> parts;
    for (const RankReport& report : reports) {
      DSCKPT_ASSIGN_OR_RETURN(parts.emplace_back(), format::ParseManifest(report.manifest));
    }
    auto merged = format::MergeManifests(parts);
    if (!merged.ok()) {
      // Two dtypes or two shapes of what should be one tensor.
      const bool mismatch = merged.status().code() == StatusCode::kMismatch;
      return Status(merged.status().code(),
                    merged.status().message() + (mismatch ? kDeclareRankOwn : ""));
    }
    format::ManifestColumns manifest = std::move(merged).value();
    if (manifest.shard_names.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "no rank has a shard for checkpoint '" + attempt_.paths.name + "'");
    }
    std::vector<std::string_view> names(manifest.shard_names.begin(), manifest.shard_names.end());
    if (const auto twice = format::FindSameFile(names)) {
      return Status(StatusCode::kAlreadyExists,
                    "two shards are named '" + Printable(*twice) +
                        "' but for the case of letters, which is one file on some systems: give "
                        "each a name of its own");
    }
    // Reports come by rank, each with its shards by name: in the manifest's order.
    std::vector<std::vector<StoredContent>> contents;
    for (const RankReport& report : reports) {
      contents.insert(contents.end(), report.contents.begin(), report.contents.end());
    }
    DSCKPT_RETURN_IF_ERROR(CheckCopies(ViewOf(manifest), contents));
    manifest.attempt = attempt_.paths.attempt;
    manifest.step = attempt_.step;
    manifest.ranks = static_cast<uint32_t>(coordinator_.size());
    return manifest;
  }

  void Try(Status status) {
    if (!status.ok() && warn_) warn_(std::move(status));
  }

  Coordinator& coordinator_;
  const Attempt& attempt_;
  const RankReport mine_;
  const std::function<Status()>& begin_publishing_;
  const io::Warn& warn_;
  bool replaces_ = false;  // What stands at the name gives way.
};

Status Follow(Coordinator& coordinator, const Attempt& attempt, const RankReport& mine,
              bool moves_latest) {
  Status own = mine.status;
  Status reported =
      coordinator.Gather(StoreKey("done/", attempt), EncodeReport(mine), attempt.deadline).status();
  if (own.ok()) own = std::move(reported);
  CheckpointStep("reported");
  // Whatever happened here, the answer is rank 0's to give.
  const auto bytes =
      coordinator.Broadcast(StoreKey("commit/", attempt), {}, attempt.deadline + kGrace);
  CheckpointStep("heard");
  if (!bytes.ok()) {
    const Status outcome = GiveUpAttempt(attempt.paths, moves_latest);
    if (outcome.ok() || own.ok()) return outcome;
    return Status(outcome.code(), outcome.message() + "; on this rank: " + own.message())
        .WithErrno(own.error_number())
        .WithPath(outcome.path());
  }
  DSCKPT_ASSIGN_OR_RETURN(const RankReport answer, DecodeReport(*bytes));
  const bool published =
      answer.status.ok() || answer.status.code() == StatusCode::kDurabilityUnknown;
  if (!published) DiscardAttempt(attempt.paths);
  return answer.status;
}

}  // namespace

Status AsFailure(Status status) {
  if (status.code() != StatusCode::kDurabilityUnknown) return status;
  return Status(StatusCode::kIoError, "nothing was published: " + status.message())
      .WithErrno(status.error_number())
      .WithPath(status.path());
}

Status CommitAttempt(Coordinator& coordinator, const Attempt& attempt, RankReport mine,
                     const std::function<Status()>& begin_publishing, RunState* run,
                     const io::Warn& warn) {
  if (coordinator.rank() != 0) return Follow(coordinator, attempt, mine, run != nullptr);
  return Leader(coordinator, attempt, std::move(mine), begin_publishing, warn).Run(run);
}

}  // namespace dsckpt
