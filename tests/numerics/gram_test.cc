// Inner products of many rows: what they come to, and that no instruction set changes a bit.

#include <cmath>
#include <random>
#include <vector>

#include "numerics/gram_kernels.h"
#include "tests/support/catch.h"

namespace dsckpt::numerics {
namespace {

std::vector<double> RandomRows(size_t rows) {
  std::mt19937 random(static_cast<unsigned>(rows));
  std::normal_distribution<double> normal;
  std::vector<double> numbers(GramRows(rows) * kGramElements, 0.0);
  for (size_t i = 0; i < rows * kGramElements; ++i) numbers[i] = normal(random);
  return numbers;
}

}  // namespace

TEST_CASE("gram: products of all pairs, by every instruction set the same") {
  for (const size_t rows : {1, 2, 3, 4, 7, 40}) {
    CAPTURE(rows);
    const std::vector<double> numbers = RandomRows(rows);
    const std::vector<double> before(GramPairs(rows), 0.25);
    std::vector<double> first;
    for (const GramKernels& kernels : UsableGramKernels()) {
      CAPTURE(kernels.target);
      std::vector<double> sums = before;
      kernels.add_products(numbers.data(), rows, sums.data());
      if (first.empty()) first = sums;
      CHECK(sums == first);
    }
    double worst = 0;
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        long double exact = 0.25;
        for (size_t k = 0; k < kGramElements; ++k) {
          exact += static_cast<long double>(numbers[i * kGramElements + k]) *
                   numbers[j * kGramElements + k];
        }
        const auto error = std::fabs(first[GramPair(i, j)] - exact);
        worst = std::max(worst, static_cast<double>(error));
      }
    }
    CHECK(worst < 1e-12);
    CHECK(worst > 0);
  }
}

}  // namespace dsckpt::numerics
