#ifndef DSCKPT_WRITER_ENGINE_APPEND_STAGE_H_
#define DSCKPT_WRITER_ENGINE_APPEND_STAGE_H_

// Objects and encoded tensors.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsckpt/encoding.h"
#include "writer/engine/image_writer.h"
#include "writer/engine/resources.h"
#include "writer/engine/save_plan.h"
#include "writer/engine/save_progress.h"

namespace dsckpt {

/// Appends objects and encoded tensors, in name order, behind the placed image. Raw bytes are
/// hashed and copied on the append thread; encoded chunks are made by the workers, a few ahead, and
/// appended in order.
class AppendStage {
 public:
  AppendStage(const SavePlan& plan, SaveSources& sources, SaveOutputs& outputs,
              SaveProgress& progress, EngineResources& resources);
  ~AppendStage();
  /// Returns when every item was appended, or the save stopped.
  void Run();

 private:
  struct Item;
  struct Slot;
  class CallbackSink;
  Item MakeItem(const FileLayout::AppendedItem& appended) const;
  void WriteItem(const Item& item, AppendedRecord& record);
  void WriteRaw(const Item& item, AppendedRecord& record);
  void WriteEncoded(const Item& item, AppendedRecord& record);
  Status WriteCallback(const Item& item, AppendedRecord& record);
  /// Raw bytes of an item, from at-save copies or the caller's memory.
  void Read(const Item& item, uint64_t begin, std::span<std::byte> out);

  const SavePlan& plan_;
  SaveSources& sources_;
  SaveOutputs& outputs_;
  SaveProgress& progress_;
  EngineResources& resources_;
  ImageWriter& out_;
  std::vector<std::unique_ptr<Slot>> slots_;  // Made when needed, kept from item to item.
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_APPEND_STAGE_H_
