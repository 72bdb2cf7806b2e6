#include "state/strided.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/catch.h"

using namespace dsckpt;

namespace {

// A view into memory of its own, with the naive truth about it.
struct Case {
  std::vector<int64_t> shape, strides;
  uint32_t element_bytes = 1;
  std::vector<std::byte> memory;
  int64_t origin = 0;  // element of `memory` that is element (0, 0, ...)

  StridedView View() {
    return {memory.data() + origin * element_bytes, element_bytes, shape, strides};
  }
  uint64_t Bytes() const {
    return std::accumulate(shape.begin(), shape.end(), uint64_t{element_bytes},
                           [](uint64_t a, int64_t b) { return a * static_cast<uint64_t>(b); });
  }
  // Position in `memory` of byte i of the row-major image.
  size_t Where(uint64_t i) const {
    int64_t element = origin;
    uint64_t rest = i / element_bytes;
    for (size_t d = shape.size(); d-- > 0;) {
      const auto size = static_cast<uint64_t>(shape[d]);
      element += static_cast<int64_t>(rest % size) * strides[d];
      rest /= size;
    }
    return static_cast<size_t>(element) * element_bytes + i % element_bytes;
  }
};

Case MakeCase(std::vector<int64_t> shape, std::vector<int64_t> strides, uint32_t element_bytes) {
  Case c{std::move(shape), std::move(strides), element_bytes, {}, 0};
  int64_t last = 0;
  for (size_t d = 0; d < c.shape.size(); ++d) {
    const int64_t reach = std::max<int64_t>(c.shape[d] - 1, 0) * c.strides[d];
    (reach < 0 ? c.origin : last) += reach < 0 ? -reach : reach;
  }
  c.memory.resize(static_cast<size_t>(c.origin + last + 1) * element_bytes);
  for (size_t i = 0; i < c.memory.size(); ++i) c.memory[i] = static_cast<std::byte>(i * 131 + 7);
  return c;
}

Case RandomCase(std::mt19937_64& random) {
  const auto below = [&random](uint64_t n) { return static_cast<int64_t>(random() % n); };
  std::vector<int64_t> shape(static_cast<size_t>(below(5))), strides(shape.size());
  for (int64_t& dim : shape) dim = 1 + below(6);
  // A contiguous base, permuted, widened, reversed and expanded at random.
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (below(2) == 0) std::shuffle(order.begin(), order.end(), random);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride * (below(6) == 0 ? 0 : below(5) == 0 ? -1 : 1);
    stride *= shape[order[i]] + (below(4) == 0 ? 1 : 0);
  }
  const uint32_t widths[] = {1, 2, 3, 4, 8, 16};
  return MakeCase(shape, strides, widths[below(6)]);
}

void CheckRange(Case& c, uint64_t begin, uint64_t end) {
  std::vector<std::byte> out(end - begin), expected(end - begin);
  for (uint64_t i = begin; i < end; ++i) expected[i - begin] = c.memory[c.Where(i)];
  Gather(c.View(), begin, out);
  REQUIRE(out == expected);

  // Scatter other bytes; nothing outside the range may change.
  Case truth = c;
  std::vector<std::byte> in(end - begin);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 37 + 1);
  for (uint64_t i = begin; i < end; ++i) truth.memory[c.Where(i)] = in[i - begin];
  Case target = c;
  Scatter(target.View(), begin, in);
  REQUIRE(target.memory == truth.memory);
}

}  // namespace

TEST_CASE("gather and scatter do what a naive loop does") {
  std::mt19937_64 random(20240229);
  for (int round = 0; round < 3000; ++round) {
    Case c = RandomCase(random);
    const uint64_t bytes = c.Bytes();
    CheckRange(c, 0, bytes);
    for (int i = 0; i < 4; ++i) {
      const uint64_t begin = random() % (bytes + 1);
      CheckRange(c, begin, begin + random() % (bytes - begin + 1));
    }
  }
}

TEST_CASE("C11 shapes that matter") {
  for (const Case& c : {MakeCase({}, {}, 4),                      // scalar
                        MakeCase({0, 3}, {3, 1}, 4),              // empty
                        MakeCase({6}, {1}, 4),                    // contiguous
                        MakeCase({300, 70}, {70, 1}, 2),          // contiguous, two dimensions
                        MakeCase({300, 70}, {100, 1}, 2),         // rows of a wider matrix
                        MakeCase({70, 300}, {1, 70}, 8),          // transposed
                        MakeCase({4, 5}, {0, 1}, 4),              // expanded
                        MakeCase({40, 5}, {1, 2}, 4),             // elements overlap
                        MakeCase({5}, {-1}, 2),                   // reversed
                        MakeCase({4, 1, 5}, {5, 1000000, 1}, 2),  // a stride that is never used
                        MakeCase({3, 4, 5}, {20, -5, 1}, 3)}) {
    Case copy = c;
    if (c.shape == std::vector<int64_t>{4, 1, 5}) REQUIRE(c.memory.size() == 40);
    CheckRange(copy, 0, c.Bytes());
    CheckRange(copy, c.Bytes() / 3, c.Bytes() / 2);
  }
}

TEST_CASE("nothing is read for no bytes") {
  const int64_t shape[] = {0, 4};
  const int64_t strides[] = {4, 1};
  Gather({nullptr, 4, shape, strides}, 0, {});
  Scatter({nullptr, 4, shape, strides}, 0, {});
}

TEST_CASE("which strides are contiguous") {
  struct Row {
    std::vector<int64_t> shape, strides;
    bool contiguous;
  };
  for (const Row& row :
       {Row{{}, {}, true}, Row{{4}, {1}, true}, Row{{4}, {2}, false}, Row{{1}, {77}, true},
        Row{{2, 3}, {3, 1}, true}, Row{{2, 3}, {1, 2}, false}, Row{{2, 3}, {4, 1}, false},
        Row{{2, 1, 3}, {3, 0, 1}, true}, Row{{1, 3}, {-5, 1}, true}, Row{{3}, {-1}, false},
        Row{{3}, {0}, false}, Row{{0, 3}, {0, -9}, true}, Row{{2, 0}, {1, 1}, true}}) {
    CHECK(IsContiguous(row.shape, row.strides) == row.contiguous);
  }
}
