#ifndef DSCKPT_TOOLS_TERMINAL_CONSOLE_H_
#define DSCKPT_TOOLS_TERMINAL_CONSOLE_H_

// Output, colour, exit codes.

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "dsckpt/status.h"
#include "tools/terminal/format.h"

namespace dsckpt::tools {

/// Exit codes of every command.
inline constexpr int kExitOk = 0;      ///< Yes, or done.
inline constexpr int kExitNo = 1;      ///< The answer is no: corrupt, truncated, different.
inline constexpr int kExitFailed = 2;  ///< Could not do it: usage, I/O, not a checkpoint.

/// Options that every command has.
struct CommonOptions {
  bool json = false;
  bool quiet = false;          ///< Nothing on standard output, and no notes.
  std::string color = "auto";  ///< "auto", "always" or "never"
};

enum class Style { kPlain, kBold, kDim, kGood, kBad };

/// Standard output, buffered, and standard error. Results go to the former, everything else to the
/// latter. Not thread-safe.
class Console {
 public:
  Console();
  void Configure(const CommonOptions& options);

  bool json() const { return json_; }
  bool quiet() const { return quiet_; }
  /// Documents are of one line each from now on, because there may be several (JSON Lines).
  void OneLineDocuments() { one_line_documents_ = true; }
  bool one_line_documents() const { return one_line_documents_; }
  bool out_is_terminal() const { return out_is_terminal_; }
  bool err_is_terminal() const { return err_is_terminal_; }
  /// Columns to fit output to; 0: not a terminal, no limit.
  size_t out_width() const { return out_width_; }
  size_t err_width() const { return err_width_; }
  /// May box characters be used?
  bool utf8() const { return utf8_; }

  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    if (quiet_) return;
    FormatTo(buffer_, format, std::forward<Args>(args)...);
    if (buffer_.size() >= kFlushBytes) Flush();
  }
  void Write(std::string_view text) {
    if (quiet_) return;
    buffer_ += text;
    if (buffer_.size() >= kFlushBytes) Flush();
  }
  /// `text` in a style, when standard output shows colours.
  std::string Styled(Style style, std::string_view text) const;
  void Flush();
  /// False once standard output takes no more (reader gone, disk full): long listings may stop.
  bool writable() const { return write_errno_ == 0; }

  /// One line on standard error, "dsckpt: <text>", made safe for a terminal. Not when quiet.
  void Note(std::string_view text);
  /// Reports `status` on standard error, and with --json as a dsckpt.error/1 document on standard
  /// output. Returns the exit code for it.
  int Fail(const Status& status);

  /// Flushes. Returns `code`, or kExitFailed with a message when standard output could not be
  /// written. A reader that went away early (head) is no failure.
  int Finish(int code);

 private:
  static constexpr size_t kFlushBytes = 1 << 16;
  std::string buffer_;
  void Say(std::string_view text);

  bool json_ = false;
  bool quiet_ = false;
  bool one_line_documents_ = false;
  bool color_ = false;
  bool out_is_terminal_, err_is_terminal_, utf8_;
  size_t out_width_, err_width_;
  int write_errno_ = 0;
};

/// kExitNo where the file itself is bad, kExitFailed otherwise.
int ExitCodeFor(StatusCode code);

/// The status as one sentence with path, offset and errno text, whichever it lacks.
std::string Sentence(const Status& status);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_CONSOLE_H_
