// Parses a safetensors header: that of a file, or the input itself.

#include "format/header/header.h"

#include <cstring>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsckpt;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  uint64_t length = 0;
  if (size >= 8) std::memcpy(&length, data, 8);
  uint64_t data_bytes = 24;
  if (size >= 8 && length <= size - 8) {
    text = text.substr(8, length);
    data_bytes = size - 8 - length;
  }
  const auto header = format::ParseHeader(text, data_bytes);
  if (!header.ok()) return 0;
  // What parses must parse again, and alike, when written canonically.
  format::HeaderBuilder builder(false, header->metadata);
  for (const auto& entry : header->entries) {
    builder.Add(entry.name, entry.dtype.name, entry.shape, entry.begin, entry.end);
  }
  bool listed = true;
  const auto region = builder.Finish(&listed);
  if (!region.ok()) return 0;
  const auto again = format::ParseHeader(std::string_view(*region).substr(8), data_bytes);
  if (!again.ok() || again->entries.size() != header->entries.size()) __builtin_trap();
  return 0;
}
