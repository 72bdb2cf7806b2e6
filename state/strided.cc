#include "state/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

namespace dsckpt {
namespace {

struct Dim {
  uint64_t size;
  int64_t stride;  // in bytes
};

// The view with as few dimensions as describe it: those of one element dropped, neighbours that one
// stride walks merged. The last dimension is a contiguous run of bytes (stride 1), so that a byte
// range needs no special case for elements.
std::vector<Dim> Collapse(const StridedView& view) {
  std::vector<Dim> dims;
  dims.reserve(view.shape.size() + 1);
  const auto push = [&dims](uint64_t size, int64_t stride) {
    if (!dims.empty() && dims.back().stride == stride * static_cast<int64_t>(size)) {
      dims.back() = {dims.back().size * size, stride};
    } else {
      dims.push_back({size, stride});
    }
  };
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    push(static_cast<uint64_t>(view.shape[i]), view.strides[i] * view.element_bytes);
  }
  push(view.element_bytes, 1);
  return dims;
}

// Whole runs along the two innermost dimensions.
struct Block {
  uint64_t rows;
  int64_t row_stride;
  uint64_t runs;  // in a row
  int64_t run_stride;
  uint64_t run;  // bytes
};

// True when the outer dimension lies inside one step of the inner one, as in a transposed matrix.
// Then no two elements of a block overlap, so that it may be copied in any order.
bool IsTransposed(const Dim& outer, const Dim& inner, uint64_t run) {
  const auto outer_step = static_cast<uint64_t>(std::abs(outer.stride));
  const auto inner_step = static_cast<uint64_t>(std::abs(inner.stride));
  return outer_step >= run && inner_step / outer_step >= outer.size;
}

// Walks the runs of [begin, begin + bytes) in order: `copy(memory, position, bytes)` for each cut
// one, `copy_block(memory, position, block)` for whole ones. `position` counts from `begin`.
template <typename Copy, typename CopyBlock>
void Walk(const StridedView& view, uint64_t begin, uint64_t bytes, const Copy& copy,
          const CopyBlock& copy_block) {
  if (bytes == 0) return;
  std::vector<Dim> dims = Collapse(view);
  const uint64_t run = dims.back().size;
  dims.pop_back();
  uint64_t in_run = begin % run;
  if (dims.empty()) return copy(view.data + in_run, uint64_t{0}, bytes);

  std::vector<uint64_t> index(dims.size());
  std::byte* memory = view.data;
  for (uint64_t rest = begin / run, i = dims.size(); i-- > 0;) {
    index[i] = rest % dims[i].size;
    rest /= dims[i].size;
    memory += static_cast<int64_t>(index[i]) * dims[i].stride;
  }
  const size_t inner = dims.size() - 1;
  const Dim& last = dims[inner];
  const bool transposed = inner > 0 && IsTransposed(dims[inner - 1], last, run);
  // Moves `count` steps on along a dimension; at its end carries into the outer ones.
  const auto advance = [&](size_t dim, uint64_t count) {
    index[dim] += count;
    memory += static_cast<int64_t>(count) * dims[dim].stride;
    for (size_t i = dim; index[i] == dims[i].size && i > 0; --i) {
      memory += dims[i - 1].stride - static_cast<int64_t>(dims[i].size) * dims[i].stride;
      index[i] = 0;
      ++index[i - 1];
    }
  };
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t left = bytes - done;
    if (in_run != 0 || left < run) {
      const uint64_t part = std::min(left, run - in_run);
      copy(memory + in_run, done, part);
      done += part;
      in_run = 0;
      advance(inner, 1);
      continue;
    }
    const uint64_t rows = left / (run * last.size);
    if (transposed && index[inner] == 0 && rows > 1) {
      const Dim& outer = dims[inner - 1];
      const Block block{std::min(rows, outer.size - index[inner - 1]), outer.stride, last.size,
                        last.stride, run};
      copy_block(memory, done, block);
      done += block.rows * block.runs * run;
      advance(inner - 1, block.rows);
    } else {
      const uint64_t runs = std::min(left / run, last.size - index[inner]);
      copy_block(memory, done, Block{1, 0, runs, last.stride, run});
      done += runs * run;
      advance(inner, runs);
    }
  }
}

// Calls `f(memory offset, image offset, bytes)` for each run of a block. Rows go in groups whose
// neighbouring elements share cache lines: a transposed matrix would otherwise touch each line
// once an element.
template <typename Size, typename F>
void ForEachRun(const Block& block, Size run, const F& f) {
  constexpr uint64_t kGroup = 16;
  for (uint64_t first = 0; first < block.rows; first += kGroup) {
    const uint64_t end = std::min(first + kGroup, block.rows);
    for (uint64_t i = 0; i < block.runs; ++i) {
      int64_t memory = static_cast<int64_t>(first) * block.row_stride +
                       static_cast<int64_t>(i) * block.run_stride;
      for (uint64_t row = first; row < end; ++row, memory += block.row_stride) {
        f(memory, (row * block.runs + i) * run, run);
      }
    }
  }
}

// Sizes known to the compiler become single moves.
template <typename F>
void ForEachRun(const Block& block, const F& f) {
  switch (block.run) {
    case 1:
      return ForEachRun(block, std::integral_constant<uint64_t, 1>(), f);
    case 2:
      return ForEachRun(block, std::integral_constant<uint64_t, 2>(), f);
    case 4:
      return ForEachRun(block, std::integral_constant<uint64_t, 4>(), f);
    case 8:
      return ForEachRun(block, std::integral_constant<uint64_t, 8>(), f);
    case 16:
      return ForEachRun(block, std::integral_constant<uint64_t, 16>(), f);
    default:
      return ForEachRun(block, block.run, f);
  }
}

}  // namespace

void Gather(const StridedView& view, uint64_t begin, std::span<std::byte> out) {
  Walk(
      view, begin, out.size(),
      [out](const std::byte* memory, uint64_t position, uint64_t bytes) {
        std::memcpy(out.data() + position, memory, bytes);
      },
      [out](const std::byte* memory, uint64_t position, const Block& block) {
        std::byte* to = out.data() + position;
        ForEachRun(block, [=](int64_t from, uint64_t at, auto run) {
          std::memcpy(to + at, memory + from, run);
        });
      });
}

void Scatter(const StridedView& view, uint64_t begin, std::span<const std::byte> in) {
  Walk(
      view, begin, in.size(),
      [in](std::byte* memory, uint64_t position, uint64_t bytes) {
        std::memcpy(memory, in.data() + position, bytes);
      },
      [in](std::byte* memory, uint64_t position, const Block& block) {
        const std::byte* from = in.data() + position;
        ForEachRun(block, [=](int64_t to, uint64_t at, auto run) {
          std::memcpy(memory + to, from + at, run);
        });
      });
}

bool IsContiguous(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  uint64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (static_cast<uint64_t>(strides[i]) != expected) return false;
    expected *= static_cast<uint64_t>(shape[i]);
  }
  return true;
}

}  // namespace dsckpt
