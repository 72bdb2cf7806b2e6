#ifndef DSCKPT_TESTS_READER_CHECKPOINT_JOB_H_
#define DSCKPT_TESTS_READER_CHECKPOINT_JOB_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/piece.h"
#include "dsckpt/provider.h"

/// A made-up training job: what its tensors are, whole, and how a given number of ranks splits
/// them. The same job can be written by one number of ranks and read by another.
namespace job {

using dsckpt::DType;
using dsckpt::OwnedPiece;
using dsckpt::Range;

enum class Split {
  kReplicated,  ///< every rank has all of it
  kTensor,      ///< blocks along one dimension, and copies where ranks are left over
  kPipeline,    ///< whole, on one rank
  kGrid,        ///< blocks along two dimensions, and copies
  kZero,        ///< a stretch of a flat buffer that holds many tensors, padded to equal parts
};

struct Tensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  Split split;
  size_t dim = 0;
  std::vector<std::byte> bytes;  // whole, row-major

  size_t width() const { return dsckpt::FindDType(dtype)->block_bytes; }
  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
  }
};

/// Elements of a box by its definition, one after another.
inline std::vector<std::byte> Elements(const Tensor& tensor, const std::vector<Range>& box) {
  std::vector<std::byte> out;
  std::vector<int64_t> at;
  for (const Range& range : box) {
    if (range.begin >= range.end) return out;
    at.push_back(range.begin);
  }
  const size_t width = tensor.width();
  while (true) {
    size_t element = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      element = element * static_cast<size_t>(tensor.shape[i]) + static_cast<size_t>(at[i]);
    }
    const auto from = tensor.bytes.begin() + static_cast<ptrdiff_t>(element * width);
    out.insert(out.end(), from, from + static_cast<ptrdiff_t>(width));
    size_t dim = at.size();
    while (dim > 0 && ++at[dim - 1] == box[dim - 1].end) {
      at[dim - 1] = box[dim - 1].begin;
      --dim;
    }
    if (dim == 0) return out;
  }
}

/// One tensor that a rank holds.
struct Local {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<OwnedPiece> pieces;   // none: whole
  std::vector<std::byte> expected;  // what it should hold; padding is kPadding
  std::vector<std::byte> memory;
};
inline constexpr std::byte kPadding{0xEE};

inline std::vector<int64_t> Extents(const std::vector<Range>& box) {
  std::vector<int64_t> extents;
  for (const Range& range : box) extents.push_back(range.end - range.begin);
  return extents;
}

inline Local BoxLocal(const Tensor& tensor, const std::vector<Range>& box, uint32_t group) {
  Local local{tensor.name, tensor.dtype, Extents(box), {}, Elements(tensor, box), {}};
  local.pieces.push_back({.logical_name = tensor.name,
                          .logical_shape = tensor.shape,
                          .box = box,
                          .replica_group = group});
  return local;
}

struct Job {
  std::vector<Tensor> tensors;

  explicit Job(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const DType dtypes[] = {DType::kF32, DType::kBF16, DType::kU8, DType::kF64};
    const int64_t count = pick(3, 9);
    for (int64_t i = 0; i < count; ++i) {
      Tensor tensor;
      tensor.name = "layer/" + std::to_string(pick(0, 3)) + "/w" + std::to_string(i);
      tensor.split = static_cast<Split>(pick(0, 4));
      // One flat buffer has one dtype.
      tensor.dtype = tensor.split == Split::kZero ? DType::kF32 : dtypes[pick(0, 3)];
      const int64_t least = tensor.split == Split::kGrid     ? 2
                            : tensor.split == Split::kTensor ? 1
                                                             : 0;
      const int64_t rank = pick(least, 4);
      for (int64_t d = 0; d < rank; ++d) tensor.shape.push_back(pick(0, 30) == 0 ? 0 : pick(1, 9));
      tensor.dim = rank == 0 ? 0 : static_cast<size_t>(pick(0, rank - 1));
      tensor.bytes.resize(static_cast<size_t>(tensor.elements()) * tensor.width());
      for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
      tensors.push_back(std::move(tensor));
    }
  }

