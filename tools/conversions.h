#ifndef DSCKPT_TOOLS_CONVERSIONS_H_
#define DSCKPT_TOOLS_CONVERSIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/merge.h"
#include "tools/save.h"
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
  TensorSelection selection;
  bool strict = false;
  bool no_verify = false;
};
int Export(Console& console, const ExportOptions& options);

/// `inputs`: one path, or several files in rank order.
int Merge(Console& console, const std::vector<std::string>& inputs, const std::string& output,
          MergeOptions options);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_CONVERSIONS_H_
