#ifndef DSCKPT_FORMAT_CODEC_H_
#define DSCKPT_FORMAT_CODEC_H_

// Encodes chunks to zstd frames and decodes them, byte planes apart where that helps.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dsckpt/encoding.h"
#include "dsckpt/status.h"

namespace dsckpt::format {

/// Encodes chunks (spec/format.md, "Encodings"). One a thread: it keeps a zstd context and at most
/// two chunks of memory.
class ChunkEncoder {
 public:
  ChunkEncoder();
  ~ChunkEncoder();
  /// Bytes to store for `raw` (at most kChunkBytes). When encoding does not shrink it, that is
  /// `raw` itself. Valid until the next call. `element_bytes`: width for byte planes; must divide
  /// raw.size() for kBytePlaneZstd.
  Result<std::span<const std::byte>> Encode(Encoding encoding, uint32_t element_bytes,
                                            std::span<const std::byte> raw);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Decodes chunks. Each thread has one of its own. Never allocates more than one chunk.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  /// Fills `raw` from `stored` (stored.size() == raw.size(): stored raw). kCorrupt when the frame
  /// is not exactly one zstd frame without dictionary whose declared content size is raw.size();
  /// kUnsupported for an unknown encoding.
  Status Decode(Encoding encoding, uint32_t element_bytes, std::span<const std::byte> stored,
                std::span<std::byte> raw);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_CODEC_H_
