#ifndef DSCKPT_TOOLS_DIFF_ELEMENTS_H_
#define DSCKPT_TOOLS_DIFF_ELEMENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/analysis.h"

// The elements that differ most, as `dsckpt diff --show` prints them.

namespace dsckpt::tools {

class Console;

/// Elements of one tensor.
struct ShownElements {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const ElementDiff> elements;
};

void PrintElements(Console& console, const std::vector<ShownElements>& tensors);
/// The member "elements" of the JSON document.
std::string ElementsJson(const std::vector<ShownElements>& tensors);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_DIFF_ELEMENTS_H_
