// dsckpt merge: the shards of a checkpoint become one file, or another number of files.

#include "dsckpt/merge.h"

#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands.h"
#include "tools/conflicts.h"
#include "tools/conversions.h"
#include "tools/operand.h"
#include "tools/save.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct Options {
  std::vector<std::string> inputs;
  std::string output;
  std::string format = "dsckpt";
  MergeOptions merge;
  bool no_verify = false;
};

/// Whether the output stands and only --force is missing; whatever else is wrong with it is found
/// later.
bool NeedsForce(const std::string& output, const MergeOptions& options) {
  struct stat there {};
  return !options.replace && stat(output.c_str(), &there) == 0 &&
         (options.makes_directory() ? S_ISDIR(there.st_mode) : S_ISREG(there.st_mode));
}

void ReportJson(Console& console, const std::string& output, bool dry_run,
                const MergeReport& report) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.merge/1");
  json.Key("output").String(output);
  json.Key("dry_run").Bool(dry_run);
  json.Key("shards").Uint(report.shards);
  json.Key("pieces").Uint(report.pieces);
  json.Key("piece_bytes").Uint(report.piece_bytes);
  json.Key("tensors").Uint(report.tensors);
  json.Key("aliases").Uint(report.aliases);
  json.Key("cast").Uint(report.cast);
  json.Key("became_infinite").Uint(report.became_infinite);
  json.Key("objects").Uint(report.objects);
  json.Key("dropped_objects").Uint(report.dropped.objects);
  json.Key("dropped_attributes").Uint(report.dropped.attributes);
  json.Key("dropped_aliases").Uint(report.dropped.aliases);
  json.Key("rank_specific").Uint(report.rank_specific);
  json.Key("rank_own").Uint(report.rank_own);
  json.Key("bytes").Uint(report.bytes);
  json.Key("files").BeginArray(JsonWriter::Layout::kLines);
  for (const MergeReport::OutputFile& file : report.files) {
    json.BeginObject();
    json.Key("tensors").Uint(file.tensors);
    json.Key("bytes").Uint(file.bytes);
    json.End();
  }
  json.End();
  WriteConflicts(json, report.conflicting_metadata);
  json.Key("conflicting_attributes").BeginArray();
  for (const std::string& name : report.conflicting_attributes) json.String(name);
  json.End();
  json.End();
}

void ReportText(Console& console, const std::string& output, const MergeOptions& options,
                const MergeReport& report, double seconds) {
  console.Print("{}: {} in {} of {} -> {} in {}\n", SafeText(output), Count(report.pieces, "piece"),
                HumanBytes(report.piece_bytes), Count(report.shards, "shard"),
                Count(report.tensors, "tensor"), HumanBytes(report.bytes));
  if (options.dry_run) {
    for (size_t i = 0; i < report.files.size(); ++i) {
      console.Print("  file {}: {}, {}\n", i + 1, Count(report.files[i].tensors, "tensor"),
                    HumanBytes(report.files[i].bytes));
    }
    console.Write("  nothing was written (--dry-run)\n");
  } else {
    console.Print("  {} in {}\n", Count(report.files.size(), "file"), Rate(report.bytes, seconds));
  }
  if (report.aliases != 0) console.Print("  {}\n", Count(report.aliases, "tied name"));
  if (report.cast != 0) {
    console.Print("  {} cast to {}\n", Count(report.cast, "tensor"),
                  FindDType(*options.selection.dtype)->name);
  }
  if (report.objects != 0) console.Print("  {}\n", Count(report.objects, "object"));
  if (report.tensors_only) return;
  if (report.rank_own != 0) {
    console.Print("  {} of the ranks' own: kept under ranks/RANK\n",
                  Count(report.rank_own, "subtree"));
  }
  if (report.rank_specific != 0) {
    console.Print("  {} differ from rank to rank: kept under ranks/RANK\n",
                  Count(report.rank_specific, "leaf or object"));
  }
}

