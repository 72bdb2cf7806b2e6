// dsckpt merge: the shards of a checkpoint become one file, or another number of files.

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/merge_output.h"
#include "tools/merge_plan.h"
#include "tools/merge_tree.h"
#include "tools/model_index.h"
#include "tools/save.h"
#include "tools/survey.h"
#include "tools/text.h"

namespace dsckpt::tools {
namespace {

Result<Checkpoint> OpenInputs(const MergeOptions& options) {
  if (options.inputs.size() == 1 && IsModelIndex(options.inputs[0])) {
    return OpenModelIndex(options.inputs[0]);
  }
  if (!IsDirectory(options.inputs[0])) return Checkpoint::OpenShards(options.inputs, kAtOnce);
  if (options.inputs.size() > 1) {
    return Status(StatusCode::kInvalidArgument,
                  "merge takes one checkpoint directory or any number of shards, not " +
                      std::to_string(options.inputs.size()) +
                      " inputs with a directory among them");
  }
  return Checkpoint::Open(options.inputs[0], kAtOnce);
}

std::vector<std::string> InputFiles(const Checkpoint& checkpoint, const MergeOptions& options) {
  if (!checkpoint.has_manifest() && !IsModelIndex(options.inputs[0])) return options.inputs;
  std::vector<std::string> files = options.inputs;
  const std::string directory = checkpoint.has_manifest() ? checkpoint.path() + "/" : "";
  if (checkpoint.has_manifest()) files[0] = directory + kManifestName;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    files.push_back(directory + std::string(checkpoint.shard(i).name));
  }
  return files;
}

Result<MergedTree> MergeTrees(const Checkpoint& checkpoint) {
  MergedTree tree(checkpoint);
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) DSCKPT_RETURN_IF_ERROR(tree.Add(i));
  DSCKPT_RETURN_IF_ERROR(tree.PlaceTensors());
  return tree;
}

void ReportJson(Console& console, const MergeOptions& options, const Checkpoint& checkpoint,
                const MergePlan& plan, const MergedTree& tree) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.merge/1");
  json.Key("output").String(options.target.path);
  json.Key("dry_run").Bool(options.dry_run);
  json.Key("shards").Uint(checkpoint.shard_count());
  json.Key("pieces").Uint(plan.piece_count());
  json.Key("piece_bytes").Uint(plan.stored_bytes());
  json.Key("tensors").Uint(checkpoint.tensor_count() - plan.alias_count());
  json.Key("aliases").Uint(plan.alias_count());
  json.Key("objects").Uint(tree.object_count());
  json.Key("rank_specific").Uint(tree.rank_specific());
  json.Key("rank_own").Uint(tree.rank_own());
  json.Key("bytes").Uint(plan.total_bytes());
  json.Key("files").BeginArray(JsonWriter::Layout::kLines);
  for (size_t file = 0; file < plan.file_count(); ++file) {
    json.BeginObject();
    json.Key("tensors").Uint(plan.tensors(file));
    json.Key("bytes").Uint(plan.bytes(file));
    json.End();
  }
  json.End();
  json.End();
}

void ReportText(Console& console, const MergeOptions& options, const Checkpoint& checkpoint,
                const MergePlan& plan, const MergedTree& tree, double seconds) {
  console.Print("{}: {} in {} of {} -> {} in {}\n", SafeText(options.target.path),
                Count(plan.piece_count(), "piece"), HumanBytes(plan.stored_bytes()),
                Count(checkpoint.shard_count(), "shard"),
                Count(checkpoint.tensor_count() - plan.alias_count(), "tensor"),
                HumanBytes(plan.total_bytes()));
  if (options.dry_run) {
    for (size_t file = 0; file < plan.file_count(); ++file) {
      console.Print("  file {}: {}, {}\n", file + 1, Count(plan.tensors(file), "tensor"),
                    HumanBytes(plan.bytes(file)));
    }
    console.Write("  nothing was written (--dry-run)\n");
  } else {
    console.Print("  {} in {}\n", Count(plan.file_count(), "file"),
                  Rate(plan.total_bytes(), seconds));
  }
  if (plan.alias_count() != 0) console.Print("  {}\n", Count(plan.alias_count(), "tied name"));
  if (tree.object_count() != 0) console.Print("  {}\n", Count(tree.object_count(), "object"));
  if (tree.rank_own() != 0) {
    console.Print("  {} of the ranks' own: kept under ranks/RANK\n",
                  Count(tree.rank_own(), "subtree"));
  }
  if (tree.rank_specific() != 0) {
    console.Print("  {} differ from rank to rank: kept under ranks/RANK\n",
                  Count(tree.rank_specific(), "leaf or object"));
  }
}

}  // namespace

