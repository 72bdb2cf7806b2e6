// CheckpointWriter: starts saves in order, and finishes them on two threads.

#include "dsckpt/checkpoint_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "base/guarded.h"
#include "base/mutex.h"
#include "base/serial_queue.h"
#include "base/text.h"
#include "format/file_names.h"
#include "format/manifest/shard_match.h"
#include "io/directory.h"
#include "io/path.h"
#include "run/run_layout.h"
#include "run/run_lock.h"
#include "state/description.h"
#include "writer/engine/pending_saves.h"
#include "writer/engine/save_task.h"
#include "writer/group/publish.h"
#include "writer/group/rank_save.h"
#include "writer/group/recover.h"
#include "writer/group/retention.h"

namespace dsckpt {
namespace {

using RankSavePtr = std::shared_ptr<RankSave>;

/// Attempts are counted by coordinator, not by writer: its keys are used once. The same on all
/// ranks, since they save in the same order.
std::shared_ptr<std::atomic<uint64_t>> CounterOf(const std::shared_ptr<Coordinator>& coordinator) {
  struct Entry {
    std::weak_ptr<Coordinator> coordinator;
    std::shared_ptr<std::atomic<uint64_t>> counter;
  };
  static Mutex mutex;
  static std::vector<Entry> entries;
  MutexLock lock(mutex);
  std::erase_if(entries, [](const Entry& entry) { return entry.coordinator.expired(); });
  for (const Entry& entry : entries) {
    if (entry.coordinator.lock() == coordinator) return entry.counter;
  }
  entries.push_back({coordinator, std::make_shared<std::atomic<uint64_t>>(0)});
  return entries.back().counter;
}

Status CheckOptions(const CheckpointWriterOptions& options) {
  if (options.run_directory.empty()) {
    return Status(StatusCode::kInvalidArgument, "CheckpointWriterOptions::run_directory is empty");
  }
  if (options.timeout <= std::chrono::milliseconds(0)) {
    return Status(StatusCode::kInvalidArgument,
                  "CheckpointWriterOptions::timeout must be positive");
  }
  if (options.retention.keep_last < 0 || options.retention.keep_every < 0) {
    return Status(StatusCode::kInvalidArgument, "Retention: numbers must not be negative");
  }
  return Status();
}

/// A shard's provider that must not say another step than its checkpoint: readers refuse such a
/// shard, so that it is refused before any of it is written.
class OfStep final : public StateProvider {
 public:
  OfStep(const StateProvider& shard, int64_t step) : shard_(shard), step_(step) {}
  void Describe(Description& description) const override {
    shard_.Describe(description);
    const format::TreeColumns& attributes = description.data().attributes;
    const auto said = format::RecordedStep({attributes.nodes, attributes.heap, {}});
    if (!said || *said == step_) return;
    description.Fail(
        Status(StatusCode::kInvalidArgument, "the attribute 'step' is " + std::to_string(*said) +
                                                 ", but the checkpoint is saved as step " +
                                                 std::to_string(step_) + ": give both the same"));
  }

 private:
  const StateProvider& shard_;
  const int64_t step_;
};

}  // namespace

struct DSCKPT_HIDDEN CheckpointWriter::Impl {
  Impl(Engine& engine_in, CheckpointWriterOptions options_in)
      : engine(engine_in),
        options(std::move(options_in)),
        coordinator(options.coordinator),
        counter(CounterOf(coordinator)) {}

  bool InChild() const { return getpid() != process; }
  Status Open();
  void Emit(Event::Kind kind, const Status& status);
  Status CheckName(const RankSave& own);
  Status ClaimName(RankSave& own);
  Status Begin(RankSave& own, std::span<const ShardSource> shards,
               const CheckpointSaveOptions& how);
  Status NameShards(RankSave& own, std::span<const ShardSource> shards);
  Status StartShards(RankSave& own, std::span<const ShardSource> shards, const SaveOptions& file);
  void Commit(const RankSavePtr& own);
  Status AwaitAlone();

