#ifndef DSCKPT_FORMAT_NAMES_H_
#define DSCKPT_FORMAT_NAMES_H_

// Which names an item may have, and the path segments that names are made of.

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dsckpt/status.h"
#include "dsckpt/tree.h"

namespace dsckpt::format {

using dsckpt::IsValidUtf8;
using dsckpt::Printable;

/// May a dsckpt item bear this name? kInvalidArgument says why not: NUL, reserved, not UTF-8, too
/// long.
Status CheckItemName(std::string_view name);

/// Does the text hold U+0000 to U+001F or U+007F?
bool HoldsControl(std::string_view text);

/// May vendor data bear this name? 1 to 255 bytes of UTF-8 without control characters.
inline constexpr size_t kMaxVendorNameBytes = 255;
bool IsVendorName(std::string_view name);

/// Appends one path segment for `key` (spec/format.md, "Names"): '~' -> "~0", '/' -> "~1", "~s" in
/// front of a string that reads like an int; ints in decimal. For list positions pass
/// Key(position).
void AppendSegment(std::string& out, const Key& key);

/// The inverse for one segment: the typed key. `storage` holds the text of a string key.
Result<Key> ParseSegment(std::string_view segment, std::string& storage);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_NAMES_H_