/// What the output lacks of the inputs: nothing goes in silence.
void NoteLeftOut(Console& console, const MergeOptions& options, const MergeReport& report) {
  const bool safetensors = options.container == Container::kSafetensors;
  NoteConflicts(console, report.unreadable_metadata, report.conflicting_metadata);
  std::string rest;
  const auto add = [&](const std::string& what) { rest += (rest.empty() ? "" : ", ") + what; };
  if (report.dropped.objects != 0) add(Count(report.dropped.objects, "object"));
  if (report.dropped.inexpressible_attributes != 0) {
    add(Count(report.dropped.inexpressible_attributes, "attribute"));
  }
  if (report.dropped.values) add("the plain values of the state tree");
  if (!rest.empty()) {
    console.Note((safetensors ? "left out, as safetensors cannot hold them: "
                              : "left out, as tensors were selected: ") +
                 rest);
  }
  if (report.dropped.aliases != 0) {
    console.Note(Format("left out: {} for tensors that were renamed",
                        Count(report.dropped.aliases, "recorded second name")));
  }
  if (!safetensors) {
    for (const std::string& name : report.conflicting_attributes) {
      console.Note(Format("the shards differ in the attribute '{}': the first one's is kept",
                          TerminalName(name)));
    }
  }
  if (report.became_infinite != 0) {
    console.Note(Format("{} too large for {} and became infinite",
                        report.became_infinite == 1
                            ? "1 element was"
                            : Grouped(report.became_infinite) + " elements were",
                        FindDType(*options.selection.dtype)->name));
  }
  if (report.dropped.trees) {
    console.Note("the shards have no state tree in common: the output has names alone");
  }
}

}  // namespace

int Merge(Console& console, const std::vector<std::string>& inputs, const std::string& output,
          MergeOptions options) {
  const auto start = std::chrono::steady_clock::now();
  if (NeedsForce(output, options)) {
    return console.Fail(Status(StatusCode::kAlreadyExists, output + " exists: --force replaces it")
                            .WithPath(output));
  }
  Result<MergeReport> report = MergeReport();
  {
    std::optional<ProgressBar> bar;
    options.progress = [&](uint64_t done, uint64_t total) {
      if (!bar) bar.emplace(console, SafeText(output));
      bar->Update(done, total);
    };
    const InterruptGuard guard;
    options.cancelled = [] { return InterruptGuard::signal() != 0; };
    report = dsckpt::Merge(inputs, output, options);
    bar.reset();
    const StatusCode code = report.status().code();
    const bool mistake = code == StatusCode::kInvalidArgument || code == StatusCode::kAlreadyExists;
    if (!report.ok() && !mistake) {
      return FailOutput(console, {inputs[0], output, options.replace}, report.status());
    }
  }
  if (!report.ok()) return console.Fail(report.status());
  NoteLatest(console, inputs[0], report->latest_of_run);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (console.json()) {
    ReportJson(console, output, options.dry_run, *report);
  } else {
    ReportText(console, output, options, *report, seconds.count());
  }
  NoteLeftOut(console, options, *report);
  return kExitOk;
}

Command AddMerge(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line =
      program.AddCommand("merge", "Make one file, or other shards, of a sharded checkpoint");
  line.Add("INPUT", options->inputs,
           "A checkpoint, run or model directory, an .index.json, or shards in rank order")
      .Required()
      .Placeholder("...");
  line.Add("-o,--output", options->output, "What to write (required)")
      .Required()
      .Placeholder("OUT");
  const Argument size = line.Add("--max-shard-size", options->merge.max_shard_bytes,
                                 "Write a directory of files up to this size (5GB, 512MiB)")
                            .Size()
                            .Placeholder("SIZE");
  line.Add("--shards", options->merge.shards, "Write a directory of about this many files")
      .Within(1, 100000)
      .Excludes(size)
      .Placeholder("M");
  line.Add("--format", options->format,
           "dsckpt (default), or safetensors, as Hugging Face tools load it")
      .OneOf({"dsckpt", "safetensors"})
      .Placeholder("NAME");
  AddSelectionOptions(line, options->merge.selection);
  line.AddFlag("--no-verify", options->no_verify, "Do not check the inputs' checksums");
  line.AddFlag("--ignore-header", options->merge.ignore_header,
               "Take what the index says where the JSON header differs or is damaged");
  line.AddFlag("--dry-run", options->merge.dry_run, "Check and show what would be written");
  line.AddFlag("--force", options->merge.replace, "Replace OUT if it exists");
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
  return {line, [options](Console& console) {
            MergeOptions merge = options->merge;
            if (options->format == "safetensors") merge.container = Container::kSafetensors;
            merge.verify = !options->no_verify;
            return Merge(console, options->inputs, options->output, std::move(merge));
          }};
}

}  // namespace dsckpt::tools
