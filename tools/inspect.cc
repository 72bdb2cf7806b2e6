// dsckpt inspect: what a file holds.

#include "tools/inspect.h"

#include <memory>

#include "tools/commands.h"
#include "tools/survey.h"

namespace dsckpt::tools {
namespace {

int Inspect(Console& console, const InspectOptions& options) {
  if (IsCheckpointDirectory(options.path)) return InspectCheckpoint(console, options);
  if (IsDirectory(options.path)) return ListRun(console, options.path);
  const Result<File> file = File::Open(options.path);
  if (!file.ok()) return console.Fail(file.status());
  if (console.json()) {
    InspectJson(console, file.value(), options);
  } else {
    InspectText(console, file.value(), options);
  }
  return kExitOk;
}

}  // namespace

Command AddInspect(CLI::App& root) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* app =
      root.add_subcommand("inspect", "Show what a file, checkpoint or run directory holds");
  app->add_option("PATH", options->path, "A dsckpt or safetensors file, or a directory")
      ->required()
      ->option_text(" ");
  app->add_option("--filter", options->filters, "List only names that match a pattern; repeatable")
      ->allow_extra_args(false)
      ->option_text("GLOB");
  app->add_option("--sort", options->sort, "name (default), size (largest first) or offset")
      ->check(CLI::IsMember({"name", "size", "offset"}))
      ->option_text("KEY");
  app->add_option("--limit", options->limit, "At most N lines a list; 0: all (on a terminal: 40)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  app->add_flag("--tree", options->tree, "Show the state tree instead of the tables");
  app->footer(
      "Examples:\n"
      "  dsckpt inspect step-1200.dsckpt\n"
      "  dsckpt inspect model.safetensors --filter '*.weight' --sort size --limit 10\n"
      "  dsckpt inspect step-1200.dsckpt --tree\n"
      "  dsckpt inspect step-1200.dsckpt --json | jq '.tensors[].name'\n"
      "  dsckpt inspect run/step-0000001200 --filter 'layers.0.*'\n"
      "\n"
      "A pattern covers the whole name: * any text, ? one character, [a-z] one of a\n"
      "set. In JSON, \"digest\" is equal for equal content, dtype and shape, however\n"
      "stored; null in plain safetensors files. A row with \"alias_of\" is a second name\n"
      "of that tensor. Values that JSON lacks are objects with one key:\n"
      "  {\"$bigint\":\"-1\"} {\"$float\":\"nan\"} {\"$complex\":[0.0,1.0]}\n"
      "  {\"$bytes\":\"base64\"} {\"$tuple\":[]} {\"$dict\":[[key,value]]} (with int keys)\n"
      "  {\"$tag\":\"torch.Size\",\"value\":...} (a finer type)\n"
      "Items in the tree: {\"$tensor\":name}, {\"$alias\":name}, {\"$object\":name}.\n"
      "Of a checkpoint directory: its shards, whole tensors, what is missing; exit code\n"
      "1 when it is incomplete. Of a run directory: as dsckpt ls.");
  return {app, [options](Console& console) { return Inspect(console, *options); }};
}

}  // namespace dsckpt::tools
