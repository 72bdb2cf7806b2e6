// Trajectory::Open(): finds checkpoints, reads their indexes and puts them in order.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/unicode.h"
#include "dsckpt/trajectory.h"
#include "io/workers.h"
#include "merge/paths.h"
#include "run/manifest_file.h"
#include "run/save_order.h"
#include "trajectory/read_index.h"
#include "trajectory/step_rule.h"
#include "trajectory/trajectory_impl.h"

namespace dsckpt {

namespace trajectory {

namespace {

struct Wanted {
  Member member;
  Status status;
  /// Given by the caller.
  std::optional<int64_t> step;
};

Result<std::vector<Wanted>> FindWanted(std::span<const std::string> operands,
                                       std::vector<std::pair<std::string, std::string>>& skipped) {
  std::vector<Wanted> wanted;
  for (const std::string& text : operands) {
    DSCKPT_ASSIGN_OR_RETURN(merge::Operand operand, merge::ToOperand(text));
    if (operand.kind != merge::OperandKind::kRun) {
      Wanted& each = wanted.emplace_back();
      each.member.name = operand.path;
      each.member.operand = std::move(operand);
      continue;
    }
    DSCKPT_ASSIGN_OR_RETURN(merge::RunMembers run, merge::ListMembers(operand.path));
    for (auto& each : run.skipped) skipped.push_back(std::move(each));
    for (merge::RunMember& found : run.members) {
      Wanted& each = wanted.emplace_back();
      each.member.name = std::move(found.name);
      each.member.operand = std::move(found.operand);
      each.member.run = operand.path;
    }
  }
  return wanted;
}

/// Reads indexes into columns of one table. Thread-safe.
class Reader {
 public:
  Reader(Trajectory::Impl& impl, const StepRule& rule) : impl_(impl), rule_(rule) {}

  Status Read(Wanted& wanted) {
    Member& member = wanted.member;
    DSCKPT_ASSIGN_OR_RETURN(const merge::Inputs inputs,
                            merge::OpenOperand(member.operand, merge::kAtOnce));
    const Checkpoint& checkpoint = inputs.checkpoint;
    DSCKPT_RETURN_IF_ERROR(merge::CheckStands(checkpoint));
    DSCKPT_ASSIGN_OR_RETURN(IndexRecord record, ReadIndex(checkpoint));
    if (wanted.step) {
      member.step.step = wanted.step;
    } else {
      DSCKPT_ASSIGN_OR_RETURN(member.step,
                              rule_.StepOf(checkpoint, member.operand, record.attributes));
    }
    member.serial = checkpoint.serial();
    member.parent = checkpoint.parent();
    member.shards = checkpoint.shard_count();
    member.tree_digest = record.tree_digest;
    member.stored_digest = record.stored_digest;
    member.attributes = std::move(record.attributes);
    Keep(record, member.column);
    return {};
  }

 private:
  void Keep(const IndexRecord& record, Column& column) {
    MutexLock lock(mutex_);
    impl_.index_bytes += record.bytes_read;
    for (const TensorRecord& tensor : record.tensors) {
      Cell cell = tensor.cell;
      cell.form = impl_.tables.FormNumber(tensor.dtype, tensor.shape, tensor.bytes);
      column.Set(impl_.tables.NameNumber(tensor.name), cell);
    }
  }

