#define FMT_HEADER_ONLY 1
#include "tools/terminal/format.h"

#include <fmt/format.h>

#include <iterator>

namespace dsckpt::tools {

std::string FormatArguments(fmt::string_view format, fmt::format_args arguments) {
  return fmt::vformat(format, arguments);
}

void AppendArguments(std::string& out, fmt::string_view format, fmt::format_args arguments) {
  fmt::vformat_to(std::back_inserter(out), format, arguments);
}

}  // namespace dsckpt::tools
