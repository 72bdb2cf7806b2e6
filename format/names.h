#ifndef DSCKPT_FORMAT_NAMES_H_
#define DSCKPT_FORMAT_NAMES_H_

// Legal names, path segments, printing.

#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"
#include "dsckpt/tree.h"

namespace dsckpt::format {

bool IsValidUtf8(std::string_view text);

/// May a dsckpt item bear this name? kInvalidArgument says why not: NUL, reserved, not UTF-8, too
/// long.
Status CheckItemName(std::string_view name);

/// Appends one path segment for `key` (spec/format.md, "Names"): '~' -> "~0", '/' -> "~1", "~s" in
/// front of a string that reads like an int; ints in decimal. For list positions pass
/// Key(position).
void AppendSegment(std::string& out, const Key& key);

/// The inverse for one segment: the typed key. `storage` holds the text of a string key.
Result<Key> ParseSegment(std::string_view segment, std::string& storage);

/// `name` for a terminal or a message: controls, DEL, C1 and invalid UTF-8 as \xNN, quotes and
/// backslash escaped.
std::string Printable(std::string_view name);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_NAMES_H_
