// dsckpt convert: between this library's files and safetensors, by what the input is.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "dsckpt/file.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/model_index.h"
#include "tools/survey.h"

namespace dsckpt::tools {
namespace {

struct Options {
  OutputOptions files;
  std::string format;  // empty: the one that the input is not
  uint64_t max_shard_bytes = 0;
  bool no_verify = false;
};

struct Input {
  std::string path;
  bool single = false;       // one file, else several
  bool safetensors = false;  // else dsckpt
};

/// A directory is a checkpoint or a model with its index.
Result<Input> Recognize(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (IsModelIndex(path)) return Input{path, false, true};
  if (IsDirectory(path)) {
    const std::string index = (fs::path(path) / kModelIndexName).string();
    if (fs::exists(index, unknown)) return Input{index, false, true};
    if (fs::exists(fs::path(path) / ".metadata", unknown)) {
      return Status(StatusCode::kUnsupported,
                    path +
                        " was written by torch.distributed.checkpoint, whose metadata only "
                        "Python can read: dsckpt.convert.convert() converts it")
          .WithPath(path);
    }
    return Input{path, false, false};  // Opening it says what is missing.
  }
  const auto file = File::Open(path);
  if (file.ok()) return Input{path, true, file->format() == FileFormat::kSafetensors};
  if (file.status().code() != StatusCode::kNotCheckpoint) return file.status();
  return Status(file.status().code(), file.status().message() +
                                          "; files of torch.save are converted by "
                                          "dsckpt.convert.convert() in Python")
      .WithPath(path);
}

int ConvertFile(Console& console, const Options& options, const Input& input) {
  if (input.safetensors) return Import(console, {options.files});
  return Export(console, {options.files, false, options.no_verify});
}

int Convert(Console& console, const Options& options) {
  const auto input = Recognize(options.files.input);
  if (!input.ok()) return console.Fail(input.status());
  const std::string format = !options.format.empty() ? options.format
                             : input->safetensors    ? "dsckpt"
                                                     : "safetensors";
  const bool to_safetensors = format == "safetensors";
  if (input->single && options.max_shard_bytes == 0 && to_safetensors != input->safetensors) {
    return ConvertFile(console, options, *input);
  }
  MergeOptions merge;
  merge.inputs = {input->path};
  merge.target = {options.files.output, options.max_shard_bytes != 0, to_safetensors,
                  options.files.force};
  merge.spread.max_shard_bytes = options.max_shard_bytes;
  merge.format = format;
  merge.no_verify = options.no_verify;
  return Merge(console, merge);
}

}  // namespace

Command AddConvert(CLI::App& root) {
  auto options = std::make_shared<Options>();
  CLI::App* app = root.add_subcommand(
      "convert", "Make safetensors of dsckpt files and checkpoints, or the reverse");
  AddOutputOptions(*app, options->files,
                   "A dsckpt or safetensors file, a checkpoint directory, or a model's directory "
                   "or .index.json");
  app->add_option("--format", options->format,
                  "dsckpt or safetensors; default: the one that the input is not")
      ->check(CLI::IsMember({"dsckpt", "safetensors"}))
      ->option_text("NAME");
  app->add_option("--max-shard-size", options->max_shard_bytes,
                  "Write a directory of files up to this size (5GB, 512MiB), with an index")
      ->transform(CLI::AsSizeValue(false))
      ->option_text("SIZE");
  app->add_flag("--no-verify", options->no_verify, "Do not check the input's checksums");
  app->footer(
      "Examples:\n"
      "  dsckpt convert model.safetensors.index.json -o model.dsckpt\n"
      "  dsckpt convert run/step-0000001200 -o hf --max-shard-size 5GB\n"
      "\n"
      "Does what import (one safetensors file), export (one dsckpt file) and merge (all\n"
      "else) do, which have more options; --json prints what they print. Files of\n"
      "torch.save, torch.distributed.checkpoint and DeepSpeed are converted by this\n"
      "command when it comes from the Python package, which also takes\n"
      "--format deepspeed, --allow-pickle and --allow MODULE.CLASS.");
  return {app, [options](Console& console) { return Convert(console, *options); }};
}

}  // namespace dsckpt::tools
