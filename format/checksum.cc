#define XXH_STATIC_LINKING_ONLY  // For the size of XXH3_state_t.
#include "format/checksum.h"

#include <xxhash.h>

#include <vector>

#include "base/little_endian.h"
#include "base/text.h"

namespace dsckpt::format {
namespace {

constexpr uint16_t kHashId = 1;  // XXH3-128 (spec/format.md, "Registry: hashes").

Hash128 FromXxh(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

}  // namespace

struct ChunkHasher::State {
  XXH3_state_t xxh;
};

Hash128 HashChunk(std::span<const std::byte> bytes) {
  return FromXxh(XXH3_128bits(bytes.data(), bytes.size()));
}

uint64_t Hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

ChunkHasher::ChunkHasher() : state_(std::make_unique<State>()) { Reset(); }
ChunkHasher::~ChunkHasher() = default;
ChunkHasher::ChunkHasher(ChunkHasher&&) noexcept = default;
ChunkHasher& ChunkHasher::operator=(ChunkHasher&&) noexcept = default;

void ChunkHasher::Reset() { XXH3_128bits_reset(&state_->xxh); }

void ChunkHasher::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Hash128 ChunkHasher::Digest() const { return FromXxh(XXH3_128bits_digest(&state_->xxh)); }

Hash128 TensorDigest(uint16_t dtype_code, std::span<const int64_t> shape,
                     std::span<const Hash128> sums) {
  std::vector<std::byte> text(8 + 8 * shape.size() + 16 * sums.size());
  std::byte* at = text.data();
  const auto put = [&at](auto value) {
    StoreLittleEndian(at, value);
    at += sizeof value;
  };
  put(kHashId);
  put(dtype_code);
  put(static_cast<uint32_t>(shape.size()));
  for (const int64_t dim : shape) put(dim);
  for (const Hash128& sum : sums) {
    put(sum.low);
    put(sum.high);
  }
  return HashChunk(text);
}

Hash128 ObjectDigest(uint64_t raw_bytes, std::span<const Hash128> sums) {
  const int64_t dims[] = {static_cast<int64_t>(raw_bytes)};
  return TensorDigest(0, dims, sums);
}

std::string ToHex(const Hash128& hash) { return Hex64(hash.high) + Hex64(hash.low); }

}  // namespace dsckpt::format