int Merge(Console& console, const MergeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Result<Checkpoint> checkpoint = OpenInputs(options);
  if (!checkpoint.ok()) return console.Fail(checkpoint.status());
  const Status target = CheckMergeTarget(options.target, InputFiles(*checkpoint, options));
  if (!target.ok()) return console.Fail(target);
  const auto plan = MergePlan::Make(*checkpoint, options.spread);
  if (!plan.ok()) return console.Fail(plan.status());
  const auto tree = MergeTrees(*checkpoint);
  if (!tree.ok()) return console.Fail(tree.status());
  if (!options.dry_run) {
    const InterruptGuard guard;
    const Status status =
        WriteMerged(console, {*checkpoint, *plan, *tree, !options.no_verify}, options.target);
    if (!status.ok()) {
      return FailOutput(console, {options.inputs[0], options.target.path, options.target.force},
                        status);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (console.json()) {
    ReportJson(console, options, *checkpoint, *plan, *tree);
  } else {
    ReportText(console, options, *checkpoint, *plan, *tree, seconds.count());
  }
  if (tree->flat() && !options.target.safetensors && checkpoint->shard_count() > 1) {
    console.Note("the shards have no state tree in common: the output has names alone");
  }
  return kExitOk;
}

Command AddMerge(CLI::App& root) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* app =
      root.add_subcommand("merge", "Make one file, or other shards, of a sharded checkpoint");
  app->add_option("INPUT", options->inputs,
                  "A checkpoint directory, its shards in rank order, or a model's .index.json")
      ->required()
      ->option_text("...");
  app->add_option("-o,--output", options->target.path, "What to write (required)")
      ->required()
      ->option_text("OUT");
  auto* const size = app->add_option("--max-shard-size", options->spread.max_shard_bytes,
                                     "Write a directory of files up to this size (5GB, 512MiB)")
                         ->transform(CLI::AsSizeValue(false))
                         ->option_text("SIZE");
  app->add_option("--shards", options->spread.shards, "Write a directory of about this many files")
      ->check(CLI::Range(1, 100000))
      ->excludes(size)
      ->option_text("M");
  app->add_option("--format", options->format,
                  "dsckpt (default), or safetensors, as Hugging Face tools load it")
      ->check(CLI::IsMember({"dsckpt", "safetensors"}))
      ->option_text("NAME");
  app->add_flag("--no-verify", options->no_verify, "Do not check the inputs' checksums");
  app->add_flag("--dry-run", options->dry_run, "Check and show what would be written");
  app->add_flag("--force", options->target.force, "Replace OUT if it exists");
  app->footer(
      "Examples:\n"
      "  dsckpt merge run/step-0000001200 -o model.dsckpt\n"
      "  dsckpt merge run/step-0000001200 -o model --max-shard-size 5GB --format safetensors\n"
      "  dsckpt merge rank0.dsckpt rank1.dsckpt -o whole.dsckpt --dry-run\n"
      "\n"
      "Tensors are put together to their whole shape from the pieces that the shards\n"
      "declare; copies are compared, never guessed: a gap or a difference is an error.\n"
      "Checksums are verified as bytes pass. Objects and leaves that differ from rank to\n"
      "rank are kept for each, under ranks/RANK. Inputs are never changed.\n"
      "Exit code: 0 done; 1 the checkpoint is incomplete or its copies differ; 2 could\n"
      "not do it.");
  return {app, [options](Console& console) {
            options->target.safetensors = options->format == "safetensors";
            options->target.directory =
                options->spread.max_shard_bytes != 0 || options->spread.shards != 0;
            return Merge(console, *options);
          }};
}

}  // namespace dsckpt::tools
