#ifndef DSCKPT_TOOLS_STEP_H_
#define DSCKPT_TOOLS_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "dsckpt/status.h"
#include "dsckpt/tree.h"
#include "merge/metadata.h"

// Attributes that an import adds, the step first of all.

namespace dsckpt::tools {

struct GivenAttribute {
  std::string name;
  Value value;
};

/// Each "NAME=VALUE" of `option`: integers, floating-point numbers, true, false and null are read
/// as such, all else as text. kInvalidArgument: no name, or one twice.
Result<std::vector<GivenAttribute>> ParseAttributes(const std::vector<std::string>& texts,
                                                    const std::string& option = "--attribute");

struct FoundStep {
  int64_t step = 0;
  std::string from;    ///< "option", "metadata" or "file name"
  bool given = false;  ///< stands among the attributes already
};

/// The step of a safetensors file: `option`, or the attribute `step`, or the member `step` of its
/// metadata where that is a whole number, or the number in its name. Nothing where there is none.
/// kInvalidArgument: option and attribute, or the attribute is no whole number.
Result<std::optional<FoundStep>> FindStep(const File& file, std::optional<int64_t> option,
                                          const std::vector<GivenAttribute>& attributes);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_STEP_H_
