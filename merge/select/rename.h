#ifndef DSCKPT_MERGE_SELECT_RENAME_H_
#define DSCKPT_MERGE_SELECT_RENAME_H_

#include <regex>
#include <string>

#include "dsckpt/status.h"

// Replacements in names. Names come from files and the matcher recurses and backtracks, so that
// both its depth and its steps have bounds.

namespace dsckpt::merge {

class Rename {
 public:
  /// Longer names are given to no expression.
  static constexpr size_t kMaxNameBytes = 4096;

  /// "s/RE/NEW/" or "s/RE/NEW/g", with any character in the place of the slash. kInvalidArgument.
  static Result<Rename> Parse(const std::string& text);

  /// kInvalidArgument: a name that is too long, or on which the expression takes too many steps
  /// (some seconds at most) or too much of the stack.
  Result<std::string> Apply(const std::string& name) const;

  const std::string& text() const { return text_; }

 private:
  std::string text_, with_;
  std::regex expression_;
  bool all_ = false;
};

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_SELECT_RENAME_H_
