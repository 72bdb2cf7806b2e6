#ifndef DSCKPT_WRITER_ENGINE_PLACED_STAGE_H_
#define DSCKPT_WRITER_ENGINE_PLACED_STAGE_H_

// Raw tensors into windows, hashed on the way.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/pool.h"
#include "writer/engine/resources.h"
#include "writer/engine/save_plan.h"
#include "writer/engine/save_progress.h"
#include "writer/engine/statistics.h"

namespace dsckpt {

/// Copies a save's raw tensors into windows of the file image, hashes them on the way and queues
/// the windows for storage. Windows are taken in file order and filled by the workers side by side.
class PlacedStage {
 public:
  PlacedStage(const SavePlan& plan, SaveSources& sources, SaveOutputs& outputs,
              SaveProgress& progress, EngineResources& resources);

  /// Acquires every window in turn and hands it to a worker, after device copies into it have been
  /// enqueued and are done; returns when all are handed out or the save stopped. The stage must
  /// stay live until the save's pending work is done.
  void Dispatch();

 private:
  /// The state of a chunk that a window's end cuts, handed to the next window. A worker waits for
  /// the window before its own; since workers take windows in file order, that one is always
  /// running or done.
  struct Carry {
    std::optional<ChunkMeter> meter;  // While the chunk is cut, not longer.
    std::atomic<bool> ready{false};
  };
  /// Bytes of one tensor that lie in one window.
  struct Segment {
    TensorOrdinal tensor;
    uint64_t begin, end;       // Raw bytes of the tensor.
    std::span<std::byte> out;  // Their place in the window.
  };

  /// One window being filled by one worker.
  struct Task {
    uint64_t index;
    uint64_t captured = 0;  // Source bytes read so far.
    uint64_t awaited = 0;   // Of them, those that Save() waits for.
    ChunkMeter meter = {};
  };

  /// A window, and where in placed_order the first tensor stands that reaches into it.
  struct Place {
    uint64_t index;
    size_t first;
    io::WindowPool::Window window;
  };
  /// Windows whose device copies are enqueued and waited for together.
  struct CopyBatch {
    std::vector<Place> places;
    uint64_t bytes = 0;    // That devices copy and no snapshot holds.
    uint64_t awaited = 0;  // Of these, those that Save() waits for.
  };

  uint64_t WindowBegin(uint64_t index) const { return base_ + index * window_bytes_; }
  /// Calls `take` with every window's index and first tensor until the save stops.
  template <typename Take>
  void ForEachWindow(Take take);
  void DispatchHost();
  void DispatchDevices();
  /// Has the devices copy what they can to memory of their own.
  Status TakeSnapshot();
  io::WindowPool::Window Acquire();
  void AddWindow(CopyBatch& batch, Place place);
  /// Enqueues a batch's copies; its windows go to the workers when they are done.
  void EnqueueBatch(CopyBatch batch);
  void RunFill(const Place& place);
  /// True when a device copies the tensor straight into windows.
  bool IsCopiedByDevice(TensorOrdinal tensor) const;
  void Fill(Task task, size_t first, io::WindowPool::Window window);
  void FillTensor(Task& task, Segment segment);
  void FillChunk(Task& task, Segment segment);
  void Copy(Task& task, const Segment& segment, ChunkMeter* meter);
  static Segment SubSegment(const Segment& segment, uint64_t begin, uint64_t end);

  const SavePlan& plan_;
  SaveSources& sources_;
  SaveOutputs& outputs_;
  SaveProgress& progress_;
  EngineResources& resources_;
  const uint64_t base_;  // Page-aligned file offset of window 0.
  const uint64_t end_;   // File offset where the placed image ends.
  const uint64_t window_bytes_;
  std::vector<Carry> carries_;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_PLACED_STAGE_H_
