#ifndef DSCKPT_WRITER_ENGINE_FENCE_SCOPE_H_
#define DSCKPT_WRITER_ENGINE_FENCE_SCOPE_H_

// What a fence for some of the tensors waits for.

#include <cstdint>
#include <string_view>

#include "dsckpt/limits.h"
#include "state/description.h"
#include "state/file_layout.h"

namespace dsckpt {

/// How far a save must get before an update may change the lazily captured tensors whose names
/// begin with a prefix. Everything is taken in order, so that ends are enough.
struct FenceScope {
  uint64_t host_windows = 0;    ///< Windows to fill: the host reads a tensor of the group there.
  uint64_t device_windows = 0;  ///< Windows whose device copies matter.
  uint64_t log_items = 0;       ///< Items of the log to read: encoded tensors.
};

/// File offset of window 0 of the raw image.
inline uint64_t RawImageBegin(const FileLayout& layout) {
  return layout.data_begin / kPageBytes * kPageBytes;
}

/// Aliases stand for the tensors that they name.
FenceScope FindFenceScope(const FileLayout& layout, const Description::Data& data,
                          std::string_view prefix, uint64_t window_bytes);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_FENCE_SCOPE_H_
