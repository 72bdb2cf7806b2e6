#ifndef DSCKPT_TOOLS_SELECT_SELECTION_H_
#define DSCKPT_TOOLS_SELECT_SELECTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/status.h"
#include "tools/terminal/command_line.h"

// Which tensors a conversion takes, what they are called afterwards, and in which dtype.

namespace dsckpt::tools {

/// Names that any of the patterns `filters` matches (all when empty), but none of `excludes`.
struct NameFilter {
  std::vector<std::string> filters, excludes;

  bool any() const { return !filters.empty() || !excludes.empty(); }
  bool Takes(std::string_view name) const;
};

/// --filter and --exclude, each with its line of help.
void AddNameFilter(CommandLine& line, NameFilter& names, const char* filter_help,
                   const char* exclude_help);

struct Selection {
  NameFilter names;  ///< of the input
  std::string strip_prefix;
  std::vector<std::string> renames;  ///< "s/RE/NEW/", one after the other
  std::optional<DType> dtype;        ///< floating-point tensors are cast to it

  /// Whether some tensors may be left out, or get other names.
  bool chooses() const { return names.any(); }
  bool renames_any() const { return !strip_prefix.empty() || !renames.empty(); }
  bool any() const { return chooses() || renames_any() || dtype.has_value(); }
};

/// --filter, --exclude, --strip-prefix, --rename and --dtype.
void AddSelectionOptions(CommandLine& line, Selection& selection);

/// What each of `names` is called in the output; nothing for those that are left out. `paths`: they
/// are paths in a state tree, of which a last segment that is left alone becomes the key again that
/// it stands for ("model/a~1b" without "model/" is "a/b").
/// kInvalidArgument: an option that no name meets, names that become one, a name that no file may
/// bear, or an expression that cannot be read.
Result<std::vector<std::optional<std::string>>> SelectNames(
    const Selection& selection, const std::vector<std::string_view>& names, bool paths);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_SELECT_SELECTION_H_
