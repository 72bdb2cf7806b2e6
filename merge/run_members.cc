#include "merge/run_members.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/unicode.h"
#include "dsckpt/run_layout.h"
#include "io/directory.h"
#include "io/path.h"
#include "io/workers.h"
#include "merge/paths.h"
#include "run/manifest_file.h"
#include "run/save_order.h"

namespace dsckpt::merge {

namespace {

struct Found {
  Operand operand;
  run::SaveRecord save;
};

std::optional<Found> Examine(const RunMember& member) {
  const auto inputs = OpenOperand(member.operand, kAtOnce);
  if (!inputs.ok() || !CheckStands(inputs->checkpoint).ok()) return std::nullopt;
  const Checkpoint& checkpoint = inputs->checkpoint;
  return Found{member.operand,
               {member.name, StepOf(checkpoint, member.operand).step, checkpoint.serial(),
                checkpoint.parent()}};
}

/// The complete ones, in the order of steps, those without one last. Of equal steps the one that
/// was saved last comes last.
Result<std::vector<Found>> FindMembers(const std::string& run) {
  DSCKPT_ASSIGN_OR_RETURN(const RunMembers listed, ListMembers(run));
  std::vector<std::optional<Found>> opened(listed.members.size());
  {
    io::Workers workers(io::WorkerCount(0), "dsckpt-run");
    for (size_t i = 0; i < opened.size(); ++i) {
      workers.Run([&, i] { opened[i] = Examine(listed.members[i]); });
    }
  }
  std::vector<Found> found;
  for (auto& each : opened) {
    if (each) found.push_back(*std::move(each));
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return run::SavedBefore(a.save, b.save); });
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (!a.save.step || !b.save.step) return a.save.step.has_value() && !b.save.step;
    return *a.save.step < *b.save.step;
  });
  return found;
}

void DropAbandoned(const std::string& run, std::vector<Found>& found) {
  std::vector<run::SaveRecord> saves;
  for (const Found& each : found) saves.push_back(each.save);
  const auto abandoned = run::FindAbandoned(saves, run::ReadLatest(run));
  size_t i = 0;
  std::erase_if(found, [&](const Found&) { return abandoned[i++]; });
}

Status NoSuch(const RunAndChoice& chosen, const std::string& why) {
  return Status(StatusCode::kNotFound, chosen.run + "@" + chosen.choice + ": " + why +
                                           " ('dsckpt ls " + chosen.run + "' lists the run)")
      .WithPath(chosen.run);
}

Result<Operand> AtStep(const RunAndChoice& chosen, int64_t step, const std::vector<Found>& found) {
  std::optional<int64_t> below, above;
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    if (!each->save.step) continue;
    if (*each->save.step == step) return each->operand;
    (*each->save.step < step ? below : above) =
        *each->save.step < step ? below.value_or(*each->save.step) : *each->save.step;
  }
  std::string near;
  if (below) near = std::to_string(*below);
  if (above) near += (near.empty() ? "" : " and ") + std::to_string(*above);
  return NoSuch(
      chosen,
      "the run has no complete checkpoint of this step" +
          (near.empty() ? std::string()
                        : (below && above ? "; next to it are " : "; next to it is ") + near));
}

Result<Operand> Latest(const RunAndChoice& chosen) {
  if (const auto listed = RunDirectory::Open(chosen.run); listed.ok()) {
    const auto latest = listed->Latest(kAtOnce);
    if (latest.ok()) return ToOperand(latest->path());
  }
  DSCKPT_ASSIGN_OR_RETURN(auto found, FindMembers(chosen.run));
  std::erase_if(found, [](const Found& each) { return !each.save.step; });
  if (found.empty()) return NoSuch(chosen, "the run has no complete checkpoint with a known step");
  return found.back().operand;
}

}  // namespace

Result<RunMembers> ListMembers(const std::string& run) {
  const std::string path(io::WithoutTrailingSlashes(run));
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(path));
  RunMembers found;
  for (const std::string& name : names) {
    const std::string whole = path + "/" + name;
    if (RunDirectory::IsLeftOver(name) && name[0] != '.') {
      found.skipped.emplace_back(whole, "a save that was not completed, or is being removed");
    }
    if (IsHiddenRunEntry(name)) continue;
    auto operand = ToOperand(whole);
    if (!operand.ok()) {
      found.skipped.emplace_back(whole, operand.status().message());
    } else if (operand->kind == OperandKind::kRun) {
      found.skipped.emplace_back(whole, "a directory without a manifest or a model");
    } else {
      found.members.push_back({name, *std::move(operand)});
    }
  }
  return found;
}

MemberStep StepOf(const Checkpoint& checkpoint, const Operand& operand) {
  if (checkpoint.step() != kUnknownStep) return {checkpoint.step(), checkpoint.step_source()};
  if (operand.kind == OperandKind::kCheckpoint) return {};
  const std::string directory = io::ParentOf(operand.path);
  const auto step = StepInName(io::BaseName(directory));
  const bool model = operand.kind == OperandKind::kIndex ||
                     io::BaseName(operand.path).starts_with("model.safetensors");
  if (!step || !model) return {};
  return {step, StepSource::kName};
}

Status CheckStands(const Checkpoint& checkpoint) {
  if (!checkpoint.has_manifest()) return {};
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    const ShardInfo shard = checkpoint.shard(i);
    const std::string path = checkpoint.path() + "/" + std::string(shard.name);
    const auto bytes = io::FileBytes(path);
    if (bytes.ok() && *bytes == shard.file_bytes) continue;
    return Status(StatusCode::kIncomplete, bytes.ok()
                                               ? "a shard has " + std::to_string(*bytes) +
                                                     " bytes, and the manifest says " +
                                                     std::to_string(shard.file_bytes)
                                               : "a shard is missing: " + bytes.status().message())
        .WithPath(path);
  }
  return {};
}

std::optional<RunAndChoice> SplitChoice(const std::string& path) {
  const size_t at = path.rfind('@');
  if (at == std::string::npos || at == 0 || FileExists(path)) return std::nullopt;
  const std::string run = path.substr(0, at);
  if (!IsDirectory(run)) return std::nullopt;
  return RunAndChoice{run, path.substr(at + 1)};
}

Result<Operand> ChooseMember(const RunAndChoice& chosen) {
  DSCKPT_ASSIGN_OR_RETURN(const Operand run, ToOperand(chosen.run));
  const std::string& text = chosen.choice;
  if (run.kind != OperandKind::kRun) {
    return Status(StatusCode::kInvalidArgument,
                  chosen.run + "@" + text + ": " + chosen.run +
                      " is one checkpoint or model and no run: give it without @" + text)
        .WithPath(chosen.run);
  }
  if (text == "latest") return Latest(chosen);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text == "-0") {
    return Status(StatusCode::kInvalidArgument,
                  chosen.run + "@" + text +
                      ": behind @ stands a step, latest, or -N for the N-th checkpoint from the "
                      "end")
        .WithPath(chosen.run);
  }
  DSCKPT_ASSIGN_OR_RETURN(auto found, FindMembers(chosen.run));
  if (number >= 0) return AtStep(chosen, number, found);
  DropAbandoned(chosen.run, found);
  std::erase_if(found, [](const Found& each) { return !each.save.step; });
  // -(number + 1) does not overflow, whatever the number is.
  const auto back = static_cast<uint64_t>(-(number + 1));
  if (back >= found.size()) {
    return NoSuch(chosen, "the run has " + std::to_string(found.size()) +
                              " complete checkpoints with a known step");
  }
  return found[found.size() - 1 - back].operand;
}

}  // namespace dsckpt::merge
