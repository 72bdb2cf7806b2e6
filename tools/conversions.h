#ifndef DSCKPT_TOOLS_CONVERSIONS_H_
#define DSCKPT_TOOLS_CONVERSIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/merge_output.h"
#include "tools/merge_plan.h"
#include "tools/save.h"
#include "tools/select/selection.h"
#include "tools/terminal/console.h"

// What import, export and merge do, for `convert`, which picks among them. All report to the
// console and return the exit code.

namespace dsckpt::tools {

struct ImportOptions {
  OutputOptions files;
  std::string encoding = "raw";
  std::optional<int64_t> step = {};
  std::vector<std::string> attributes = {};  ///< "NAME=VALUE"
};
int Import(Console& console, const ImportOptions& options);

struct ExportOptions {
  OutputOptions files;
  Selection selection;
  bool strict = false;
  bool no_verify = false;
};
int Export(Console& console, const ExportOptions& options);

struct MergeOptions {
  /// One operand, or several files in rank order.
  std::vector<std::string> inputs;
  Selection selection;
  MergeTarget target;
  Spread spread;
  bool no_verify = false;
  bool dry_run = false;
  bool strict = false;  ///< refuse to leave out objects and attributes
};
int Merge(Console& console, const MergeOptions& options);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_CONVERSIONS_H_
