// Random histories of a run: saves, crashes at every step of the protocol, roll backs, retention
// and steps that repeat. The writer is a process that may die; reader and writer must agree after
// it.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <random>

#include "dsckpt/checkpoint.h"
#include "run/complete.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"
#include "writer/group/publish.h"
#include "writer/group/retention.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

struct Act {
  enum class Kind { kSave, kRollBack };
  Kind kind = Kind::kSave;
  int64_t step = 0;
  bool replace = false;
  std::string kill_at = {};  // Step of the protocol; empty: none.
  std::string fails = {};    // Call that fails in it; empty: none.
  int after = 0;             // After so many of those calls.
  float value = 0;           // What is saved.
};

Act RandomAct(std::mt19937& random) {
  static const char* const kSteps[] = {"directory", "saving",   "durable",  "gathered",
                                       "manifest",  "renamed",  "replaced", "synced",
                                       "latest",    "answered", "cleared"};
  static const char* const kCalls[] = {"fsync",      "fsync_dir", "rename",
                                       "rename_new", "exchange",  "pwrite"};
  Act act;
  act.step = 1 + static_cast<int64_t>(random() % 6);
  act.value = static_cast<float>(random() % 100000);
  if (random() % 5 == 0) {
    act.kind = Act::Kind::kRollBack;
    return act;
  }
  act.replace = random() % 4 == 0;
  if (random() % 3 == 0) act.kill_at = kSteps[random() % std::size(kSteps)];
  if (act.kill_at.empty() && random() % 4 == 0) {
    act.fails = kCalls[random() % std::size(kCalls)];
    act.after = static_cast<int>(random() % 5);
  }
  return act;
}

/// Whether the act has to be refused: what stands at its name is not left behind.
bool MustBeRefused(const std::string& run, const Act& act) {
  const std::string name = DefaultCheckpointName(act.step);
  return act.kind == Act::Kind::kSave && !act.replace &&
         fs::exists(run + "/" + name + "/dsckpt.manifest") && !run::IsAbandoned(run, name);
}

Status Perform(CheckpointWriter& writer, const Act& act) {
  if (act.kind == Act::Kind::kRollBack) return writer.RollBack(act.step);
  const Part part(0, 1, act.value, 4);
  FaultFs faults;
  if (!act.fails.empty()) faults.Fail(act.fails, EIO, act.after, 1);
  if (act.kill_at == "replaced") faults.Fail("exchange", EINVAL);
  if (!act.kill_at.empty()) KillAt(act.kill_at);
  const auto handle = writer.Save(act.step, part.state(), {.replace = act.replace});
  const Status status = handle.ok() ? handle->WaitDurable() : handle.status();
  static_cast<void>(writer.WaitDurable().ok());  // Retention comes after the answer.
  if (!act.kill_at.empty()) KillAt("none");
  return status;
}

class History {
 public:
  explicit History(uint32_t seed) : random_(seed) {
    retention_.keep_last = static_cast<int>(random_() % 4);
    if (random_() % 3 == 0) retention_.keep_every = 3;
  }

  void Run(int acts) {
    while (acts > 0) {
      // One job: until it is killed, or a few acts later.
      std::vector<Act> job;
      for (int i = 1 + static_cast<int>(random_() % 4); i > 0; --i) {
        job.push_back(RandomAct(random_));
        if (!job.back().kill_at.empty()) break;
      }
      acts -= static_cast<int>(job.size());
      RunJob(job);
    }
  }

 private:
  /// Runs the acts in a process of its own, which says after each what became of it.
  void RunJob(const std::vector<Act>& acts) {
    const std::string log = dir_ / "log";
    WriteWholeFile(log, "");
    {
      Ranks job(1, [&](int) -> Status {
        const auto engine = SmallEngine();
        DSCKPT_ASSIGN_OR_RETURN(
            const auto writer,
            CheckpointWriter::Create(*engine, {.run_directory = run_, .retention = retention_}));
        std::ofstream out(log, std::ios::app);
        out << "started" << std::endl;
        for (const Act& act : acts) {
          const bool refuse = MustBeRefused(run_, act);
          const StatusCode code = Perform(*writer, act).code();
          if (refuse != (code == StatusCode::kAlreadyExists)) {
            return Status(StatusCode::kInternal, "step " + std::to_string(act.step));
          }
          out << static_cast<int>(code) << std::endl;
        }
        return Status();
      });
      const Ended ended = job.Wait(0);
      CHECK((ended.killed || ended.code == StatusCode::kOk));
    }
    std::ifstream in(log);
    std::string line;
    CHECK(std::getline(in, line).good());
    for (const Act& act : acts) {
      const bool told = static_cast<bool>(std::getline(in, line));
      Learn(act, told ? std::optional(static_cast<StatusCode>(std::stoi(line))) : std::nullopt);
      if (!told) break;
    }
    Check();
  }

