// dsckpt inspect: what a file holds.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/inspect/inspect.h"
#include "tools/operand.h"

namespace dsckpt::tools {
namespace {

struct InspectCommand {
  std::vector<std::string> paths;
  InspectOptions options;
};

/// What options ask of each other, whatever they are for.
Status CheckListing(const Console& console, const InspectOptions& options) {
  const auto invalid = [](const char* why) { return Status(StatusCode::kInvalidArgument, why); };
  if (options.collapse && options.no_collapse) {
    return invalid("inspect: --collapse and --no-collapse say the opposite: give one of them");
  }
  if (options.depth && !options.tree) return invalid("inspect: --depth is for --tree");
  if (console.json() && (options.collapse || options.depth)) {
    return invalid("inspect: --json gives every name: leave out --collapse and --depth");
  }
  return {};
}

Status Refuse(const Operand& operand, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, operand.path + why).WithPath(operand.path);
}

/// No option is ignored without a word.
Status CheckOptions(const Operand& operand, const InspectOptions& options, bool json) {
  const bool listed = options.names.any() || options.sort != "name" || options.limit;
  switch (operand.kind) {
    case OperandKind::kRun:
      if (!listed && !options.tree) return {};
      return Refuse(operand,
                    " is a run: --filter, --exclude, --sort, --limit and --tree are for "
                    "files and checkpoints, which 'dsckpt ls' lists");
    case OperandKind::kCheckpoint:
    case OperandKind::kIndex:
      if (options.tree && json) {
        return Refuse(operand,
                      " is in several files, each of which has a tree of its own: --tree "
                      "--json of one of them");
      }
      if (options.sort == "offset") {
        return Refuse(operand,
                      " is in several files, so that offsets mean nothing: --sort name "
                      "or size");
      }
      return {};
    case OperandKind::kFile:
      break;
  }
  if (!options.tree || (!options.names.any() && options.sort == "name")) return {};
  return Refuse(operand,
                ": --tree shows the whole state tree in its own order: leave out "
                "--filter, --exclude and --sort");
}

int InspectFile(Console& console, const InspectOptions& options) {
  const Result<File> file = File::Open(options.path, {.map = false});
  if (!file.ok()) return console.Fail(file.status());
  if (console.json()) {
    InspectJson(console, file.value(), options);
  } else {
    InspectText(console, file.value(), options);
  }
  // As grep does.
  const bool nothing = options.names.any() &&
                       SelectTensors(*file, options.names, SortBy::kName).empty() &&
                       SelectObjects(*file, options.names).empty();
  return nothing ? kExitNo : kExitOk;
}

int Inspect(Console& console, const std::string& path, const InspectOptions& given) {
  const Result<Operand> operand = ToOperand(path);
  if (!operand.ok()) return console.Fail(operand.status());
  if (const Status status = CheckOptions(*operand, given, console.json()); !status.ok()) {
    return console.Fail(status);
  }
  InspectOptions options = given;
  options.path = operand->path;
  if (operand->kind == OperandKind::kFile) return InspectFile(console, options);
  if (operand->kind == OperandKind::kRun) return ListRun(console, options.path);
  const Result<Inputs> inputs = OpenInputs(console, {options.path});
  if (!inputs.ok()) return console.Fail(inputs.status());
  return InspectCheckpoint(console, *inputs, options);
}

int InspectAll(Console& console, const InspectCommand& command) {
  if (const Status status = CheckListing(console, command.options); !status.ok()) {
    return console.Fail(status);
  }
  if (command.paths.size() > 1) console.OneLineDocuments();
  int code = kExitOk;
  for (const std::string& path : command.paths) {
    if (&path != &command.paths.front() && !console.json()) console.Write("\n");
    code = std::max(code, Inspect(console, path, command.options));
    if (!console.writable()) break;
  }
  return code;
}

}  // namespace

Command AddInspect(Program& program) {
  auto command = std::make_shared<InspectCommand>();
  InspectOptions* const options = &command->options;
  CommandLine line =
      program.AddCommand("inspect", "Show what a file, checkpoint or run directory holds");
  line.Add("PATH", command->paths,
           "dsckpt or safetensors files; checkpoint, run or model directories; .index.json")
      .Required()
      .Placeholder("...");
  AddNameFilter(line, options->names, "List only names that match a pattern; repeatable",
                "Not those that match; repeatable");
  line.Add("--sort", options->sort, "name (default), size (largest first) or offset")
      .OneOf({"name", "size", "offset"})
      .Placeholder("KEY");
  line.Add("--limit", options->limit, "At most N lines a list; 0: all (on a terminal: 40)")
      .FromZero()
      .Placeholder("N");
  line.AddFlag("--tree", options->tree, "Show the state tree instead of the tables");
  line.Add("--depth", options->depth, "Levels of the tree; 0 (default): all")
      .FromZero()
      .Placeholder("N");
  line.AddFlag("--collapse", options->collapse,
               "One row for names that differ in numbers alone (layers.#)");
  line.AddFlag("--no-collapse", options->no_collapse,
               "Each name on its own; else a terminal collapses more than 40");
  line.Footer(
      "Examples:\n"
      "  dsckpt inspect step-1200.dsckpt\n"
      "  dsckpt inspect model.safetensors --filter '*.weight' --sort size --limit 10\n"
      "  dsckpt inspect step-1200.dsckpt --tree\n"
      "  dsckpt inspect model.safetensors --tree --depth 2\n"
      "  dsckpt inspect step-1200.dsckpt --json | jq '.tensors[].name'\n"
      "  dsckpt inspect run/*.dsckpt --json | jq .attributes.loss\n"
      "  dsckpt inspect run/step-0000001200 --filter 'layers.0.*'\n"
      "\n"
      "A pattern covers the whole name: * any text, ? one character, [a-z] one of a\n"
      "set, {a,b} one of these. With one, totals are of what it takes. In JSON, \"digest\"\n"
      "is equal for equal content, dtype and shape, however stored; null in plain\n"
      "safetensors files (dsckpt hash computes it) and for tensors in parts. A row with\n"
      "\"alias_of\" is a second name of that tensor. Values that JSON lacks, and paths\n"
      "that are not UTF-8 ($bytes), are objects with one key:\n"
      "  {\"$bigint\":\"-1\"} {\"$float\":\"nan\"} {\"$complex\":[0.0,1.0]}\n"
      "  {\"$bytes\":\"base64\"} {\"$tuple\":[]} {\"$dict\":[[key,value]]} (with int keys)\n"
      "  {\"$tag\":\"torch.Size\",\"value\":...} (a finer type)\n"
      "Items in the tree: {\"$tensor\":name}, {\"$alias\":name}, {\"$object\":name}.\n"
      "Of a checkpoint directory: its shards, whole tensors, rank 0's attributes, what is\n"
      "missing. Of a run directory: as dsckpt ls. Of a\n"
      "model's directory: its model.safetensors or the files of its .index.json.\n"
      "Of several files and without a state tree, --tree is made of the names, split at '.' and "
      "'/'. With --json\n"
      "several paths give a document a line.\n"
      "Exit code: 0 shown; 1 it is damaged or incomplete, or patterns take nothing; 2 could not "
      "look.");
  return {line, [command](Console& console) { return InspectAll(console, *command); }};
}

}  // namespace dsckpt::tools
