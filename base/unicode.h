#ifndef DSCKPT_BASE_UNICODE_H_
#define DSCKPT_BASE_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Code points of UTF-8, and names that nobody vouches for as words that a terminal can show.

namespace dsckpt {

/// One code point at the front of UTF-8 text. An invalid byte comes out alone, `valid` false.
struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};
/// REQUIRES: !text.empty().
CodePoint FrontCodePoint(std::string_view text);

/// True for what a terminal may act on or hide: C0, DEL, C1, line separators, and the bidirectional
/// and zero-width characters with which a name can pose as another.
bool IsUnsafe(char32_t value);

/// A name as one unambiguous word of a listing: unsafe characters and invalid UTF-8 as \xNN or
/// \uNNNN, and backslashes doubled. In a message, where quotes stand around it, it is Printable()
/// (base/text.h).
std::string TerminalName(std::string_view name);
/// A sentence that is readable already (backslashes kept), made safe for a terminal.
std::string SafeText(std::string_view text);

/// Columns that printable text takes on a terminal.
size_t DisplayWidth(std::string_view text);
/// `text` cut in the middle to at most `width` columns, because the end of a tensor name tells as
/// much as its beginning.
std::string FitWidth(std::string_view text, size_t width);

/// A name in a message: printable, in quotes, cut where it is long.
std::string QuotedName(std::string_view name);

}  // namespace dsckpt

#endif  // DSCKPT_BASE_UNICODE_H_