  /// What the model makes of an act and of what was said of it; nothing: it was killed.
  void Learn(const Act& act, std::optional<StatusCode> code) {
    INFO("step " << act.step << " code " << (code ? static_cast<int>(*code) : -1));
    if (code == StatusCode::kOk) {
      last_ = act.kind == Act::Kind::kSave ? Wanted{act.step, act.value, true}
                                           : Wanted{act.step, 0, false};
      maybe_.clear();
    } else if (!code || code == StatusCode::kDurabilityUnknown) {
      maybe_.push_back({act.step, act.value, true});
    } else if (act.kind == Act::Kind::kSave) {
      // Refused or failed: what stood stays.
      CHECK((code == StatusCode::kAlreadyExists || code == StatusCode::kIoError));
    } else {
      CHECK(code == StatusCode::kNotFound);
    }
  }

  void Check() {
    // The reader, on what a crash left.
    CheckLatest();
    // And on what the next job has mended.
    {
      Ranks job(1, [&](int) -> Status {
        const auto engine = SmallEngine();
        return CheckpointWriter::Create(*engine, {.run_directory = run_}).status();
      });
      CHECK(job.Wait(0).code == StatusCode::kOk);
    }
    CHECK(LeftOvers(run_).empty());
    CheckLatest();
    CheckAgreement();
  }

  void CheckLatest() {
    const auto directory = RunDirectory::Open(run_);
    REQUIRE(directory.ok());
    const auto latest = directory->Latest({.retry = std::chrono::milliseconds(0)});
    if (!last_ && maybe_.empty()) {
      CHECK_FALSE(latest.ok());
      return;
    }
    if (!latest.ok()) {
      INFO(latest.status().ToString());
      CHECK_FALSE(last_);
      return;
    }
    CHECK(WhyIncomplete(latest->path()) == "");
    const float value = ShardValues(latest->path()).front();
    const auto is = [&](const Wanted& wanted) {
      return wanted.step == latest->step() && (!wanted.value_known || wanted.value == value);
    };
    INFO("latest is step " << latest->step() << " value " << value << ", wanted "
                           << (last_ ? last_->step : -1));
    CHECK(((last_ && is(*last_)) || std::any_of(maybe_.begin(), maybe_.end(), is)));
    // What was published but not surely durable may have become it.
    last_ = Wanted{latest->step(), value, true};
  }

  /// Reader and writer order the same checkpoints in the same way.
  void CheckAgreement() {
    const auto directory = RunDirectory::Open(run_);
    const auto complete = run::CompleteCheckpoints(run_);
    REQUIRE(directory.ok());
    REQUIRE(complete.ok());
    REQUIRE(directory->checkpoints().size() == complete->size());
    for (size_t i = 0; i < complete->size(); ++i) {
      const RunEntry& entry = directory->checkpoints()[i];
      CHECK(entry.name == (*complete)[i].name);
      CHECK(entry.serial == (*complete)[i].serial);
      CHECK(entry.step == (*complete)[i].step);
      CHECK(entry.abandoned == run::IsAbandoned(run_, entry.name));
      if (i > 0) CHECK(entry.serial > directory->checkpoints()[i - 1].serial);
    }
    CHECK(directory->ignored_entries().empty());
  }

  struct Wanted {
    int64_t step = 0;
    float value = 0;
    bool value_known = false;
  };

  TempDir dir_;
  const std::string run_ = dir_ / "run";
  std::mt19937 random_;
  Retention retention_;
  std::optional<Wanted> last_;  // Durable last, or rolled back to.
  std::vector<Wanted> maybe_;   // Saved later, and nobody knows.
};

}  // namespace

TEST_CASE("random histories: latest is the last save that was durable, and nothing it names goes") {
  for (uint32_t seed = 0; seed < 15; ++seed) {
    INFO("seed " << seed);
    History(seed).Run(12);
  }
}

TEST_CASE("1,000 random histories", "[.slow]") {
  for (uint32_t seed = 1000; seed < 2000; ++seed) {
    INFO("seed " << seed);
    History(seed).Run(12);
  }
}
