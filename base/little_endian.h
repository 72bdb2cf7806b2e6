#ifndef DSCKPT_BASE_LITTLE_ENDIAN_H_
#define DSCKPT_BASE_LITTLE_ENDIAN_H_

// Integers in the byte order in which the format stores them.

#include <cstddef>
#include <type_traits>

namespace dsckpt {

/// Every integer of the format is little-endian (spec/format.md, "Conventions"). REQUIRES:
/// sizeof(T) bytes at the address. Compilers make one move of each on little-endian machines.
template <typename T>
void StoreLittleEndian(std::byte* at, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::byte>(bits >> (8 * i) & 0xFF);
}

template <typename T>
T LoadLittleEndian(const std::byte* at) {
  std::make_unsigned_t<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bits = static_cast<std::make_unsigned_t<T>>(bits | static_cast<std::make_unsigned_t<T>>(at[i])
                                                           << (8 * i));
  }
  return static_cast<T>(bits);
}

}  // namespace dsckpt

#endif  // DSCKPT_BASE_LITTLE_ENDIAN_H_
