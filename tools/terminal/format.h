#ifndef DSCKPT_TOOLS_TERMINAL_FORMAT_H_
#define DSCKPT_TOOLS_TERMINAL_FORMAT_H_

// Fmt, compiled once.

#include <fmt/core.h>

#include <string>

namespace dsckpt::tools {

/// fmt::format() and fmt::format_to(), compiled in one file: fmt's other headers take seconds in
/// every file that includes them.
std::string FormatArguments(fmt::string_view format, fmt::format_args arguments);
void AppendArguments(std::string& out, fmt::string_view format, fmt::format_args arguments);

/// Its conversion to a string_view is deprecated in the releases that have get().
template <typename FormatString>
fmt::string_view TextOf(const FormatString& format) {
  if constexpr (requires { format.get(); }) {
    return format.get();
  } else {
    return format;
  }
}

template <typename... Args>
std::string Format(fmt::format_string<Args...> format, Args&&... args) {
  return FormatArguments(TextOf(format), fmt::make_format_args(args...));
}

/// Appends to `out`.
template <typename... Args>
void FormatTo(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  AppendArguments(out, TextOf(format), fmt::make_format_args(args...));
}

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_FORMAT_H_
