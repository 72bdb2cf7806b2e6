#ifndef DSCKPT_MERGE_MODEL_INDEX_H_
#define DSCKPT_MERGE_MODEL_INDEX_H_

#include <array>
#include <string>
#include <string_view>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "merge/metadata.h"

// Models in several safetensors files, with an index of them as Hugging Face tools write it:
// {"metadata": {...}, "weight_map": {TENSOR: FILE}}.

namespace dsckpt::merge {

/// The usual name of the index in a model's directory.
inline constexpr const char* kModelIndexName = "model.safetensors.index.json";

/// What files of models are called, before ".safetensors" and the like: Transformers, Diffusers,
/// PEFT, and what torch.save writes for the first.
inline constexpr std::array<std::string_view, 5> kModelBases = {
    "model", "diffusion_pytorch_model", "adapter_model", "pytorch_lora_weights", "pytorch_model"};

/// Whether `path` is named as an index is.
bool IsModelIndex(const std::string& path);

/// The index or the single file that a model's directory is about, of which `entries` are the
/// names in it; empty where there is none.
/// kInvalidArgument: two models; kIncomplete: parts of a model without their index.
Result<std::string> FindModel(const std::string& directory,
                              const std::vector<std::string>& entries);

struct Model {
  Checkpoint checkpoint;
  /// What the index's "metadata" says beyond sizes, values that are no strings as JSON.
  Members members;
};

/// Opens the files that the index names, beside it. kNotCheckpoint: no such index; kIncomplete: a
/// file, or a tensor in its file, is missing; kCorrupt: a file name leads out of the directory.
/// `options`: how these files are opened.
Result<Model> OpenModelIndex(const std::string& path, const CheckpointOptions& options);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_MODEL_INDEX_H_
