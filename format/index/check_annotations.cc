// Statistics and vendor data: what readers may pass over, and use only when it holds together.

#include <string>

#include "dsckpt/limits.h"
#include "format/columns/check.h"
#include "format/index/check.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

Status CheckCounts(const IndexView& index, uint32_t entry) {
  const StatisticsView& statistics = index.annotations.statistics;
  const uint32_t tensor = statistics.tensor[entry];
  uint64_t elements = 0;
  // The shapes of tensors were checked: no product overflows.
  static_cast<void>(ShapeElements(index.shape(tensor), elements));
  uint64_t left = elements;
  for (const uint64_t count :
       {statistics.nan[entry], statistics.inf[entry], statistics.zero[entry]}) {
    if (count > left) {
      return IndexError(ItemTitle("tensor", index.tensor_names, tensor),
                        "NaN, Inf and zeros in its statistics",
                        "together at most " + std::to_string(elements), "more");
    }
    left -= count;
  }
  return {};
}

Status CheckStatistics(const IndexView& index) {
  const StatisticsView& statistics = index.annotations.statistics;
  const size_t entries = statistics.tensor.size();
  const ColumnLength columns[] = {
      {"statistics.nan", entries, statistics.nan.size()},
      {"statistics.inf", entries, statistics.inf.size()},
      {"statistics.zero", entries, statistics.zero.size()},
      {"statistics.min", entries, statistics.min.size()},
      {"statistics.max", entries, statistics.max.size()},
      {"statistics.sum", entries, statistics.sum.size()},
      {"statistics.sum_squares", entries, statistics.sum_squares.size()},
  };
  DSCKPT_RETURN_IF_ERROR(CheckLengths(kIndexPart, columns));
  uint64_t least = 0;
  for (uint32_t i = 0; i < entries; ++i) {
    const uint32_t tensor = statistics.tensor[i];
    if (tensor < least || tensor >= index.tensor_names.size()) {
      return IndexError(
          "statistics", "tensor",
          std::to_string(least) + " to below " + std::to_string(index.tensor_names.size()),
          std::to_string(tensor));
    }
    DSCKPT_RETURN_IF_ERROR(CheckCounts(index, i));
    least = uint64_t{tensor} + 1;
  }
  return {};
}

Status CheckVendor(const IndexView& index) {
  std::string_view before;
  for (const VendorView& entry : index.annotations.vendor) {
    if (!IsVendorName(entry.name)) {
      return IndexError("vendor", "name", "1 to 255 bytes of UTF-8 without control characters",
                        "'" + Printable(entry.name.substr(0, kMaxVendorNameBytes)) + "'");
    }
    if (entry.name <= before) {
      return IndexError("vendor", "names", "ascending",
                        "'" + Printable(entry.name) + "' behind '" + Printable(before) + "'");
    }
    before = entry.name;
  }
  return {};
}

}  // namespace

Status CheckAnnotations(const IndexView& index) {
  DSCKPT_RETURN_IF_ERROR(CheckStatistics(index));
  return CheckVendor(index);
}

}  // namespace dsckpt::format