  Trajectory::Impl& impl_;
  const StepRule& rule_;
  Mutex mutex_;
};

/// While a checkpoint is read, up to kOpenShards of its files are open.
int ThreadsFor(const TrajectoryOptions& options) {
  const uint32_t most = std::max(1u, options.max_open_files / Trajectory::Impl::kOpenShards);
  return std::min(io::WorkerCount(options.threads), static_cast<int>(std::min(most, 64u)));
}

void ReadAll(Trajectory::Impl& impl, const StepRule& rule, std::vector<Wanted>& wanted) {
  Reader reader(impl, rule);
  io::Workers workers(ThreadsFor(impl.options), "dsckpt-run");
  for (Wanted& each : wanted) {
    workers.Run([&reader, &each] { each.status = reader.Read(each); });
  }
}

/// What was named itself has to open; of a run those that do not are left out.
Status KeepOpened(Trajectory::Impl& impl, std::vector<Wanted>& wanted) {
  for (Wanted& each : wanted) {
    if (each.status.ok()) {
      impl.members.push_back(std::move(each.member));
    } else if (each.member.run.empty()) {
      if (!each.status.path().empty()) return each.status;
      return std::move(each.status).WithPath(each.member.operand.path);
    } else {
      const std::string& at = each.status.path();
      const std::string prefix = at.empty() || at == each.member.operand.path ? "" : at + ": ";
      impl.skipped.emplace_back(each.member.operand.path, prefix + each.status.message());
    }
  }
  return {};
}

run::SaveRecord SaveOf(const Member& member) {
  return {member.name, member.step.step, member.serial, member.parent};
}

/// Of each run those that training has left behind.
void DropAbandoned(Trajectory::Impl& impl) {
  std::set<std::string> runs;
  for (const Member& member : impl.members) {
    if (!member.run.empty()) runs.insert(member.run);
  }
  std::unordered_set<std::string> left;
  for (const std::string& run : runs) {
    std::vector<run::SaveRecord> saves;
    std::vector<const Member*> members;
    for (const Member& member : impl.members) {
      if (member.run != run) continue;
      saves.push_back(SaveOf(member));
      members.push_back(&member);
    }
    const auto abandoned = run::FindAbandoned(saves, run::ReadLatest(run));
    for (size_t i = 0; i < members.size(); ++i) {
      if (abandoned[i]) left.insert(members[i]->operand.path);
    }
  }
  std::erase_if(impl.members, [&](const Member& member) {
    if (member.run.empty() || !left.contains(member.operand.path)) return false;
    impl.skipped.emplace_back(member.operand.path,
                              "abandoned: saved before the run was set back to an earlier step");
    return true;
  });
}

void Order(std::vector<Member>& members) {
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    if (a.step.step && b.step.step && *a.step.step != *b.step.step) {
      return *a.step.step < *b.step.step;
    }
    if (a.step.step.has_value() != b.step.step.has_value()) return a.step.step.has_value();
    return a.serial < b.serial;
  });
}

/// `auto_steps`: steps are those that an operand means.
void NameMembers(std::vector<Member>& members, bool auto_steps) {
  std::map<std::pair<std::string, int64_t>, int> same;
  for (const Member& member : members) {
    if (member.step.step) ++same[{member.run, *member.step.step}];
  }
  for (Member& member : members) {
    const bool told = auto_steps && !member.run.empty() && member.step.step &&
                      same[{member.run, *member.step.step}] == 1;
    member.text = told ? member.run + "@" + std::to_string(*member.step.step) : member.operand.path;
  }
}

void FillSpans(Trajectory::Impl& impl) {
  const std::vector<uint32_t> number_of = impl.tables.Sort();
  for (Member& member : impl.members) member.column.Renumber(number_of);
  impl.spans.resize(impl.tables.name_count());
  std::vector<std::set<uint32_t>> forms(impl.spans.size());
  for (uint32_t t = 0; t < impl.members.size(); ++t) {
    for (uint32_t i = 0; i < impl.spans.size(); ++i) {
      const auto cell = impl.members[t].column.Find(i);
      if (!cell) continue;
      Span& span = impl.spans[i];
      if (span.checkpoints++ == 0) span.first = t;
      span.last = t;
      span.last_form = cell->form;
      forms[i].insert(cell->form);
    }
  }
  for (size_t i = 0; i < forms.size(); ++i) {
    impl.spans[i].forms = static_cast<uint32_t>(forms[i].size());
  }
}

Status NoneFound(const Trajectory::Impl& impl, const std::string& where) {
  std::string message = "there is no complete checkpoint";
  if (!impl.skipped.empty()) {
    message += "; " + TerminalName(impl.skipped[0].first) + ": " + impl.skipped[0].second;
  }
  return Status(StatusCode::kNotFound, message).WithPath(where);
}

Result<Trajectory> Open(std::span<const std::string> operands,
                        std::optional<std::span<const int64_t>> steps,
                        const TrajectoryOptions& options) {
  if (operands.empty()) return Status(StatusCode::kInvalidArgument, "no checkpoints were given");
  auto impl = std::make_shared<Trajectory::Impl>();
  impl->options = options;
  impl->options.max_open_files = std::max(1u, options.max_open_files);
  DSCKPT_ASSIGN_OR_RETURN(const StepRule rule, StepRule::Parse(options.step_from));
  DSCKPT_ASSIGN_OR_RETURN(std::vector<Wanted> wanted, FindWanted(operands, impl->skipped));
  if (steps && (steps->size() != operands.size() || wanted.size() != operands.size())) {
    return Status(StatusCode::kInvalidArgument,
                  "each step needs one path of a single checkpoint, and each path one step");
  }
  for (size_t i = 0; steps && i < wanted.size(); ++i) wanted[i].step = (*steps)[i];
  ReadAll(*impl, rule, wanted);
  DSCKPT_RETURN_IF_ERROR(KeepOpened(*impl, wanted));
  DropAbandoned(*impl);
  std::sort(impl->skipped.begin(), impl->skipped.end());
  if (impl->members.empty()) return NoneFound(*impl, operands[0]);
  Order(impl->members);
  NameMembers(impl->members, options.step_from == "auto");
  FillSpans(*impl);
  impl->LimitOpen();
  return Trajectory(std::move(impl));
}

}  // namespace

}  // namespace trajectory

Result<Trajectory> Trajectory::Open(const std::string& run, const TrajectoryOptions& options) {
  return trajectory::Open(std::span(&run, 1), std::nullopt, options);
}

Result<Trajectory> Trajectory::Open(std::span<const std::string> operands,
                                    const TrajectoryOptions& options) {
  return trajectory::Open(operands, std::nullopt, options);
}

Result<Trajectory> Trajectory::Open(std::span<const std::string> operands,
                                    std::span<const int64_t> steps,
                                    const TrajectoryOptions& options) {
  return trajectory::Open(operands, steps, options);
}

}  // namespace dsckpt
