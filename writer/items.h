#ifndef DSCKPT_WRITER_ITEMS_H_
#define DSCKPT_WRITER_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/provider.h"
#include "format/description.h"

namespace dsckpt {

/// Bytes [begin, begin + out.size()) of the row-major image of tensor `described` (a position in
/// the description), read from the caller's host memory.
void CopyFromMemory(const Description::Data& data, uint32_t described, uint64_t begin,
                    std::span<std::byte> out);

/// Bytes of one element, or of one block of a sub-byte dtype: the unit that byte planes and strides
/// count in.
uint32_t ElementBytes(DType dtype);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ITEMS_H_
