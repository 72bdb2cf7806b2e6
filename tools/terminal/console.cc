#include "tools/terminal/console.h"

#include <ctype.h>
#include <errno.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

// 80 columns where a terminal does not say (a serial line answers 0).
size_t TerminalWidth(int fd) {
  if (!isatty(fd)) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// Returns 0 or errno.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

bool WantColor(const std::string& option, bool terminal) {
  if (option != "auto") return option == "always";
  const char* no_color = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  const bool dumb = term != nullptr && strcmp(term, "dumb") == 0;
  return terminal && !dumb && (no_color == nullptr || *no_color == '\0');
}

/// Whether `part` stands in `text`, and is not a part of a longer word.
bool HoldsWord(const std::string& text, const std::string& part) {
  const auto in_word = [&](size_t at) {
    return at < text.size() && isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    if ((at == 0 || !in_word(at - 1)) && !in_word(at + part.size())) return true;
  }
  return false;
}

}  // namespace

Console::Console()
    : out_is_terminal_(isatty(STDOUT_FILENO)),
      err_is_terminal_(isatty(STDERR_FILENO)),
      utf8_(strcmp(nl_langinfo(CODESET), "UTF-8") == 0),
      out_width_(TerminalWidth(STDOUT_FILENO)),
      err_width_(TerminalWidth(STDERR_FILENO)) {}

void Console::Configure(const CommonOptions& options) {
  json_ = options.json;
  quiet_ = options.quiet;
  color_ = WantColor(options.color, out_is_terminal_);
}

std::string Console::Styled(Style style, std::string_view text) const {
  if (!color_ || style == Style::kPlain) return std::string(text);
  const char* code = "0";
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kBold:
      code = "1";
      break;
    case Style::kDim:
      code = "2";
      break;
    case Style::kGood:
      code = "32";
      break;
    case Style::kBad:
      code = "1;31";
      break;
  }
  return Format("\033[{}m{}\033[0m", code, text);
}

void Console::Flush() {
  if (write_errno_ == 0) write_errno_ = WriteAll(STDOUT_FILENO, buffer_);
  buffer_.clear();
}

void Console::Note(std::string_view text) {
  if (!quiet_) Say(text);
}

void Console::Say(std::string_view text) {
  Flush();  // Keeps the order where both streams go to one terminal.
  // Nobody can be told when standard error itself is gone.
  (void)WriteAll(STDERR_FILENO, Format("dsckpt: {}\n", SafeText(text)));
}

int Console::Fail(const Status& status) {
  Say(Sentence(status));
  if (json_) WriteErrorJson(*this, status);
  return ExitCodeFor(status.code());
}

int Console::Finish(int code) {
  Flush();
  if (write_errno_ == 0 || write_errno_ == EPIPE) return code;
  Say(Format("cannot write to standard output: {}", strerror(write_errno_)));
  return kExitFailed;
}

int ExitCodeFor(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kCorrupt:
    case StatusCode::kTruncated:
    case StatusCode::kTrailingBytes:
    case StatusCode::kIncomplete:
    case StatusCode::kMismatch:
      return kExitNo;
    default:
      return kExitFailed;
  }
}

std::string Sentence(const Status& status) {
  std::string text = status.message();
  if (text.empty()) text = StatusCodeName(status.code());
  const auto lacks = [&](const std::string& part) { return !HoldsWord(text, part); };
  if (!status.path().empty() && lacks(status.path())) text = status.path() + ": " + text;
  if (status.offset() >= 0 && lacks(std::to_string(status.offset()))) {
    text += Format(" (at offset {})", status.offset());
  }
  if (status.error_number() != 0 && lacks(strerror(status.error_number()))) {
    text += Format(": {}", strerror(status.error_number()));
  }
  return text;
}

}  // namespace dsckpt::tools
