#ifndef DSCKPT_WRITER_ENGINE_SAVE_PLAN_H_
#define DSCKPT_WRITER_ENGINE_SAVE_PLAN_H_

// What one save is to do, and what it has made so far.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/engine.h"
#include "format/columns/columns.h"
#include "io/output_file.h"
#include "state/file_layout.h"
#include "writer/device/capture.h"
#include "writer/engine/at_save_copies.h"
#include "writer/engine/describe.h"
#include "writer/engine/image_writer.h"
#include "writer/engine/resources.h"
#include "writer/engine/statistics.h"

namespace dsckpt {

/// What a save is to do. Constant, and shared with fences, which need the layout.
struct SavePlan {
  SavePlan(std::string path_in, SaveOptions options_in,
           std::shared_ptr<const LaidOutState> state_in)
      : path(std::move(path_in)),
        options(std::move(options_in)),
        state(std::move(state_in)),
        layout(*state->layout),
        data(state->data()) {}
  SavePlan(const SavePlan&) = delete;
  SavePlan& operator=(const SavePlan&) = delete;

  const std::string path;
  const SaveOptions options;
  const std::shared_ptr<const LaidOutState> state;
  const FileLayout& layout;       // Of `state`.
  const Description::Data& data;  // Of `state`.
  const Clock::time_point started = Clock::now();
};

/// Where the stages find bytes that are not read from the caller's memory (SavePlan::data).
struct SaveSources {
  AtSaveCopies at_save;
  DeviceCapture* device = nullptr;  // Null: no tensor lies on a device.
};

/// What the append stage learns about one appended item.
struct AppendedRecord {
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  std::vector<Hash128> sums;
  std::vector<format::StoredChunk> stored_chunks;  // Encoded items only.
};

/// What the stages make; commit turns it into a file. Each member has one writer at a time.
struct SaveOutputs {
  explicit SaveOutputs(const SavePlan& plan);

  /// There after SaveProgress::AwaitFile().
  std::unique_ptr<io::OutputFile> file;
  /// By chunk, tensors in ordinal order. Workers write disjoint parts.
  std::vector<Hash128> tensor_sums;
  SaveStatistics statistics;
  /// As FileLayout::appended.
  std::vector<AppendedRecord> appended;
  /// The append stage's, then commit's.
  std::unique_ptr<ImageWriter> append_writer;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_SAVE_PLAN_H_
