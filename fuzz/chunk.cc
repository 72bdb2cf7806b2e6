// Decodes hostile stored chunks, and honest ones that were damaged. First byte: encoding; second:
// where to damage.

#include <algorithm>
#include <vector>

#include "format/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsckpt;
  if (size < 4) return 0;
  static format::ChunkEncoder encoder;
  static format::ChunkDecoder decoder;
  const auto encoding = static_cast<Encoding>(data[0] % 4);
  const uint32_t width = 1u << (data[1] % 4);
  const size_t raw_bytes = (size_t{data[2]} << 8 | data[3]) / width * width;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 4, size - 4);
  std::vector<std::byte> raw(raw_bytes);
  static_cast<void>(decoder.Decode(encoding, width, bytes, raw));

  const auto input = bytes.first(bytes.size() / width * width);
  if (encoding != Encoding::kZstd && encoding != Encoding::kBytePlaneZstd) return 0;
  const auto stored = encoder.Encode(encoding, width, input);
  if (!stored.ok()) __builtin_trap();
  std::vector<std::byte> copy(stored->begin(), stored->end());
  std::vector<std::byte> decoded(input.size());
  const bool same = decoder.Decode(encoding, width, copy, decoded).ok() &&
                    std::equal(decoded.begin(), decoded.end(), input.begin());
  if (!same) __builtin_trap();
  if (!copy.empty()) {
    copy[data[1] % copy.size()] ^= std::byte{data[2]};
    static_cast<void>(decoder.Decode(encoding, width, copy, decoded));
  }
  return 0;
}
