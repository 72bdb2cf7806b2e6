#ifndef DSCKPT_FUZZ_INPUT_H_
#define DSCKPT_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/footer/footer.h"

/// Makes the checksums of a mutated shard right again, so that a fuzzer reaches what lies behind
/// them. Does nothing to input that does not end in a footer with a plausible index range.
inline void RepairChecksums(std::vector<std::byte>& file) {
  using namespace dsckpt;
  if (file.size() < kFooterBytes) return;
  std::byte* footer = file.data() + file.size() - kFooterBytes;
  if (std::memcmp(footer + 120, format::kFooterMagic.data(), 8) != 0) return;
  const auto field = [&](size_t offset) {
    uint64_t value;
    std::memcpy(&value, footer + offset, sizeof(value));
    return value;
  };
  const auto set = [&](size_t offset, uint64_t value) {
    std::memcpy(footer + offset, &value, sizeof(value));
  };
  set(0, file.size());
  const uint64_t header_end = field(8), index_offset = field(24), index_bytes = field(32);
  if (index_offset <= file.size() && index_bytes <= file.size() - index_offset) {
    set(40, format::Hash64(std::span(file).subspan(index_offset, index_bytes)));
  }
  if (header_end <= file.size()) set(48, format::Hash64(std::span(file).first(header_end)));
  set(112, format::Hash64(std::span(footer, 112)));
}

#endif  // DSCKPT_FUZZ_INPUT_H_
