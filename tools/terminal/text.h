#ifndef DSCKPT_TOOLS_TERMINAL_TEXT_H_
#define DSCKPT_TOOLS_TERMINAL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Text for people: escapes, display widths, sizes.

namespace dsckpt::tools {

/// One code point at the front of UTF-8 text. An invalid byte comes out alone, `valid` false.
struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};
CodePoint FrontCodePoint(std::string_view text);

bool IsUtf8(std::string_view text);

/// The usual alphabet, padded.
std::string Base64(std::span<const std::byte> bytes);

/// True for what a terminal may act on or hide: C0, DEL, C1, line separators, and the bidirectional
/// and zero-width characters with which a name can pose as another.
bool IsUnsafe(char32_t value);

/// A name as one unambiguous word: unsafe characters and invalid UTF-8 as \xNN or \uNNNN, and
/// backslashes doubled.
std::string Printable(std::string_view name);
/// Back from Printable().
std::string FromPrintable(std::string_view text);
/// A sentence that is readable already (backslashes kept), made safe for a terminal.
std::string SafeText(std::string_view text);

/// Columns that printable text takes on a terminal.
size_t DisplayWidth(std::string_view text);
/// `text` cut in the middle to at most `width` columns, because the end of a tensor name tells as
/// much as its beginning.
std::string FitWidth(std::string_view text, size_t width);

/// "512 B", "4.02 GiB".
std::string HumanBytes(uint64_t bytes);
/// "1,072,693,248".
std::string Grouped(uint64_t number);
/// "1 tensor", "2 tensors", with thousands grouped.
std::string Count(uint64_t number, std::string_view noun);
/// "1.52 s, 2.63 GiB/s".
std::string Rate(uint64_t bytes, double seconds);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_TEXT_H_
