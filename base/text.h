#ifndef DSCKPT_BASE_TEXT_H_
#define DSCKPT_BASE_TEXT_H_

// Text for messages and file names: what is UTF-8, escapes, hexadecimal digits, lists of names.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dsckpt {

/// Whether all of `text` is UTF-8 without overlong forms and surrogates (Unicode 15, table 3-7).
bool IsValidUtf8(std::string_view text);

/// `name` for a terminal or a message: controls, DEL, C1 and invalid UTF-8 as \xNN, quotes and
/// backslash escaped.
std::string Printable(std::string_view name);

/// Appends the two lower-case hexadecimal digits of `byte`.
void AppendHex(std::string& out, uint8_t byte);
/// 16 lower-case hexadecimal digits.
std::string Hex64(uint64_t value);

/// The first few of many entries of an error message, and how many more there are:
/// "'a', 'b' (why) and 40 more".
class ShortList {
 public:
  explicit ShortList(size_t shown = 10) : shown_(shown) {}

  /// Adds `entry` as it is.
  void Add(std::string_view entry);
  /// Adds `name` in quotes, printable, with `why` in parentheses behind it unless that is empty.
  void AddName(std::string_view name, std::string_view why = {});

  bool empty() const { return count_ == 0; }
  std::string Text() const;
  /// Appends "; " where needed, `what` and Text() to `message`, unless the list is empty.
  void Say(std::string_view what, std::string& message) const;

 private:
  size_t shown_;
  size_t count_ = 0;
  std::string text_;
};

}  // namespace dsckpt

#endif  // DSCKPT_BASE_TEXT_H_
