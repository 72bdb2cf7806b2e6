// dsckpt merge: the shards of a checkpoint become one file, or another number of files.

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/items.h"
#include "tools/merge_output.h"
#include "tools/merge_plan.h"
#include "tools/merge_tree.h"
#include "tools/metadata.h"
#include "tools/operand.h"
#include "tools/save.h"
#include "tools/step.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

Result<MergedTree> MergeTrees(const Checkpoint& checkpoint) {
  MergedTree tree(checkpoint);
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) DSCKPT_RETURN_IF_ERROR(tree.Add(i));
  DSCKPT_RETURN_IF_ERROR(tree.PlaceTensors());
  return tree;
}

/// All that a merge works on, and what it has to tell afterwards.
struct Merging {
  const MergeOptions& options;
  Inputs inputs;
  MergePlan plan = {};
  std::optional<MergedTree> tree = {};
  Metadata metadata = {};
  std::atomic<uint64_t> overflows = 0;

  const Checkpoint& checkpoint() const { return inputs.checkpoint; }
  bool drops_rest() const {
    return options.target.safetensors || plan.choice().tensors_only || plan.choice().renamed;
  }
  uint64_t left_out_objects() const { return drops_rest() ? tree->object_count() : 0; }
};

/// Attributes in which the shards differ. The output has those of the first one.
std::vector<std::string> DifferingAttributes(const Checkpoint& checkpoint) {
  std::map<std::string, std::set<std::string>> values;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    const auto shard = checkpoint.OpenShard(i);
    const auto attributes = shard.ok() ? shard->attributes() : std::nullopt;
    if (!attributes) continue;
    for (const Node& attribute : *attributes) {
      values[std::string(attribute.key().text())].insert(ValueText(attribute.value()));
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, said] : values) {
    if (said.size() > 1) names.push_back(name);
  }
  return names;
}

void ReportJson(Console& console, const Merging& merging) {
  const MergePlan& plan = merging.plan;
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.merge/1");
  json.Key("output").String(merging.options.target.path);
  json.Key("dry_run").Bool(merging.options.dry_run);
  json.Key("shards").Uint(merging.checkpoint().shard_count());
  json.Key("pieces").Uint(plan.piece_count());
  json.Key("piece_bytes").Uint(plan.stored_bytes());
  json.Key("tensors").Uint(plan.tensor_count());
  json.Key("aliases").Uint(plan.alias_count());
  json.Key("cast").Uint(plan.cast_count());
  json.Key("became_infinite").Uint(merging.overflows);
  json.Key("objects").Uint(merging.drops_rest() ? 0 : merging.tree->object_count());
  json.Key("dropped_objects").Uint(merging.left_out_objects());
  json.Key("dropped_attributes").Uint(merging.metadata.lost_attributes());
  json.Key("dropped_aliases").Uint(plan.dropped_ties());
  json.Key("rank_specific").Uint(merging.tree->rank_specific());
  json.Key("rank_own").Uint(merging.tree->rank_own());
  json.Key("bytes").Uint(plan.total_bytes());
  json.Key("files").BeginArray(JsonWriter::Layout::kLines);
  for (size_t file = 0; file < plan.file_count(); ++file) {
    json.BeginObject();
    json.Key("tensors").Uint(plan.tensors(file));
    json.Key("bytes").Uint(plan.bytes(file));
    json.End();
  }
  json.End();
  merging.metadata.ReportJson(json);
  json.Key("conflicting_attributes").BeginArray();
  for (const std::string& name : DifferingAttributes(merging.checkpoint())) json.String(name);
  json.End();
  json.End();
}

