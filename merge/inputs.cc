#include "merge/inputs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "dsckpt/run_layout.h"
#include "io/directory.h"
#include "merge/model_index.h"
#include "merge/paths.h"
#include "merge/run_members.h"

namespace dsckpt::merge {

namespace {

Status NeedsPython(const std::string& path, std::string_view what) {
  return Status(StatusCode::kUnsupported,
                path + " " + std::string(what) +
                    ", which takes Python to read: dsckpt.convert.convert() converts it, and so "
                    "does `dsckpt convert` of the Python package")
      .WithPath(path);
}

/// What other systems leave in a directory.
Status CheckForeign(const std::string& path, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == ".metadata")
      return NeedsPython(path, "was written by torch.distributed.checkpoint");
    if (name.ends_with("_model_states.pt"))
      return NeedsPython(path, "is a checkpoint of DeepSpeed");
    for (const std::string_view base : kModelBases) {
      for (const std::string_view end : {".bin", ".bin.index.json"}) {
        if (name == std::string(base) + std::string(end)) {
          return NeedsPython(path, "holds " + name + " of torch.save");
        }
      }
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> FilesOf(const Checkpoint& checkpoint) {
  std::vector<std::string> files;
  const bool directory = checkpoint.has_manifest();
  const std::string prefix = directory ? checkpoint.path() + "/" : "";
  if (directory) files.push_back(prefix + std::string(kManifestName));
  for (uint32_t i = 0; i < checkpoint.manifest_parts(); ++i) {
    files.push_back(prefix + ManifestPartName(i));
  }
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    files.push_back(prefix + std::string(checkpoint.shard(i).name));
  }
  return files;
}

Result<Inputs> OpenOperand(const Operand& operand, const CheckpointOptions& options) {
  switch (operand.kind) {
    case OperandKind::kFile: {
      DSCKPT_ASSIGN_OR_RETURN(Checkpoint one,
                              Checkpoint::OpenShards(std::span(&operand.path, 1), options));
      return Inputs{std::move(one), {}, {}, {}};
    }
    case OperandKind::kIndex: {
      DSCKPT_ASSIGN_OR_RETURN(Model model, OpenModelIndex(operand.path, options));
      return Inputs{std::move(model.checkpoint), {operand.path}, std::move(model.members), {}};
    }
    case OperandKind::kCheckpoint: {
      DSCKPT_ASSIGN_OR_RETURN(Checkpoint whole, Checkpoint::Open(operand.path, options));
      return Inputs{std::move(whole), {}, {}, {}};
    }
    case OperandKind::kRun:
      break;
  }
  DSCKPT_ASSIGN_OR_RETURN(const RunDirectory run, RunDirectory::Open(operand.path));
  // Also what a replacement that was stopped put aside, which is not among its checkpoints.
  auto latest = run.Latest(options);
  if (!latest.ok() && run.checkpoints().empty()) {
    return Status(StatusCode::kIncomplete, operand.path + ": no complete checkpoint")
        .WithPath(operand.path);
  }
  if (!latest.ok()) return latest.status();
  const std::string path = latest->path();
  return Inputs{std::move(latest).value(), {}, {}, path};
}

Result<Operand> ToOperand(const std::string& path) {
  if (!IsDirectory(path)) {
    if (const auto chosen = SplitChoice(path)) return ChooseMember(*chosen);
    return Operand{IsModelIndex(path) ? OperandKind::kIndex : OperandKind::kFile, path};
  }
  if (IsCheckpointDirectory(path)) return Operand{OperandKind::kCheckpoint, path};
  DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(path));
  DSCKPT_ASSIGN_OR_RETURN(const std::string model, FindModel(path, names));
  if (!model.empty()) {
    return Operand{IsModelIndex(model) ? OperandKind::kIndex : OperandKind::kFile, model};
  }
  DSCKPT_RETURN_IF_ERROR(CheckForeign(path, names));
  return Operand{OperandKind::kRun, path};
}

Result<Inputs> OpenInputs(std::span<const std::string> paths, bool ignore_header, bool map) {
  CheckpointOptions options = ignore_header ? kWithoutHeaders : kAtOnce;
  options.file.map = map;
  std::vector<Operand> operands;
  for (const std::string& path : paths) {
    DSCKPT_ASSIGN_OR_RETURN(Operand operand, ToOperand(path));
    operands.push_back(std::move(operand));
  }
  Inputs inputs;
  if (operands.size() == 1) {
    DSCKPT_ASSIGN_OR_RETURN(inputs, OpenOperand(operands[0], options));
  } else {
    std::vector<std::string> files;
    for (const Operand& operand : operands) {
      if (operand.kind != OperandKind::kFile) {
        return Status(StatusCode::kInvalidArgument,
                      operand.path +
                          " is no file: several inputs have to be the files of one "
                          "checkpoint, and a directory or an index stands alone")
            .WithPath(operand.path);
      }
      files.push_back(operand.path);
    }
    DSCKPT_ASSIGN_OR_RETURN(inputs.checkpoint, Checkpoint::OpenShards(files, options));
  }
  for (std::string& file : FilesOf(inputs.checkpoint)) inputs.files.push_back(std::move(file));
  return inputs;
}

Status CheckVerifiable(const File& file) {
  const bool has_sums = file.format() == FileFormat::kDsckpt;
  if (!has_sums || file.verifiable() || file.tensor_count() + file.object_count() == 0) return {};
  return Status(StatusCode::kUnsupported,
                file.path() +
                    ": its items cannot be verified: expected sums of hash id 1, XXH3-128, "
                    "found those of hash id " +
                    std::to_string(file.hash_id()) +
                    ", which this release does not know. Use a newer dsckpt, or take what is there "
                    "unchecked: --no-verify, in programs the option `verify`")
      .WithPath(file.path());
}

Status CheckVerifiable(const Checkpoint& checkpoint) {
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    DSCKPT_RETURN_IF_ERROR(CheckVerifiable(shard));
  }
  return {};
}

}  // namespace dsckpt::merge
