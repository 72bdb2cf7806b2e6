#ifndef DSCKPT_ANALYSIS_TENSOR_SOURCE_H_
#define DSCKPT_ANALYSIS_TENSOR_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "dsckpt/status.h"

// The bytes of one tensor, from the mapped file where it lies there as it is.

namespace dsckpt::analysis {

/// Thread-safe. It takes hold of a file when it is first asked, until Close().
class TensorSource {
 public:
  TensorSource(const Checkpoint& checkpoint, uint32_t tensor, bool verify)
      : checkpoint_(&checkpoint), tensor_(tensor), verify_(verify) {}

  /// Sums of the chunks, where one file holds the tensor whole and has them; else none.
  Result<std::span<const Hash128>> ChunkSums();
  /// `size` bytes from `offset` on, in the file or in `buffer`, which keeps its memory for later
  /// calls. They are checked where they are whole chunks, or were copied. `read_bytes` grows.
  Result<std::span<const std::byte>> Read(uint64_t offset, uint64_t size,
                                          std::vector<std::byte>& buffer,
                                          std::atomic<uint64_t>& read_bytes);
  /// Lets go of the file.
  void Close();

 private:
  Status Open();

  const Checkpoint* checkpoint_;
  uint32_t tensor_;
  bool verify_;
  std::once_flag once_;
  Status opened_;
  std::optional<StoredWhole> whole_;
  std::optional<Tensor> mapped_;
};

}  // namespace dsckpt::analysis

#endif  // DSCKPT_ANALYSIS_TENSOR_SOURCE_H_
