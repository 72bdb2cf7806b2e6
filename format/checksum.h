#ifndef DSCKPT_FORMAT_CHECKSUM_H_
#define DSCKPT_FORMAT_CHECKSUM_H_

// The hashes of the format: XXH3 of chunks and regions, and the digests of items.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dsckpt/dtype.h"
#include "dsckpt/encoding.h"
#include "dsckpt/limits.h"

namespace dsckpt::format {

Hash128 HashChunk(std::span<const std::byte> bytes);
uint64_t Hash64(std::span<const std::byte> bytes);

/// XXH3-128 of bytes that arrive in parts. Reusable; move-only (the state is 576 bytes,
/// 64-aligned).
class ChunkHasher {
 public:
  ChunkHasher();
  ~ChunkHasher();
  ChunkHasher(ChunkHasher&&) noexcept;
  ChunkHasher& operator=(ChunkHasher&&) noexcept;
  void Reset();
  void Update(std::span<const std::byte> bytes);
  Hash128 Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of an item: XXH3-128 over hash id, dtype code, rank, dims and chunk sums
/// (spec/format.md, "Digests").
Hash128 TensorDigest(uint16_t dtype_code, std::span<const int64_t> shape,
                     std::span<const Hash128> sums);
/// Objects: dtype code 0, rank 1, dims {raw_bytes}.
Hash128 ObjectDigest(uint64_t raw_bytes, std::span<const Hash128> sums);

/// 32 lower-case hex digits, high half first.
std::string ToHex(const Hash128& hash);

/// Chunks of an item of `raw_bytes` bytes.
constexpr uint64_t ChunkCount(uint64_t raw_bytes) {
  return raw_bytes / kChunkBytes + (raw_bytes % kChunkBytes != 0);
}

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_CHECKSUM_H_
