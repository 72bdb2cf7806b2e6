// What a TensorHistogram says.

#include <algorithm>
#include <cmath>
#include <map>

#include "dsckpt/tensor_histogram.h"

namespace dsckpt {
namespace {

double MiddleOf(const TensorHistogram::Bin& bin) { return bin.low + (bin.high - bin.low) / 2; }

bool IsBefore(const TensorHistogram::Bin& a, const TensorHistogram::Bin& b) {
  return a.low != b.low ? a.low < b.low : a.high < b.high;
}

}  // namespace

uint64_t TensorHistogram::finite() const {
  uint64_t sum = 0;
  for (const Bin& bin : bins) sum += bin.count;
  return sum;
}

std::optional<double> TensorHistogram::Quantile(double q) const {
  const uint64_t count = finite();
  if (count == 0) return std::nullopt;
  auto left = static_cast<uint64_t>(q * static_cast<double>(count - 1));
  for (const Bin& bin : bins) {
    if (left < bin.count) return MiddleOf(bin);
    left -= bin.count;
  }
  return MiddleOf(bins.back());
}

std::vector<TensorHistogram::Bin> TensorHistogram::Log2() const {
  std::map<double, Bin> found;  // by `low`
  for (const Bin& bin : bins) {
    const double size = std::min(std::fabs(bin.low), std::fabs(bin.high));
    double low = 0, high = 0;
    if (size > 0 || bin.low != bin.high) {
      // Subnormal floats that are no multiple of a step begin at 0: the bin's far end tells.
      const double value = size > 0 ? size : MiddleOf(bin);
      const int exponent = std::ilogb(value);
      low = std::ldexp(1, exponent);
      high = std::ldexp(1, exponent + 1);
      if (bin.low < 0) {
        std::swap(low, high);
        low = -low;
        high = -high;
      }
    }
    Bin& sum = found.try_emplace(low, Bin{low, high, 0}).first->second;
    sum.count += bin.count;
  }
  std::vector<Bin> log2;
  for (const auto& [low, bin] : found) log2.push_back(bin);
  return log2;
}

std::vector<TensorHistogram::Bin> TensorHistogram::Linear(uint32_t count, double least,
                                                          double greatest) const {
  if (bins.empty()) return {};
  const double width = greatest / count - least / count;
  std::vector<Bin> linear(count);
  for (uint32_t i = 0; i < count; ++i) {
    linear[i].low = least + width * i;
    linear[i].high = i + 1 == count ? greatest : least + width * (i + 1);
  }
  for (const Bin& bin : bins) {
    const double position = width > 0 ? (MiddleOf(bin) - least) / width : 0;
    const auto i = static_cast<uint32_t>(std::clamp(position, 0.0, count - 1.0));
    linear[i].count += bin.count;
  }
  return linear;
}

TensorHistogram TensorHistogram::With(const TensorHistogram& other) const {
  TensorHistogram both;
  std::vector<Bin> all;
  std::ranges::merge(bins, other.bins, std::back_inserter(all), IsBefore);
  for (const Bin& bin : all) {
    // -0 is 0.
    if (!both.bins.empty() && both.bins.back().low == bin.low &&
        both.bins.back().high == bin.high) {
      both.bins.back().count += bin.count;
    } else {
      both.bins.push_back(bin);
    }
  }
  return both;
}

}  // namespace dsckpt
