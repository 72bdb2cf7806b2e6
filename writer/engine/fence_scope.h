#ifndef DSCKPT_WRITER_ENGINE_FENCE_SCOPE_H_
#define DSCKPT_WRITER_ENGINE_FENCE_SCOPE_H_

// What a fence for some of the tensors waits for.

#include <cstdint>
#include <string_view>

#include "state/description.h"
#include "state/file_layout.h"

namespace dsckpt {

/// How far a save must get before an update may change the lazily captured tensors whose names
/// begin with a prefix. Everything is taken in order, so that ends are enough.
struct FenceScope {
  uint64_t host_windows = 0;    ///< Windows to fill: the host reads such a tensor there.
  uint64_t device_windows = 0;  ///< Windows whose device copies matter.
  uint64_t appended_items = 0;  ///< Appended items to read: encoded tensors are among them.
};

/// Aliases stand for the tensors that they name.
FenceScope FindFenceScope(const FileLayout& layout, const Description::Data& data,
                          std::string_view prefix, uint64_t window_bytes);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_FENCE_SCOPE_H_
