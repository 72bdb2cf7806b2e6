#ifndef DSCKPT_ENCODING_H_
#define DSCKPT_ENCODING_H_

#include <cstdint>

#include "dsckpt/export.h"

namespace DSCKPT_EXPORT dsckpt {

/// How the bytes of a tensor or an object are stored (spec/format.md, "Chunks and encodings"). The
/// numbers are stored in files and never change their meaning.
enum class Encoding : uint8_t {
  /// The bytes are stored as they are. Only raw tensors can be mapped, and read by other programs.
  kRaw = 0,
  /// Every chunk of 4 MiB is one zstd frame.
  kZstd = 1,
  /// For floating-point tensors: in each chunk, the bytes of equal significance are gathered into
  /// planes, which compress better, and the planes are one zstd frame.
  kBytePlaneZstd = 2,
};

/// Returns "raw", "zstd", "byteplane-zstd", or "unknown" for another number. The text is static.
const char* EncodingName(Encoding encoding);

/// An XXH3-128 value: the sum of one chunk of raw bytes, or the digest of a whole item
/// (spec/format.md, "Checksums and digests"). It finds damage; it does not resist forgery.
struct Hash128 {
  /// The less significant 64 bits.
  uint64_t low = 0;
  /// The more significant 64 bits.
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

}  // namespace dsckpt

#endif  // DSCKPT_ENCODING_H_