void ReportText(Console& console, const Merging& merging, double seconds) {
  const MergePlan& plan = merging.plan;
  console.Print("{}: {} in {} of {} -> {} in {}\n", SafeText(merging.options.target.path),
                Count(plan.piece_count(), "piece"), HumanBytes(plan.stored_bytes()),
                Count(merging.checkpoint().shard_count(), "shard"),
                Count(plan.tensor_count(), "tensor"), HumanBytes(plan.total_bytes()));
  if (merging.options.dry_run) {
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
  if (plan.cast_count() != 0) {
    console.Print("  {} cast to {}\n", Count(plan.cast_count(), "tensor"),
                  FindDType(*plan.choice().dtype)->name);
  }
  if (merging.drops_rest()) return;
  const MergedTree& tree = *merging.tree;
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

bool Any(const Checkpoint& checkpoint, const std::function<bool(const File&)>& test) {
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    const auto shard = checkpoint.OpenShard(i);
    if (shard.ok() && test(*shard)) return true;
  }
  return false;
}

/// What the output lacks of the inputs: nothing goes in silence.
void NoteLeftOut(Console& console, const Merging& merging) {
  merging.metadata.Report(console);
  std::string rest;
  const auto add = [&](const std::string& what) { rest += (rest.empty() ? "" : ", ") + what; };
  if (merging.left_out_objects() != 0) add(Count(merging.left_out_objects(), "object"));
  if (merging.metadata.left_out_attributes() != 0)
    add(Count(merging.metadata.left_out_attributes(), "attribute"));
  if (merging.drops_rest() &&
      Any(merging.checkpoint(), [](const File& file) { return PlainValues(file) != 0; })) {
    add("the plain values of the state tree");
  }
  if (!rest.empty()) {
    console.Note((merging.options.target.safetensors ? "left out, as safetensors cannot hold them: "
                                                     : "left out, as tensors were selected: ") +
                 rest);
  }
  if (merging.plan.dropped_ties() != 0) {
    console.Note(Format("left out: {} for tensors that were renamed",
                        Count(merging.plan.dropped_ties(), "recorded second name")));
  }
  if (!merging.options.target.safetensors) {
    for (const std::string& name : DifferingAttributes(merging.checkpoint())) {
      console.Note(Format("the shards differ in the attribute '{}': the first one's is kept",
                          Printable(name)));
    }
  }
  if (merging.overflows != 0) {
    console.Note(Format(
        "{} too large for {} and became infinite",
        merging.overflows == 1 ? "1 element was" : Grouped(merging.overflows) + " elements were",
        FindDType(*merging.plan.choice().dtype)->name));
  }
  if (merging.tree->flat() && !merging.drops_rest() &&
      Any(merging.checkpoint(), [](const File& file) { return file.tree().has_value(); })) {
    console.Note("the shards have no state tree in common: the output has names alone");
  }
}

/// Attributes as metadata, where the output has none of its own.
Status TakeAttributes(Merging& merging) {
  if (!merging.options.target.safetensors) return {};
  for (uint32_t i = 0; i < merging.checkpoint().shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, merging.checkpoint().OpenShard(i));
    merging.metadata.AddAttributes(shard);
  }
  return {};
}

Status CheckStrict(const Merging& merging) {
  if (!merging.options.strict) return {};
  const uint64_t objects = merging.left_out_objects(),
                 attributes = merging.metadata.lost_attributes();
  if (objects == 0 && attributes == 0) return {};
  return Status(StatusCode::kUnsupported,
                Format("{}: safetensors cannot hold its {} and {}", merging.checkpoint().path(),
                       Count(objects, "object"), Count(attributes, "attribute")))
      .WithPath(merging.checkpoint().path());
}

Result<std::unique_ptr<Merging>> Prepare(Console& console, const MergeOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(Inputs inputs, OpenInputs(console, options.inputs));
  DSCKPT_RETURN_IF_ERROR(CheckMergeTarget(options.target, inputs.files));
  std::unique_ptr<Merging> merging(new Merging{options, std::move(inputs)});
  const Checkpoint& checkpoint = merging->checkpoint();
  DSCKPT_ASSIGN_OR_RETURN(
      merging->metadata, MergeMetadata(checkpoint, options.inputs[0], merging->inputs.index_members,
                                       !options.no_verify));
  DSCKPT_ASSIGN_OR_RETURN(Choice choice, MakeChoice(checkpoint, options.selection));
  DSCKPT_ASSIGN_OR_RETURN(choice.step, StepOfPlain(checkpoint, merging->metadata.members()));
  DSCKPT_ASSIGN_OR_RETURN(merging->plan,
                          MergePlan::Make(checkpoint, std::move(choice), options.spread));
  DSCKPT_ASSIGN_OR_RETURN(MergedTree tree, MergeTrees(checkpoint));
  merging->tree.emplace(std::move(tree));
  DSCKPT_RETURN_IF_ERROR(TakeAttributes(*merging));
  DSCKPT_RETURN_IF_ERROR(CheckStrict(*merging));
  return merging;
}

}  // namespace

