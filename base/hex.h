#ifndef DSCKPT_BASE_HEX_H_
#define DSCKPT_BASE_HEX_H_

// Numbers as digits of names and messages.

#include <cstddef>
#include <cstdint>
#include <string>

namespace dsckpt {

/// 16 lower-case hexadecimal digits.
inline std::string Hex64(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = text.size(); value != 0; value >>= 4) text[--i] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace dsckpt

#endif  // DSCKPT_BASE_HEX_H_
