#ifndef DSCKPT_STATE_SOURCE_BYTES_H_
#define DSCKPT_STATE_SOURCE_BYTES_H_

// Reading source memory as row-major bytes.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/provider.h"
#include "state/description.h"

namespace dsckpt {

/// Bytes [begin, begin + out.size()) of the row-major image of tensor `index`, from the caller's
/// host memory. REQUIRES: it has no read callback.
void CopyFromMemory(const Description::Data& data, SourceIndex index, uint64_t begin,
                    std::span<std::byte> out);
/// The same, from the read callback where there is one: only that can fail.
Status ReadHostTensor(const Description::Data& data, SourceIndex index, uint64_t begin,
                      std::span<std::byte> out);

/// Bytes of one element, or of one block of a sub-byte dtype: the unit that byte planes and strides
/// count in.
uint32_t ElementBytes(DType dtype);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_SOURCE_BYTES_H_
