// Merge(): inputs, a plan of them, the output, and a report.

#include "dsckpt/merge.h"

#include <optional>
#include <utility>

#include "base/guarded.h"
#include "merge/inputs.h"
#include "merge/made.h"
#include "merge/metadata.h"
#include "merge/output.h"
#include "merge/plan.h"
#include "merge/provider.h"
#include "merge/tree.h"

namespace dsckpt {
namespace merge {
namespace {

Result<MergedTree> MergeTrees(const Checkpoint& checkpoint, Cancellation& cancellation) {
  MergedTree tree(checkpoint);
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_RETURN_IF_ERROR(cancellation.Check());
    DSCKPT_RETURN_IF_ERROR(tree.Add(i));
  }
  DSCKPT_RETURN_IF_ERROR(tree.PlaceTensors());
  return tree;
}

bool HasPlainValue(const Node& node) {
  if (node.is_container()) {
    for (const Node& child : node) {
      if (HasPlainValue(child)) return true;
    }
    return false;
  }
  return node.kind() != NodeKind::kTensor && node.kind() != NodeKind::kAlias &&
         node.kind() != NodeKind::kObject;
}

/// What the trees of the shards hold that the output does not.
Status ReportTrees(const Checkpoint& checkpoint, const MergedTree& tree, MergeReport& report) {
  if (!report.tensors_only && !tree.flat()) return Status();
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    const std::optional<Node> root = shard.tree();
    if (!root) continue;
    if (!report.tensors_only) report.dropped.trees = true;
    if (report.tensors_only && HasPlainValue(*root)) report.dropped.values = true;
    if (report.dropped.trees || report.dropped.values) break;
  }
  return Status();
}

Result<MergeReport> ReportOf(const Inputs& inputs, const MergeInput& input) {
  const MergePlan& plan = input.plan;
  MergeReport report;
  report.latest_of_run = inputs.latest_of_run;
  report.shards = input.checkpoint.shard_count();
  report.pieces = plan.piece_count();
  report.piece_bytes = plan.stored_bytes();
  report.tensors = plan.tensor_count();
  report.aliases = plan.alias_count();
  report.bytes = plan.total_bytes();
  report.cast = plan.cast_count();
  report.rank_specific = input.tree.rank_specific();
  report.rank_own = input.tree.rank_own();
  for (size_t file = 0; file < plan.file_count(); ++file) {
    report.files.push_back({plan.tensors(file), plan.bytes(file)});
  }
  report.tensors_only = input.options.container == Container::kSafetensors ||
                        plan.choice().tensors_only || plan.choice().renamed;
  (report.tensors_only ? report.dropped.objects : report.objects) = input.tree.object_count();
  DSCKPT_RETURN_IF_ERROR(ReportTrees(input.checkpoint, input.tree, report));
  report.dropped.inexpressible_attributes = input.metadata.left_out_attributes();
  report.dropped.attributes = input.metadata.lost_attributes();
  report.dropped.aliases = plan.dropped_ties();
  report.conflicting_metadata = input.metadata.conflicts();
  report.unreadable_metadata = input.metadata.unreadable();
  DSCKPT_ASSIGN_OR_RETURN(report.conflicting_attributes, DifferingAttributes(input.checkpoint));
  return report;
}

Status CheckStrict(const Checkpoint& checkpoint, const MergeReport& report) {
  if (report.dropped.objects == 0 && report.dropped.attributes == 0) return {};
  const auto count = [](uint64_t number, const char* noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
  };
  return Status(StatusCode::kUnsupported, checkpoint.path() + ": safetensors cannot hold its " +
                                              count(report.dropped.objects, "object") + " and " +
                                              count(report.dropped.attributes, "attribute"))
      .WithPath(checkpoint.path());
}

Status CheckOptions(std::span<const std::string> inputs, const MergeOptions& options) {
  const auto invalid = [](const char* why) { return Status(StatusCode::kInvalidArgument, why); };
  if (inputs.empty()) return invalid("there is nothing to merge: name at least one input");
  if (options.max_shard_bytes != 0 && options.shards != 0) {
    return invalid("max_shard_bytes and shards both say how many files are written: give one");
  }
  return Status();
}

Status Run(const Inputs& inputs, const std::string& path, const std::string& output,
           const MergeOptions& options, const MakeTensor& make, std::span<const std::string> files,
           MergeReport& report) {
  Cancellation cancellation{options.cancelled};
  const Checkpoint& checkpoint = inputs.checkpoint;
  DSCKPT_RETURN_IF_ERROR(CheckOutput(output, options, inputs.files));
  DSCKPT_RETURN_IF_ERROR(CheckOutput(output, options, {files.begin(), files.end()}));
  if (options.verify) DSCKPT_RETURN_IF_ERROR(CheckVerifiable(checkpoint));
  DSCKPT_ASSIGN_OR_RETURN(Metadata metadata,
                          MergeMetadata(checkpoint, path, inputs.index_members,
                                        options.verify && !options.ignore_header));
  DSCKPT_ASSIGN_OR_RETURN(Choice choice, MakeChoice(checkpoint, options.selection));
  DSCKPT_ASSIGN_OR_RETURN(choice.step, StepOfPlain(checkpoint, metadata.members()));
  DSCKPT_ASSIGN_OR_RETURN(const MergePlan plan,
                          MergePlan::Make(checkpoint, std::move(choice), options, cancellation));
  DSCKPT_ASSIGN_OR_RETURN(const MergedTree tree, MergeTrees(checkpoint, cancellation));
  if (options.container == Container::kSafetensors) {
    for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
      DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
      metadata.AddAttributes(shard);
    }
  }
  DSCKPT_RETURN_IF_ERROR(metadata.Change(options.attributes,
                                         options.container == Container::kSafetensors, checkpoint));
  MergeInput input{checkpoint, plan, tree, metadata, options, make, cancellation};
  DSCKPT_ASSIGN_OR_RETURN(report, ReportOf(inputs, input));
  if (options.strict) DSCKPT_RETURN_IF_ERROR(CheckStrict(checkpoint, report));
  if (options.dry_run) return cancellation.Check();
  DSCKPT_RETURN_IF_ERROR(WriteOutput(input, output));
  report.became_infinite = input.overflows;
  return Status();
}

}  // namespace

Result<MergeReport> MergeInputs(const Inputs& inputs, const std::string& path,
                                const std::string& output, const MergeOptions& options,
                                const MakeTensor& make, std::span<const std::string> files) {
  MergeReport report;
  DSCKPT_RETURN_IF_ERROR(
      Guarded([&] { return Run(inputs, path, output, options, make, files, report); }));
  return report;
}

}  // namespace merge

Result<MergeReport> Merge(std::span<const std::string> inputs, const std::string& output,
                          const MergeOptions& options) {
  std::optional<merge::Inputs> opened;
  DSCKPT_RETURN_IF_ERROR(merge::CheckOptions(inputs, options));
  const auto open = [&]() -> Status {
    DSCKPT_ASSIGN_OR_RETURN(opened, merge::OpenInputs(inputs, options.ignore_header));
    return {};
  };
  const Status status = Guarded(open);
  if (!status.ok()) return status;
  return merge::MergeInputs(*opened, inputs[0], output, options, nullptr, {});
}

}  // namespace dsckpt
