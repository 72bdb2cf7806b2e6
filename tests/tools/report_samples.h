#ifndef DSCKPT_TESTS_TOOLS_REPORT_SAMPLES_H_
#define DSCKPT_TESTS_TOOLS_REPORT_SAMPLES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/report.h"

// Made-up runs for the page of dsckpt report, and what stands in a page.

/// A run of `steps` checkpoints with `layers` layers of 8 tensors, whose numbers look like those of
/// training. Planted: a NaN at the last layer's first tensor from 3/4 of the steps on, a jump of
/// all layers' MLP at half of them.
dsckpt::tools::Report MadeUpReport(uint32_t steps, uint32_t layers, bool moments = false);

inline constexpr double kPlantedJump = 25;

/// What a page holds.
struct PageData {
  nlohmann::ordered_json json;
  /// As Pack() of tools/report/cells.h writes it.
  std::string cells;

  size_t rows() const { return json["rows"]["name"].size(); }
  size_t columns() const { return json["starts"].size() - 1; }
  size_t RowOf(const std::string& name) const;
  /// The code and the range it stands for, as the page's script reads them.
  std::optional<double> Value(const std::string& metric, size_t row, size_t column) const;
  uint8_t Flags(size_t row, size_t column) const;
  /// The column in which the content was first seen.
  std::optional<size_t> First(size_t row, size_t column) const;

  /// Where flags begin.
  size_t AfterMetrics() const { return json["metrics"].size() * rows() * (8 + 2 * columns()); }

 private:
  uint32_t Code(size_t planes, size_t at) const;
};

/// Fails the test where the page has none.
PageData DataOf(const std::string& page);

#endif  // DSCKPT_TESTS_TOOLS_REPORT_SAMPLES_H_