  /// What rank `rank` of `ranks` holds.
  std::vector<Local> Of(int64_t rank, int64_t ranks) const {
    std::vector<Local> locals;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i];
      const auto group = static_cast<uint32_t>(i + 1);
      std::vector<Range> whole;
      for (const int64_t size : tensor.shape) whole.push_back({0, size});
      switch (tensor.split) {
        case Split::kReplicated:
          // Half of them undeclared: readers find out themselves.
          locals.push_back(BoxLocal(tensor, whole, i % 2 == 0 ? group : 0));
          if (i % 3 == 0) locals.back().pieces.clear();
          break;
        case Split::kPipeline:
          if (static_cast<int64_t>(i) % ranks == rank) {
            locals.push_back(BoxLocal(tensor, whole, 0));
          }
          break;
        case Split::kTensor: {
          const int64_t parts = std::max<int64_t>(1, ranks / 2);
          locals.push_back(BoxLocal(
              tensor, dsckpt::SplitBox(tensor.shape, tensor.dim, rank % parts, parts), group));
          break;
        }
        case Split::kGrid: {
          const int64_t across = ranks % 2 == 0 ? 2 : 1, down = ranks / across;
          auto box = dsckpt::SplitBox(tensor.shape, 0, rank / across, down);
          box[1] = dsckpt::SplitBox(tensor.shape, 1, rank % across, across)[1];
          locals.push_back(BoxLocal(tensor, box, group));
          break;
        }
        case Split::kZero:
          break;
      }
    }
    locals.push_back(ZeroPartition(rank, ranks));
    return locals;
  }

 private:
  /// Rank's equal part of all kZero tensors end to end.
  Local ZeroPartition(int64_t rank, int64_t ranks) const {
    int64_t total = 0;
    for (const Tensor& tensor : tensors) {
      if (tensor.split == Split::kZero) total += tensor.elements();
    }
    const int64_t each = (total + ranks - 1) / ranks;
    const int64_t begin = rank * each, end = begin + each;
    Local local{"zero/" + std::to_string(rank), DType::kF32, {each}, {}, {}, {}};
    local.expected.assign(static_cast<size_t>(each) * 4, kPadding);
    int64_t at = 0;
    for (const Tensor& tensor : tensors) {
      if (tensor.split != Split::kZero) continue;
      const int64_t first = std::max(begin, at), last = std::min(end, at + tensor.elements());
      // A tensor without elements is known by an empty piece on one rank.
      if (first < last || (tensor.elements() == 0 && rank == 0)) {
        const int64_t count = std::max<int64_t>(0, last - first);
        const int64_t from = count == 0 ? 0 : first - at, to = from + count;
        local.pieces.push_back(
            {.logical_name = tensor.name,
             .logical_shape = tensor.shape,
             .form = dsckpt::Piece::Form::kFlat,
             .flat = {from, to},
             .element_offset = count == 0 ? 0 : static_cast<uint64_t>(first - begin)});
        if (count == 0) continue;
        std::memcpy(local.expected.data() + (first - begin) * 4, tensor.bytes.data() + from * 4,
                    static_cast<size_t>(count) * 4);
      }
      at += tensor.elements();
    }
    return local;
  }
};

/// Saves or restores `locals` through their memory. Borrows.
inline std::unique_ptr<dsckpt::StateProvider> Provider(std::vector<Local>& locals) {
  return dsckpt::MakeProvider([&locals](dsckpt::Description& d) {
    d.Flat();  // Names are what they are.
    for (Local& local : locals) {
      std::vector<dsckpt::Piece> pieces;
      for (const OwnedPiece& piece : local.pieces) pieces.push_back(piece.view());
      dsckpt::TensorSource source;
      source.data = local.memory.data();
      source.dtype = local.dtype;
      source.shape = local.shape;
      source.pieces = pieces;
      source.writable = true;
      d.Tensor(local.name, source);
    }
  });
}

}  // namespace job

#endif  // DSCKPT_TESTS_READER_CHECKPOINT_JOB_H_
