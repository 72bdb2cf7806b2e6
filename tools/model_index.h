#ifndef DSCKPT_TOOLS_MODEL_INDEX_H_
#define DSCKPT_TOOLS_MODEL_INDEX_H_

#include <string>

#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"

// Models in several safetensors files, with an index of them as Hugging Face tools write it:
// {"metadata": {...}, "weight_map": {TENSOR: FILE}}.

namespace dsckpt::tools {

/// The usual name of the index in a model's directory.
inline constexpr const char* kModelIndexName = "model.safetensors.index.json";

/// Whether `path` is named as an index is.
bool IsModelIndex(const std::string& path);

/// Opens the files that the index names, beside it. kNotCheckpoint: no such index; kIncomplete: a
/// file, or a tensor in its file, is missing; kCorrupt: a file name leads out of the directory.
Result<Checkpoint> OpenModelIndex(const std::string& path);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_MODEL_INDEX_H_
