#ifndef DSCKPT_NUMERICS_STATISTICS_H_
#define DSCKPT_NUMERICS_STATISTICS_H_

// Statistics of a tensor's elements, chunk by chunk: spec/format.md, "Statistics".

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/dtype.h"
#include "dsckpt/tensor_statistics.h"
#include "numerics/kernels.h"
#include "numerics/sum_tree.h"
#include "numerics/widen.h"

namespace dsckpt::numerics {

/// Whether tensors of the dtype have statistics: packed and unknown ones have none.
bool HasStatistics(DType dtype);

/// Statistics of one chunk, whose elements arrive in order and in parts of any size. A chunk of any
/// dtype begins with a block and, but for a tensor's last one, has a power of two of them: its sum
/// is a node of the tensor's tree. With a shift, which is finite, the sums are those of elements
/// less the shift: near a mean, squares of differences stay exact enough for a variance.
class ChunkStatistics {
 public:
  /// REQUIRES: HasStatistics(dtype).
  explicit ChunkStatistics(DType dtype, const Kernels& kernels = UsableKernels().front(),
                           double shift = 0);
  /// Takes whole elements. How the thread's floating-point unit is set does not matter.
  void Add(std::span<const std::byte> elements);
  TensorStatistics Finish() const;

 private:
  /// How elements are read: as they are stored, or as doubles that they were widened to.
  struct Reading {
    size_t bytes;
    Widen widen;
    TypeKernels kernels;
  };
  /// As many pairs of whole blocks as a kernel takes, unless a block is open. Returns how many
  /// elements these were.
  size_t AddBlocks(std::span<const std::byte> elements);
  /// What fits into the open block.
  void AddToBlock(const std::byte* elements, size_t count);
  void AddWidened(const std::byte* elements, size_t count);
  void AddReal(const Reading& reading, const std::byte* elements, size_t count);
  void AddSingly(const Reading& reading, const std::byte* elements, size_t count);
  void AddGroups(const Reading& reading, const std::byte* elements, size_t groups);
  template <typename Part>
  void AddComplex(const std::byte* elements, size_t count);
  void AddFinite(double value, double shifted, double square);
  void AddAny(const Reading& reading, const std::byte* elements, size_t groups);
  void Include(const Extent& extent, size_t count, Widen widen);
  void Include(double least, double greatest);

  size_t element_bytes_;
  DType dtype_;
  double shift_;
  Reading stored_;  // Without a kernel: the elements are widened first, or complex.
  Reading widened_;
  AnyKernel any_;
  size_t filled_ = 0;       // Elements in the open block.
  TensorStatistics found_;  // Without the sums.
  Lanes lanes_;             // Of the open block.
  SumTree blocks_;
};

/// Statistics of a tensor from those of its chunks, in their order.
TensorStatistics JoinChunks(std::span<const TensorStatistics> chunks);

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_STATISTICS_H_
