#ifndef DSCKPT_WRITER_ENGINE_FINISH_H_
#define DSCKPT_WRITER_ENGINE_FINISH_H_

// Index, footer and header of a finished save, publication.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/encoding.h"
#include "dsckpt/limits.h"
#include "state/file_layout.h"
#include "writer/engine/resources.h"
#include "writer/engine/save_plan.h"
#include "writer/engine/save_progress.h"

namespace dsckpt {

/// The index of a save: the layout's columns completed by what the stages measured. `tensor_sums`:
/// by chunk, tensors in ordinal order; `appended`: as layout.appended; `statistics`: empty unless
/// the options ask for them.
Result<std::vector<std::byte>> MakeIndex(const Description::Data& data, const FileLayout& layout,
                                         std::span<const Hash128> tensor_sums,
                                         std::span<const AppendedRecord> appended,
                                         format::StatisticsColumns statistics,
                                         const SaveOptions& options);

/// Header region and footer once the index is known.
struct Closing {
  std::string header;
  std::array<std::byte, kFooterBytes> footer;
  uint64_t file_bytes;
};
Closing MakeClosing(const FileLayout& layout, std::span<const std::byte> index,
                    uint64_t index_offset);

/// Ends a save: waits for its stages, appends index and footer, writes the header region,
/// publishes. Runs on the commit thread, saves in the order of their Save() calls. Returns the
/// final status; the file is published or gone.
Status CommitSave(const SavePlan& plan, SaveOutputs& outputs, SaveProgress& progress,
                  EngineResources& resources);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_FINISH_H_
