#include "tools/diff_elements.h"

#include <cmath>
#include <utility>

#include "tools/rows.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

std::vector<int64_t> PlaceOf(uint64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<uint64_t>(shape[i]);
    place[i] = static_cast<int64_t>(index % size);
    index /= size;
  }
  return place;
}

/// Enough digits to tell it from its neighbours in the narrowest of F32 and F64 that has it.
std::string ElementText(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? Format("{}", narrow) : Format("{}", value);
}

std::string ElementJson(double value) {
  if (std::isfinite(value)) return JsonText(value);
  return Format("{{\"$float\": \"{}\"}}", std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
}

}  // namespace

void PrintElements(Console& console, const std::vector<ShownElements>& tensors) {
  std::vector<std::pair<const ShownElements*, const ElementDiff*>> rows;
  for (const ShownElements& tensor : tensors) {
    for (const ElementDiff& element : tensor.elements) rows.emplace_back(&tensor, &element);
  }
  if (rows.empty()) return;
  constexpr auto kRight = Column::Align::kRight;
  console.Print("\n");
  PrintTable(console,
             {{"NAME", Column::Align::kLeft, true},
              {"INDEX", kRight},
              {"A", kRight},
              {"B", kRight},
              {"|B-A|", kRight},
              {"ULP", kRight}},
             rows.size(), [&](size_t row, std::vector<std::string>& cells) {
               const auto& [tensor, element] = rows[row];
               cells = {TerminalName(tensor->name),
                        JsonText(PlaceOf(element->index, tensor->shape)),
                        ElementText(element->a),
                        ElementText(element->b),
                        Format("{:.4g}", element->distance),
                        element->ulp ? Grouped(*element->ulp) : ""};
             });
  console.Print("\n");
}

std::string ElementsJson(const std::vector<ShownElements>& tensors) {
  std::string text;
  for (const ShownElements& tensor : tensors) {
    for (const ElementDiff& element : tensor.elements) {
      text += Format(
          "{}\n    {{\"name\": {}, \"index\": {}, \"a\": {}, \"b\": {}, \"distance\": {}, "
          "\"ulp\": {}}}",
          text.empty() ? "" : ",", JsonQuoted(tensor.name),
          JsonText(PlaceOf(element.index, tensor.shape)), ElementJson(element.a),
          ElementJson(element.b), JsonText(element.distance),
          element.ulp ? JsonText(*element.ulp) : "null");
    }
  }
  return "\"elements\": [" + text + (text.empty() ? "]" : "\n  ]");
}

}  // namespace dsckpt::tools
