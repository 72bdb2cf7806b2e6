#ifndef DSCKPT_MERGE_SELECT_GLOB_H_
#define DSCKPT_MERGE_SELECT_GLOB_H_

// Name patterns.

#include <string>
#include <string_view>
#include <vector>

namespace dsckpt::merge {

/// Shell pattern over a whole name: `*` any text ('/' and '.' too, since names are no paths), `?`
/// one character, `[a-z]` and `[!a-z]` one of a set, `{a,b}` one of these, backslash the next
/// character itself. fnmatch() is not used: it ends at NUL, follows the locale, and some patterns
/// take it exponential time.
bool GlobMatch(std::string_view pattern, std::string_view name);

/// True when `patterns` is empty or any of them matches.
bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_SELECT_GLOB_H_