int Merge(Console& console, const MergeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto prepared = Prepare(console, options);
  if (!prepared.ok()) return console.Fail(prepared.status());
  Merging& merging = **prepared;
  if (!options.dry_run) {
    const InterruptGuard guard;
    const Status status = WriteMerged(console,
                                      {merging.inputs.checkpoint, merging.plan, *merging.tree,
                                       merging.metadata, !options.no_verify, &merging.overflows},
                                      options.target);
    if (!status.ok()) {
      return FailOutput(console, {options.inputs[0], options.target.path, options.target.force},
                        status);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (console.json()) {
    ReportJson(console, merging);
  } else {
    ReportText(console, merging, seconds.count());
  }
  NoteLeftOut(console, merging);
  return kExitOk;
}

Command AddMerge(Program& program) {
  auto options = std::make_shared<MergeOptions>();
  auto format = std::make_shared<std::string>("dsckpt");
  CommandLine line =
      program.AddCommand("merge", "Make one file, or other shards, of a sharded checkpoint");
  line.Add("INPUT", options->inputs,
           "A checkpoint, run or model directory, an .index.json, or shards in rank order")
      .Required()
      .Placeholder("...");
  line.Add("-o,--output", options->target.path, "What to write (required)")
      .Required()
      .Placeholder("OUT");
  const Argument size = line.Add("--max-shard-size", options->spread.max_shard_bytes,
                                 "Write a directory of files up to this size (5GB, 512MiB)")
                            .Size()
                            .Placeholder("SIZE");
  line.Add("--shards", options->spread.shards, "Write a directory of about this many files")
      .Within(1, 100000)
      .Excludes(size)
      .Placeholder("M");
  line.Add("--format", *format, "dsckpt (default), or safetensors, as Hugging Face tools load it")
      .OneOf({"dsckpt", "safetensors"})
      .Placeholder("NAME");
  AddSelectionOptions(line, options->selection);
  line.AddFlag("--no-verify", options->no_verify, "Do not check the inputs' checksums");
  line.AddFlag("--dry-run", options->dry_run, "Check and show what would be written");
  line.AddFlag("--force", options->target.force, "Replace OUT if it exists");
  line.Footer(
      "Examples:\n"
      "  dsckpt merge run/step-0000001200 -o model.dsckpt\n"
      "  dsckpt merge run/step-0000001200 -o model --max-shard-size 5GB --format safetensors\n"
      "  dsckpt merge run/step-0000001200 -o model.safetensors --format safetensors \\\n"
      "    --filter 'model/*' --strip-prefix model/ --dtype BF16\n"
      "  dsckpt merge rank0.dsckpt rank1.dsckpt -o whole.dsckpt --dry-run\n"
      "\n"
      "Tensors are put together to their whole shape from the pieces that the shards\n"
      "declare; copies are compared, never guessed: a gap or a difference is an error.\n"
      "Checksums are verified as bytes pass. Objects and leaves that differ from rank to\n"
      "rank are kept for each, under ranks/RANK. Inputs are never changed. Members of\n"
      "__metadata__ are kept; where inputs differ in one it is left out, and said.\n"
      "--filter and --exclude are patterns over whole names: * any text, {a,b} either.\n"
      "With them, --strip-prefix or --rename only tensors and attributes are written;\n"
      "a rename is a regular expression, \\1 to \\9 its groups, & all of it. It takes names\n"
      "of up to 4,096 bytes, and is refused where it takes 150 million steps on one of them.\n"
      "Of a run its latest checkpoint is taken.\n"
      "Exit code: 0 done; 1 the checkpoint is incomplete or its copies differ; 2 could\n"
      "not do it.");
  return {line, [options, format](Console& console) {
            options->target.safetensors = *format == "safetensors";
            options->target.directory =
                options->spread.max_shard_bytes != 0 || options->spread.shards != 0;
            return Merge(console, *options);
          }};
}

}  // namespace dsckpt::tools
