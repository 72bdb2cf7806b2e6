#ifndef DSCKPT_WRITER_DEVICE_CAPTURE_H_
#define DSCKPT_WRITER_DEVICE_CAPTURE_H_

// One save's copies from devices, and what waits for them.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "state/description.h"
#include "writer/device/streams.h"

namespace dsckpt {

/// The device side of one save: what its copies wait for, the copies, and what waits for them.
/// Each method names its thread; what is enqueued for one use runs in order.
class DeviceCapture {
 public:
  /// A point on one of the device's streams.
  struct Mark {
    int device;
    DeviceStreams::EventPtr event;
  };

  /// Inside Save(), on the caller's thread: marks where the producers' streams are now. Error:
  /// kFailedPrecondition while a graph is captured from one of them.
  static Result<std::unique_ptr<DeviceCapture>> Begin(DeviceStreams& queues,
                                                      const Description::Data& data);
  /// Inside Save(): enqueues the copy of a part of an at-save tensor to pool memory.
  Status CopyAtSave(SourceIndex source_index, uint64_t begin, std::span<std::byte> out);
  /// Inside Save(), after them: the producers' streams wait for those copies. Returns what to wait
  /// for before their bytes may be used. On failure those copies may still run: DrainAtSave().
  Result<std::vector<Mark>> FinishAtSave();
  /// Any thread: blocks until no at-save copy runs.
  void DrainAtSave();

  /// Placed stage: enqueues what must come before the first window.
  Status BeginWindows();
  /// Placed stage, after it: enqueues copies of `tensors` to where
  /// the devices have room for a snapshot, as far as it reaches; Add() then reads these there.
  /// Returns what to wait for until they have been read; nothing where no device has such room. On
  /// failure waits for what was enqueued.
  Result<std::vector<Mark>> TakeSnapshot(std::span<const SourceIndex> tensors);
  bool InSnapshot(SourceIndex source_index) const {
    return !snapshot_.empty() && snapshot_[source_index] != nullptr;
  }
  /// Placed stage: one piece of a window.
  void Add(SourceIndex source_index, uint64_t begin, std::span<std::byte> out);
  /// Placed stage: enqueues the pieces added since the last call, with which the first `windows`
  /// windows are complete. Returns what to wait for before their bytes may be used; on failure
  /// waits for what was enqueued.
  Result<std::vector<Mark>> Enqueue(uint64_t windows);
  /// CopyCompletion: the copies into the first `windows` windows are done.
  void MarkCopied(uint64_t windows);

  /// Append stage and its workers: reads a part of a tensor; blocks.
  Status Read(SourceIndex source_index, uint64_t begin, std::span<std::byte> out);

  /// Blocks until `marks` have passed.
  Status Wait(const std::vector<Mark>& marks);
  /// Makes `stream` wait for at-save copies, the snapshot, and what copies into the first `windows`
  /// windows read beside it, which must have been enqueued; see Engine::FenceOnStream.
  static constexpr uint64_t kAllWindows = ~uint64_t{0};
  Status MakeWait(Stream stream, uint64_t windows);

 private:
  using Event = DeviceStreams::EventPtr;
  using Piece = io::DeviceBackend::Piece;
  /// One producer's stream, and the point on it that copies wait for.
  struct Producer {
    int device;
    Stream stream;
    Event event;
  };
  /// One device's part of the save.
  struct DevicePart {
    const DeviceStreams::Queue* queue;
    std::vector<Piece> added;    // And not enqueued.
    SourceIndex newest;          // Tensor of added.back().
    bool reads_sources = false;  // Added pieces that no snapshot holds.
    std::vector<Piece> snapshot;
    bool used_at_save = false;
  };
  /// Where the save's work on one device ends, of what fences wait for.
  struct LastEvents {
    Event copy, gather, at_save, snapshot;
  };

  /// Where the copies into the first windows end.
  struct Stop {
    uint64_t windows;
    std::vector<Mark> marks;
  };

  DeviceCapture(DeviceStreams& queues, const Description::Data& data)
      : queues_(queues), data_(data) {}
  Status MarkProducers();
  DevicePart& PartOf(SourceIndex source_index);
  const std::byte* Source(SourceIndex source_index, uint64_t begin) const;
  Status OrderAfterProducers(int device, Stream stream);
  Status SnapshotPart(DevicePart& part, std::vector<Mark>& marks);
  Status EnqueuePart(DevicePart& part, std::vector<Mark>& marks);
  /// Marks the end of `stream`, for fences as `last` (null: for none).
  Result<Mark> MarkEnd(int device, Stream stream, Event LastEvents::*last);
  void Drain(const DevicePart& part, Stream stream);
  /// Where the copies enqueued so far into windows end.
  std::vector<Mark> LastMarks() const DSCKPT_REQUIRES(mutex_);

  DeviceStreams& queues_;
  const Description::Data& data_;
  std::vector<Producer> producers_;
  std::map<int, DevicePart> parts_;                        // By device.
  OrdinalVector<SourceIndex, const std::byte*> snapshot_;  // Null: not there.
  /// Of its own: a copy to memory that is not pinned blocks until it is done, and before that until
  /// the producers are. Never held together with mutex_.
  Mutex read_mutex_;
  /// Devices whose `read` waits for the producers.
  std::set<int> read_ready_ DSCKPT_GUARDED_BY(read_mutex_);
  Mutex mutex_;
  std::map<int, LastEvents> last_ DSCKPT_GUARDED_BY(mutex_);  // By device.
  uint64_t copied_windows_ DSCKPT_GUARDED_BY(mutex_) = 0;
  std::deque<Stop> stops_ DSCKPT_GUARDED_BY(mutex_);  // Beyond them, ascending.
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_DEVICE_CAPTURE_H_
