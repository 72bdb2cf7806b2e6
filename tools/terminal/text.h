#ifndef DSCKPT_TOOLS_TERMINAL_TEXT_H_
#define DSCKPT_TOOLS_TERMINAL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/unicode.h"

// Text for people: sizes, counts, and what goes into JSON. base/unicode.h makes names printable.

namespace dsckpt::tools {

bool IsUtf8(std::string_view text);

/// The usual alphabet, padded.
std::string Base64(std::span<const std::byte> bytes);

/// Back from TerminalName().
std::string FromPrintable(std::string_view text);
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
