// dsckpt edit: a copy with other attributes, other names, or without some tensors.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/operand.h"
#include "tools/selection_options.h"
#include "tools/step.h"

namespace dsckpt::tools {
namespace {

struct Options {
  OutputOptions files;
  TensorSelection selection;
  std::vector<std::string> set, unset;
  bool no_verify = false;
};

/// Whether all that is read is plain safetensors: then the output is too.
bool IsPlain(const Checkpoint& checkpoint) {
  if (checkpoint.has_manifest()) return false;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    const auto shard = checkpoint.OpenShard(i);
    if (!shard.ok() || shard->format() != FileFormat::kSafetensors) return false;
  }
  return true;
}

Result<std::vector<AttributeChange>> Changes(const Options& options, bool plain) {
  std::vector<AttributeChange> changes;
  DSCKPT_ASSIGN_OR_RETURN(auto given, ParseAttributes(options.set, "--set"));
  for (size_t i = 0; i < given.size(); ++i) {
    // Metadata are text: 1.50 stays what it is.
    const std::string text = options.set[i].substr(options.set[i].find('=') + 1);
    changes.push_back({given[i].name, plain ? Value(text) : std::move(given[i].value)});
  }
  for (const std::string& name : options.unset) {
    const bool twice = std::any_of(changes.begin(), changes.end(),
                                   [&](const auto& change) { return change.name == name; });
    if (twice) {
      return Status(StatusCode::kInvalidArgument,
                    "edit: '" + name + "' is changed twice: give --set or --unset, once");
    }
    changes.push_back({name, std::nullopt});
  }
  return changes;
}

int Edit(Console& console, const Options& options) {
  if (options.set.empty() && options.unset.empty() && !options.selection.any()) {
    return console.Fail(Status(StatusCode::kInvalidArgument,
                               "edit: nothing to change: give --set, --unset, --filter, "
                               "--exclude, --strip-prefix, --rename or --dtype"));
  }
  MergeOptions merge;
  {
    // Closed before Merge() opens it: of a run each says what it takes.
    const auto inputs = merge::OpenInputs(std::vector{options.files.input}, false);
    if (!inputs.ok()) return console.Fail(inputs.status());
    const bool plain = IsPlain(inputs->checkpoint);
    if (plain) merge.container = Container::kSafetensors;
    auto changes = Changes(options, plain);
    if (!changes.ok()) return console.Fail(changes.status());
    merge.attributes = std::move(changes).value();
  }
  merge.selection = options.selection;
  merge.verify = !options.no_verify;
  merge.replace = options.files.force;
  return Merge(console, {options.files.input}, options.files.output, std::move(merge));
}

}  // namespace

Command AddEdit(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line =
      program.AddCommand("edit", "Copy a file with other attributes, other names or less in it");
  AddOutputOptions(line, options->files,
                   "A dsckpt or safetensors file; a checkpoint, run or model directory");
  line.Add("--set", options->set, "Give an attribute a value; repeatable")
      .Repeatable()
      .Placeholder("NAME=VALUE");
  line.Add("--unset", options->unset, "Leave an attribute out; repeatable")
      .Repeatable()
      .Placeholder("NAME");
  AddSelectionOptions(line, options->selection);
  line.AddFlag("--no-verify", options->no_verify, "Do not check the input's checksums");
  line.Footer(
      "Examples:\n"
      "  dsckpt edit step-1200.dsckpt -o out.dsckpt --set step=1200 --unset note\n"
      "  dsckpt edit model.safetensors -o out.safetensors --set format=pt\n"
      "  dsckpt edit model.safetensors -o out.safetensors --rename 's/^gpt_neox/model/'\n"
      "  dsckpt edit step-1200.dsckpt -o weights.dsckpt -f 'model/*' --strip-prefix model/\n"
      "\n"
      "The input is read once and never changes. The output is of the same kind as the\n"
      "input: one dsckpt file, with its state tree and objects, or one safetensors file,\n"
      "in which attributes are members of __metadata__. A VALUE is a number, true, false,\n"
      "null, or text; in safetensors always text. --unset takes members of __metadata__\n"
      "of a dsckpt file too. Selections and names are those of dsckpt merge: with them\n"
      "only tensors and attributes are written. --json prints what merge prints.\n"
      "Exit code: 0 done; 1 the input is damaged or incomplete; 2 could not do it.");
  return {line, [options](Console& console) { return Edit(console, *options); }};
}

}  // namespace dsckpt::tools