  const pid_t process = getpid();
  Engine& engine;
  const CheckpointWriterOptions options;
  const std::shared_ptr<Coordinator> coordinator;
  const std::shared_ptr<std::atomic<uint64_t>> counter;
  std::unique_ptr<io::LockFile> lock;
  RunState run_state{.retention = options.retention};  // Of the commit thread.
  const io::Warn warn = [this](const Status& status) { Emit(Event::Kind::kDurability, status); };
  Mutex save_mutex;   // Save() calls run one at a time: their order is the group's.
  Mutex event_mutex;  // Of the callback: one call at a time.
  Mutex names_mutex;  // Of RankSave::name_lock, in all saves.
  PendingSaves<RankSave> saves;
  // Two, because waiting for this rank's storage cannot be cut short when time is up.
  SerialQueue<RankSavePtr> commits{"dsckpt-group", [this](const RankSavePtr& own) { Commit(own); }};
  SerialQueue<RankSavePtr> reports{
      "dsckpt-shards", [](const RankSavePtr& own) { own->SetReport(own->MakeReport()); }};
};

Status CheckpointWriter::Impl::Open() {
  if (commits.threads() == 0 || reports.threads() == 0) {
    return Status(StatusCode::kOutOfMemory, "cannot start the checkpoint writer's threads");
  }
  DSCKPT_RETURN_IF_ERROR(io::MakeDirectories(options.run_directory));
  if (coordinator->rank() != 0) return Status();
  // For whoever made the run directory just now and did not sync it. Where the parent cannot be
  // opened, it was not made by this user.
  static_cast<void>(io::SyncDirectory(io::ParentOf(options.run_directory)).ok());
  if (options.standalone) return Status();
  DSCKPT_ASSIGN_OR_RETURN(lock, run::LockRun(options.run_directory));
  return Recover(options.run_directory, coordinator->session(), warn);
}

void CheckpointWriter::Impl::Emit(Event::Kind kind, const Status& status) {
  if (!options.on_event) return;
  MutexLock event_lock(event_mutex);
  // What it throws must not change what became of a checkpoint.
  (void)Guarded([&] {
    options.on_event(Event{kind, status});
    return Status();
  });
}

/// What rank 0 can know at once, so that no training step is waited for. Only while nothing else is
/// under way, which might change what stands.
Status CheckpointWriter::Impl::CheckName(const RankSave& own) {
  if (own.rank != 0 || !saves.All().empty()) return Status();
  return CheckTarget(own.attempt.paths, own.attempt.replace, !options.standalone).status();
}

/// Without the lock of the run, that of the one name; and what dead processes left of it goes.
Status CheckpointWriter::Impl::ClaimName(RankSave& own) {
  if (own.rank != 0 || !options.standalone) return Status();
  const run::AttemptPaths& paths = own.attempt.paths;
  {
    MutexLock names(names_mutex);
    for (const RankSavePtr& other : saves.All()) {
      if (other->attempt.paths.name == paths.name) own.name_lock = other->name_lock;
    }
  }
  if (own.name_lock != nullptr) return Status();
  DSCKPT_ASSIGN_OR_RETURN(own.name_lock, run::LockEntry(paths.run, paths.name));
  return run::WhileNoRank0(paths.run, [&] {  // It has attempts of its own here.
    return Recover(paths.run, coordinator->session(), warn, paths.name);
  });
}

Status CheckpointWriter::Impl::Begin(RankSave& own, std::span<const ShardSource> shards,
                                     const CheckpointSaveOptions& how) {
  Attempt& attempt = own.attempt;
  if (!how.name.empty()) {
    DSCKPT_RETURN_IF_ERROR(run::CheckCheckpointName(how.name, attempt.paths.attempt));
    attempt.paths.name = how.name;
  }
  const bool unknown = attempt.step == kUnknownStep && options.standalone;
  if (attempt.step < 0 && !unknown) {
    return Status(StatusCode::kInvalidArgument,
                  "step " + std::to_string(attempt.step) + " is negative");
  }
  if (how.file.container != Container::kDsckpt) {
    return Status(StatusCode::kInvalidArgument,
                  "a checkpoint of many ranks needs shards in dsckpt's own format");
  }
  DSCKPT_RETURN_IF_ERROR(NameShards(own, shards));
  DSCKPT_RETURN_IF_ERROR(ClaimName(own));
  DSCKPT_RETURN_IF_ERROR(CheckName(own));
  if (attempt.paths.in_place) DSCKPT_RETURN_IF_ERROR(io::MakeDirectories(attempt.paths.Final()));
  // Every rank makes it, whichever comes first, also without shards: a directory that is gone then
  // means that the attempt is over.
  Status made = io::MakeDirectory(attempt.paths.Directory());
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  CheckpointStep("directory");
  DSCKPT_RETURN_IF_ERROR(StartShards(own, shards, how.file));
  CheckpointStep("saving");
  return Status();
}

Status CheckpointWriter::Impl::NameShards(RankSave& own, std::span<const ShardSource> shards) {
  std::set<std::string> folded;
  for (const ShardSource& shard : shards) {
    const std::string name = shard.name.empty() ? DefaultShardName(own.rank) : shard.name;
    DSCKPT_RETURN_IF_ERROR(run::CheckShardName(name));
    if (shard.provider == nullptr) {
      return Status(StatusCode::kInvalidArgument, "shard '" + name + "' has no provider");
    }
    if (!folded.insert(format::FoldCase(name)).second) {
      return Status(StatusCode::kAlreadyExists,
                    "two shards of this rank are called '" + Printable(name) +
                        "', which is one file on some systems whatever the case of letters");
    }
    own.shards.push_back(name);
  }
  return Status();
}

Status CheckpointWriter::Impl::StartShards(RankSave& own, std::span<const ShardSource> shards,
                                           const SaveOptions& file) {
  for (size_t i = 0; i < shards.size(); ++i) {
    auto started = engine.Save(own.attempt.paths.Directory() + "/" + own.shards[i],
                               OfStep(*shards[i].provider, own.attempt.step), file);
    if (!started.ok()) {
      for (const SaveHandle& other : own.saves) other.Cancel();
      return started.status();
    }
    own.saves.push_back(std::move(started).value());
  }
  return Status();
}

void CheckpointWriter::Impl::Commit(const RankSavePtr& own) {
  Status outcome = Guarded([&] {
    return CommitAttempt(
        *coordinator, own->attempt, own->TakeReport(), [&own] { return own->BeginPublishing(); },
        options.standalone ? nullptr : &run_state, warn);
  });
  // What was cancelled here is no failure, as with a single save.
  const bool wanted = outcome.code() == StatusCode::kCancelled && own->cancelled();
  if (!outcome.ok() && !wanted) {
    const bool published = outcome.code() == StatusCode::kDurabilityUnknown;
    Emit(published ? Event::Kind::kDurability : Event::Kind::kSaveFailed, outcome);
  }
  if (!outcome.ok() && !wanted) saves.NoteFailure(own);
  {
    // The last one of its name gives it free before anybody hears of the end.
    MutexLock names(names_mutex);
    own->name_lock.reset();
  }
  saves.FreePlace();
  saves.Remove(own);
  own->MarkDone(std::move(outcome));
}

/// Holding `save_mutex`: until nothing is under way, on a writer that owns its run.
Status CheckpointWriter::Impl::AwaitAlone() {
  if (lock == nullptr) {
    return Status(StatusCode::kFailedPrecondition,
                  "only the writer of rank 0 rolls a run back, and no standalone one")
        .WithPath(options.run_directory);
  }
  for (const RankSavePtr& own : saves.All()) own->AwaitDone();
  return Status();
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CheckpointWriter::~CheckpointWriter() {
  // A forked child has none of the threads.
  if (impl_->InChild()) static_cast<void>(impl_.release());
}

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    Engine& engine, CheckpointWriterOptions options) {
  DSCKPT_RETURN_IF_ERROR(CheckOptions(options));
  DSCKPT_ASSIGN_OR_RETURN(options.run_directory, io::AbsolutePath(options.run_directory));
  if (options.coordinator == nullptr) options.coordinator = SingleRank();
  auto impl = std::make_unique<Impl>(engine, std::move(options));
  DSCKPT_RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<CheckpointWriter>(new CheckpointWriter(std::move(impl)));
}

Result<CheckpointHandle> CheckpointWriter::Save(int64_t step, const StateProvider& state,
                                                const CheckpointSaveOptions& options) {
  const ShardSource shard{.name = {}, .provider = &state};
  return Save(step, std::span(&shard, 1), options);
}

Result<CheckpointHandle> CheckpointWriter::Save(int64_t step, std::span<const ShardSource> shards,
                                                const CheckpointSaveOptions& options) {
  if (impl_->InChild()) return InChildStatus();
  MutexLock lock(impl_->save_mutex);
  const auto own = std::make_shared<RankSave>();
  const uint64_t sequence = impl_->counter->fetch_add(1);
  own->rank = impl_->coordinator->rank();
  own->attempt = {
      .paths = {.run = impl_->options.run_directory,
                .name = DefaultCheckpointName(step),
                .attempt = run::AttemptId(impl_->coordinator->session(), std::to_string(sequence)),
                .in_place = options.in_place},
      .sequence = sequence,
      .step = step,
      .replace = options.replace,
      .deadline = Coordinator::Clock::now() + impl_->options.timeout};
  own->refused = impl_->Begin(*own, shards, options);
  impl_->saves.Add(own);
  // A refused one too: the other ranks wait for this rank's report.
  impl_->reports.Push(own);
  impl_->commits.Push(own);
  if (!own->refused.ok()) return own->refused;
  return CheckpointHandle(own);
}

Status CheckpointWriter::WaitDurable() {
  if (impl_->InChild()) return InChildStatus();
  return impl_->saves.WaitDurable();
}

Status CheckpointWriter::RollBack(int64_t step) {
  if (impl_->InChild()) return InChildStatus();
  MutexLock lock(impl_->save_mutex);
  DSCKPT_RETURN_IF_ERROR(impl_->AwaitAlone());
  return MoveLatestBack(impl_->options.run_directory, step);
}

Status CheckpointWriter::RollBack(std::string_view name) {
  if (impl_->InChild()) return InChildStatus();
  MutexLock lock(impl_->save_mutex);
  DSCKPT_RETURN_IF_ERROR(impl_->AwaitAlone());
  return MoveLatestBack(impl_->options.run_directory, std::string(name));
}

namespace {

/// What a crash left is mended before somebody chooses among what stands.
template <typename Which>
Status RollBackAlone(const std::string& run, const Which& which) {
  DSCKPT_ASSIGN_OR_RETURN(const auto lock, run::LockRun(run));
  DSCKPT_RETURN_IF_ERROR(Recover(run, {}, {}));
  return MoveLatestBack(run, which);
}

}  // namespace

Status RollBack(const std::string& run_directory, int64_t step) {
  return RollBackAlone(run_directory, step);
}

Status RollBack(const std::string& run_directory, std::string_view name) {
  return RollBackAlone(run_directory, std::string(name));
}

CheckpointHandle::CheckpointHandle() = default;
CheckpointHandle::~CheckpointHandle() = default;
CheckpointHandle::CheckpointHandle(const CheckpointHandle&) = default;
CheckpointHandle& CheckpointHandle::operator=(const CheckpointHandle&) = default;
CheckpointHandle::CheckpointHandle(std::shared_ptr<RankSave> own) : save_(std::move(own)) {}

Status CheckpointHandle::WaitCaptured() const { return save_ ? save_->WaitCaptured() : Status(); }
Status CheckpointHandle::WaitDurable() const { return save_ ? save_->WaitDone() : Status(); }

void CheckpointHandle::Cancel() const {
  if (save_) save_->Cancel();
}

Progress CheckpointHandle::progress() const { return save_ ? save_->progress() : Progress(); }

}  // namespace dsckpt
