#ifndef DSCKPT_FORMAT_INDEX_INDEX_H_
#define DSCKPT_FORMAT_INDEX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/status.h"
#include "format/columns/columns.h"

namespace dsckpt::format {

/// Upper bound of the encoded index in bytes, from the columns' sizes; compare with kMaxIndexBytes
/// before data moves.
uint64_t IndexBytesBound(const IndexColumns& columns);

/// Encodes to a FlatBuffer, padded to a multiple of 8 bytes; equal columns give equal bytes.
/// kLimitExceeded above kMaxIndexBytes.
Result<std::vector<std::byte>> EncodeIndex(const IndexColumns& columns);

/// Regions of the file that the index must stay inside; from the footer.
struct Geometry {
  uint64_t data_begin = 0;    // D
  uint64_t tail_begin = 0;    // L: listed tensors end here
  uint64_t index_offset = 0;  // log items end at or before it
};

/// Verifies the FlatBuffer (explicit limits) and the columns: lengths agree, running totals ascend,
/// names strictly ascend and are valid, shapes multiply without overflow to raw_bytes, extents lie
/// inside their regions and do not overlap, item sums are as many as chunks, ordinals are in range,
/// trees are well-formed. `bytes` must be 8-aligned and already hashed. kCorrupt names item, field,
/// expected and found; kUnsupported an unknown hash id. Linear time, no allocation that grows with
/// the number of items.
Result<IndexView> ParseIndex(std::span<const std::byte> bytes, const Geometry& geometry);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_INDEX_INDEX_H_
