// dsckpt convert: between this library's files and safetensors, by what the input is.

#include <memory>
#include <string>
#include <utility>

#include "dsckpt/file.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/operand.h"
#include "tools/selection_options.h"

namespace dsckpt::tools {
namespace {

struct Options {
  OutputOptions files;
  TensorSelection selection;
  std::string format;  // empty: the one that the input is not
  uint64_t max_shard_bytes = 0;
  bool no_verify = false;
};

struct Input {
  Operand operand;
  bool safetensors = false;  // else dsckpt
};

Result<Input> Recognize(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(Operand operand, ToOperand(path));
  if (operand.kind != OperandKind::kFile) {
    const bool index = operand.kind == OperandKind::kIndex;
    return Input{std::move(operand), index};
  }
  const auto file = File::Open(operand.path, {.map = false});
  if (file.ok()) return Input{std::move(operand), file->format() == FileFormat::kSafetensors};
  if (file.status().code() != StatusCode::kNotCheckpoint) return file.status();
  return Status(file.status().code(), file.status().message() +
                                          "; files of torch.save are converted by "
                                          "dsckpt.convert.convert() in Python")
      .WithPath(path);
}

int Convert(Console& console, const Options& options) {
  const auto input = Recognize(options.files.input);
  if (!input.ok()) return console.Fail(input.status());
  const std::string format = !options.format.empty() ? options.format
                             : input->safetensors    ? "dsckpt"
                                                     : "safetensors";
  const bool to_safetensors = format == "safetensors";
  const OutputOptions files{input->operand.path, options.files.output, options.files.force};
  if (input->operand.kind == OperandKind::kFile && options.max_shard_bytes == 0 &&
      to_safetensors != input->safetensors) {
    if (to_safetensors)
      return Export(console, {files, options.selection, false, options.no_verify});
    if (!options.selection.any()) return Import(console, {.files = files});
  }
  MergeOptions merge;
  merge.container = to_safetensors ? Container::kSafetensors : Container::kDsckpt;
  merge.selection = options.selection;
  merge.max_shard_bytes = options.max_shard_bytes;
  merge.verify = !options.no_verify;
  merge.replace = options.files.force;
  return Merge(console, {input->operand.path}, options.files.output, std::move(merge));
}

}  // namespace

Command AddConvert(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line = program.AddCommand(
      "convert", "Make safetensors of dsckpt files and checkpoints, or the reverse");
  AddOutputOptions(line, options->files,
                   "A dsckpt or safetensors file, a checkpoint, run or model directory, or an "
                   ".index.json");
  line.Add("--format", options->format,
           "dsckpt or safetensors; default: the one that the input is not")
      .OneOf({"dsckpt", "safetensors"})
      .Placeholder("NAME");
  line.Add("--max-shard-size", options->max_shard_bytes,
           "Write a directory of files up to this size (5GB, 512MiB), with an index")
      .Size()
      .Placeholder("SIZE");
  AddSelectionOptions(line, options->selection);
  line.AddFlag("--no-verify", options->no_verify, "Do not check the input's checksums");
  line.Footer(
      "Examples:\n"
      "  dsckpt convert model.safetensors.index.json -o model.dsckpt\n"
      "  dsckpt convert run/step-0000001200 -o hf --max-shard-size 5GB \\\n"
      "    --filter 'model/*' --strip-prefix model/\n"
      "\n"
      "Does what import (one safetensors file), export (one dsckpt file) and merge (all\n"
      "else) do, which have more options; --json prints what they print. Files of\n"
      "torch.save, torch.distributed.checkpoint and DeepSpeed are converted by this\n"
      "command when it comes from the Python package, which also takes\n"
      "--format deepspeed, --allow-pickle and --allow MODULE.CLASS.\n"
      "Exit code: 0 done; 1 the input is damaged or incomplete; 2 could not do it.");
  return {line, [options](Console& console) { return Convert(console, *options); }};
}

}  // namespace dsckpt::tools
