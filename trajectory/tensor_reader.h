#ifndef DSCKPT_TRAJECTORY_TENSOR_READER_H_
#define DSCKPT_TRAJECTORY_TENSOR_READER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/checkpoint.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"

// The elements of one tensor in many checkpoints.

namespace dsckpt::trajectory {

/// Opens checkpoints of a run, each once as far as they are mapped: these hold no descriptors.
/// Thread-safe.
class MappedCheckpoints {
 public:
  explicit MappedCheckpoints(const Trajectory& run) : run_(run), kept_(run.size()) {}

  const Trajectory& run() const { return run_; }
  Result<Checkpoint> Open(uint32_t t);
  /// Says that what Open() gave is mapped.
  void Keep(uint32_t t, const Checkpoint& checkpoint);

 private:
  const Trajectory run_;
  Mutex mutex_;
  std::vector<Checkpoint> kept_ DSCKPT_GUARDED_BY(mutex_);
  uint64_t files_ DSCKPT_GUARDED_BY(mutex_) = 0;
};

/// Reads one tensor: from mapped files where it lies there as it is, which takes neither memory nor
/// descriptors. Thread-safe. It keeps hold of the files until it goes.
class TensorReader {
 public:
  /// `verify`: whether chunks are checked; mapped ones are once.
  TensorReader(MappedCheckpoints& checkpoints, uint32_t tensor, bool verify)
      : checkpoints_(checkpoints),
        run_(checkpoints.run()),
        tensor_(tensor),
        verify_(verify),
        stored_(run_.size()) {}

  /// `size` bytes of checkpoint `t` from `offset` on, in the file or in `buffer`, which keeps its
  /// memory for later calls.
  Result<std::span<const std::byte>> Read(uint32_t t, uint64_t offset, uint64_t size,
                                          std::vector<std::byte>& buffer);
  /// The same for out.size() bytes, in the file or in `out`.
  Result<std::span<const std::byte>> Read(uint32_t t, uint64_t offset, std::span<std::byte> out);
  /// The same in `out` in any case, which holds no file.
  Result<std::span<const std::byte>> Copy(uint32_t t, uint64_t offset,
                                          std::span<std::byte> out) const;
  /// Says that what Read() gave will not be looked at soon: mapped pages are given back.
  void Forget(uint32_t t, std::span<const std::byte> bytes);
  /// Whether Read() of checkpoint `t` leaves its buffer alone.
  Result<bool> IsMapped(uint32_t t);

 private:
  struct Stored {
    std::once_flag once;
    Status opened;
    std::optional<StoredWhole> whole;
    std::optional<Tensor> mapped;
    std::deque<std::atomic<bool>> checked;  // By chunk; empty: nothing to check by.
  };
  Result<Stored*> Open(uint32_t t);
  /// REQUIRES: IsMapped(t).
  Result<std::span<const std::byte>> Mapped(uint32_t t, uint64_t offset, uint64_t size);
  Status Check(uint32_t t, Stored& stored, uint64_t offset, uint64_t size);

  MappedCheckpoints& checkpoints_;
  const Trajectory& run_;
  const uint32_t tensor_;
  const bool verify_;
  std::deque<Stored> stored_;  // By checkpoint.
};

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_TENSOR_READER_H_
