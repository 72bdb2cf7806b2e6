// Histograms against sorted elements.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

#include "dsckpt/analysis.h"
#include "tests/analysis/samples.h"
#include "tests/support/reference_statistics.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

TensorHistogram HistogramOf(SampleTensor tensor, int threads = 0) {
  TempDir dir;
  SampleTensors tensors = {{"t", std::move(tensor)}};
  SaveSample(dir / "a", tensors);
  const uint32_t all[] = {0};
  AnalysisOptions options;
  options.threads = threads;
  const auto report = Moments(OpenSample(dir / "a"), all, options, true);
  REQUIRE(report.ok());
  REQUIRE(report->histograms.size() == 1);
  return report->histograms[0];
}

SampleTensor AnyBits(DType dtype, size_t count) {
  std::mt19937 random(4);
  SampleTensor tensor{dtype, {static_cast<int64_t>(count)}, {}};
  tensor.bytes.resize(count * FindDType(dtype)->block_bytes);
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
  return tensor;
}

std::vector<double> FiniteSorted(const SampleTensor& tensor) {
  const size_t size = FindDType(tensor.dtype)->block_bytes;
  std::vector<double> values;
  for (size_t at = 0; at < tensor.bytes.size(); at += size) {
    const double value = ReferenceValue(tensor.dtype, &tensor.bytes[at]);
    if (std::isfinite(value)) values.push_back(value);
  }
  std::ranges::sort(values);
  return values;
}

}  // namespace

TEST_CASE("histogram: counts and quantiles of every real dtype") {
  for (const DTypeInfo& info : AllDTypes()) {
    const bool complex = info.code == DType::kC64 || info.code == DType::kC128;
    if (info.block_elements != 1 || complex) continue;
    INFO(info.name);
    const SampleTensor tensor = AnyBits(info.code, 5000);
    const std::vector<double> values = FiniteSorted(tensor);
    const TensorHistogram found = HistogramOf(tensor);
    CHECK(found.finite() == values.size());
    CHECK(std::ranges::is_sorted(found.bins, {}, &TensorHistogram::Bin::low));
    uint64_t log2 = 0, linear = 0;
    for (const auto& bin : found.Log2()) {
      log2 += bin.count;
      const auto in_bin = std::ranges::count_if(values, [&](double v) {
        if (bin.low == 0 && bin.high == 0) return v == 0;
        return bin.high > 0 ? bin.low <= v && v < bin.high : bin.low < v && v <= bin.high;
      });
      // What a float is too small for is in the greatest or the least one.
      const double far = std::max(std::fabs(bin.low), std::fabs(bin.high));
      const double near = std::min(std::fabs(bin.low), std::fabs(bin.high));
      if (far < FLT_MAX && near > FLT_MIN) CHECK(bin.count == static_cast<uint64_t>(in_bin));
    }
    for (const auto& bin : found.Linear(7, values.front(), values.back())) linear += bin.count;
    CHECK(log2 == values.size());
    CHECK(linear == values.size());
    for (const double q : {0.0, 0.01, 0.25, 0.5, 0.77, 1.0}) {
      const double expected =
          values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
      if (std::fabs(expected) > FLT_MAX) continue;
      const double tolerance =
          info.block_bytes <= 2 ? 0 : std::fabs(expected) * 0.004 + FLT_MIN / 128;
      INFO(q << " " << *found.Quantile(q) << " " << expected);
      CHECK(std::fabs(*found.Quantile(q) - expected) <= tolerance);
    }
  }
}

TEST_CASE("histogram: zeros, signs, what is not finite, and nothing at all") {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const TensorHistogram found =
      HistogramOf(Sample<float>({0, -0.0f, nan, inf, -inf, 1, 1.5f, -3, FLT_MAX, -1e-40f}));
  CHECK(found.finite() == 7);
  const auto log2 = found.Log2();
  REQUIRE(log2.size() == 5);
  CHECK((log2[0].low == -4 && log2[0].high == -2 && log2[0].count == 1));
  CHECK((log2[1].high < 0 && log2[1].low > -1e-39 && log2[1].count == 1));
  CHECK((log2[2].low == 0 && log2[2].high == 0 && log2[2].count == 2));
  CHECK((log2[3].low == 1 && log2[3].high == 2 && log2[3].count == 2));
  CHECK((log2[4].low == std::ldexp(1, 127) && log2[4].count == 1));
  CHECK(HistogramOf(Sample<float>({nan})).Quantile(0.5) == std::nullopt);
  CHECK(HistogramOf(Sample<float>({nan})).Linear(3, 0, 0).empty());
  CHECK(HistogramOf(Sample<float>({2, 2})).Linear(3, 2, 2)[0].count == 2);
  CHECK(HistogramOf(Sample<float>({}, {0})).bins.empty());
}

TEST_CASE("histogram: linear bins have equal widths and hold their ends") {
  const auto bins = HistogramOf(Sample<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8})).Linear(4, 0, 8);
  REQUIRE(bins.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(bins[i].high - bins[i].low == 2);
    CHECK(bins[i].count == (i == 3 ? 3 : 2));
  }
}

TEST_CASE("histogram: of several chunks and threads the same") {
  const SampleTensor tensor = AnyBits(DType::kBF16, 2'500'000);
  const TensorHistogram one = HistogramOf(tensor, 1), seven = HistogramOf(tensor, 7);
  uint64_t finite = 0;
  for (size_t at = 0; at < tensor.bytes.size(); at += 2) {
    // All bits of the exponent are ones in what is not.
    const auto upper = std::to_integer<unsigned>(tensor.bytes[at + 1]) & 0x7F;
    const auto lower = std::to_integer<unsigned>(tensor.bytes[at]) >> 7;
    finite += upper == 0x7F && lower == 1 ? 0 : 1;
  }
  CHECK(one.finite() == finite);
  REQUIRE(one.bins.size() == seven.bins.size());
  for (size_t i = 0; i < one.bins.size(); ++i) {
    const auto &a = one.bins[i], &b = seven.bins[i];
    if (a.low != b.low || a.count != b.count) FAIL("bin " << i);
  }
}
