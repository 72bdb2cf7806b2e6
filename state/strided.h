#ifndef DSCKPT_STATE_STRIDED_H_
#define DSCKPT_STATE_STRIDED_H_

// Strided memory to row-major bytes and back.

#include <cstddef>
#include <cstdint>
#include <span>

namespace dsckpt {

/// A strided tensor in memory: element (i, j, ...) lies at data + (i * strides[0] + j * strides[1]
/// + ...) * element_bytes. Strides are in elements and may be zero or negative.
struct StridedView {
  std::byte* data = nullptr;
  uint32_t element_bytes = 1;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;
};

/// Copies bytes [begin, begin + out.size()) of the row-major image of `view` into `out`. Any byte
/// range, elements may be cut.
void Gather(const StridedView& view, uint64_t begin, std::span<std::byte> out);
/// The inverse: writes `in` as bytes [begin, begin + in.size()) of the row-major image. Overlapping
/// elements: last wins.
void Scatter(const StridedView& view, uint64_t begin, std::span<const std::byte> in);
/// True when strides describe a row-major contiguous tensor (dimensions of one element do not
/// matter).
bool IsContiguous(std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_STRIDED_H_
