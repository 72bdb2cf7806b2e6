#ifndef DSCKPT_TOOLS_CONVERSIONS_H_
#define DSCKPT_TOOLS_CONVERSIONS_H_

#include <string>
#include <vector>

#include "tools/console.h"
#include "tools/merge_output.h"
#include "tools/merge_plan.h"
#include "tools/save.h"

// What import, export and merge do, for `convert`, which picks among them. All report to the
// console and return the exit code.

namespace dsckpt::tools {

struct ImportOptions {
  OutputOptions files;
  std::string encoding = "raw";
};
int Import(Console& console, const ImportOptions& options);

struct ExportOptions {
  OutputOptions files;
  bool strict = false;
  bool no_verify = false;
};
int Export(Console& console, const ExportOptions& options);

struct MergeOptions {
  /// A checkpoint directory; any number of shards or safetensors files; or the index of a sharded
  /// safetensors model.
  std::vector<std::string> inputs;
  MergeTarget target;
  Spread spread;
  std::string format = "dsckpt";
  bool no_verify = false;
  bool dry_run = false;
};
int Merge(Console& console, const MergeOptions& options);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_CONVERSIONS_H_
