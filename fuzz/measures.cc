// Parses lines of a cache of measures: what passes is written as a line that says the same.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "trajectory/measure_line.h"

namespace {

using namespace dsckpt;

/// The line of a measure; empty where the release does not know its kind.
std::string LineOf(const trajectory::MeasureLine& line) {
  std::string text;
  const std::span<const Hash128> of = line.of;
  if (const auto* moments = std::get_if<MeasureCache::Moments>(&line.measure)) {
    trajectory::AppendMeasureLine(text, of.first(1), *moments);
  } else if (const auto* update = std::get_if<TensorUpdate>(&line.measure)) {
    trajectory::AppendMeasureLine(text, of.first(2), *update);
  } else if (const auto* turn = std::get_if<UpdateTurn>(&line.measure)) {
    trajectory::AppendMeasureLine(text, of, *turn);
  }
  return text;
}

void CheckLine(std::string_view line) {
  const auto parsed = trajectory::ParseMeasureLine(line);
  (void)trajectory::IsCutMeasureLine(line);
  if (!parsed.ok()) return;
  const std::string text = LineOf(*parsed);
  if (text.empty()) return;
  const auto again =
      trajectory::ParseMeasureLine(std::string_view(text).substr(0, text.size() - 1));
  if (!again.ok() || LineOf(*again) != text) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    CheckLine(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}
