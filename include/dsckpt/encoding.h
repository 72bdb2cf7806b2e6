#ifndef DSCKPT_ENCODING_H_
#define DSCKPT_ENCODING_H_

#include <cstdint>

#include "dsckpt/export.h"

namespace DSCKPT_EXPORT dsckpt {

/// How an item's bytes are stored (spec/format.md, "Encodings"). Stored in files; never renumbered.
enum class Encoding : uint8_t {
  kRaw = 0,
  kZstd = 1,  ///< One zstd frame a chunk.
  kBytePlaneZstd =
      2,  ///< Bytes of equal significance gathered into planes, then zstd. Floating point only.
};

/// "raw", "zstd", "byteplane-zstd", or "unknown".
const char* EncodingName(Encoding encoding);

/// XXH3-128 of a chunk of raw bytes, or a digest of a whole item; low and high half.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

}  // namespace dsckpt

#endif  // DSCKPT_ENCODING_H_
