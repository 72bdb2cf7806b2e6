#ifndef DSCKPT_MERGE_CAST_H_
#define DSCKPT_MERGE_CAST_H_

// Floating-point dtypes into each other.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "dsckpt/dtype.h"
#include "dsckpt/status.h"

namespace dsckpt::merge {

/// Whether tensors of this dtype are cast: F16, BF16, F32, F64.
bool CanCast(DType dtype);

/// Elements of one floating-point dtype as another: exact where that is possible, else to the
/// nearest, ties to even. Too large a number becomes infinite; what is no number stays none.
/// Returns how many finite elements became infinite. REQUIRES: CanCast() of both, equal counts.
uint64_t CastElements(DType from, DType to, std::span<const std::byte> in,
                      std::span<std::byte> out);

/// Bytes [offset, offset + out.size()) of a tensor's row-major image cast from one dtype to
/// another; `read` gives those of the uncast image. Returns as CastElements().
Result<uint64_t> ReadCast(
    DType from, DType to, uint64_t offset, std::span<std::byte> out,
    const std::function<Status(uint64_t offset, std::span<std::byte> out)>& read);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_CAST_H_
